"""Prediction of a stream: rows from standard input, to standard output as they come."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import numpy as np

from bert_mgpu.core import log
from bert_mgpu.core.errors import RunError
from bert_mgpu.core.log import say
from bert_mgpu.core.rows import Example, Outputs, Rows
from bert_mgpu.data import packing, pipeline
from bert_mgpu.evaluation import result_files
from bert_mgpu.evaluation.forward import check_finite
from bert_mgpu.runs.run import FinetuningRun
from bert_mgpu.training.towers import Towers

_SHORTEST = 8  # tokens: shorter rows are padded


def predict(run: FinetuningRun, towers: Towers) -> None:
    """Writes a line of JSON, as in predictions.jsonl, for each row that is read.

    Rows that have come by now are predicted together, up to a batch. The stream ends
    with the input, or when nobody reads the output any more. A row that cannot be read
    ends it with an error, after the predictions of the rows before it.
    """
    say("predicting standard input, one line at a time, until it ends")
    count, config, task, data = 0, run.config, run.task, run.data
    batch, max_length = config.prediction_batch, config.max_seq_length

    def forward(rows: Rows) -> Outputs:
        if not len(rows):
            return {}
        outputs = pipeline.forward_all(
            rows,
            placements(rows.lengths, towers.n_towers, batch, max_length=max_length),
            towers.place_for_outputs,
            ask=towers.launch_outputs,
            token_outputs=task.token_outputs,
        )
        ordered = pipeline.in_order(outputs)
        check_finite(ordered, config.precision, "predict")
        return ordered

    towers.refresh()
    for examples in _blocks(data.stream(), towers.n_towers * batch):
        rows = data.featurise(examples)
        scored = task.scored_rows(task.infer(rows, forward), rows, lambda: examples)  # noqa: B023
        ids = [example.guid for example in examples] if data.has_ids else None
        lines = result_files.json_lines(task.decide(scored), rows, ids)
        if not log.write_stdout("".join(lines)):
            return
        count += len(examples)
    say(f"predicted {count} examples")


def placements(
    lengths: np.ndarray, towers: int, most: int, *, max_length: int
) -> list[packing.Placement]:
    """The rows in batches whose sizes are powers of two: few shapes to trace.

    lengths: tokens of each row; most: rows of a tower at a time.
    """
    placed = []
    for start in range(0, len(lengths), towers * most):
        batch = lengths[start : start + towers * most]
        rows = min(most, _next_power_of_two(-(-len(batch) // towers)))
        longest = _next_power_of_two(int(batch.max()))
        numbers = np.full(rows * towers, packing.EMPTY)
        numbers[: len(batch)] = np.arange(start, start + len(batch))
        width = min(max_length, max(_SHORTEST, longest))
        placed.append(packing.one_a_row(numbers, towers, width))
    return placed


def _next_power_of_two(value: int) -> int:
    return 1 << (value - 1).bit_length()


def _blocks(examples: Iterator[Example], most: int) -> Iterator[list[Example]]:
    """The examples in blocks of those that have been read by now, from 1 to `most`."""
    received: queue.Queue[Example | Exception | None] = queue.Queue(most)

    def read() -> None:
        try:
            for example in examples:
                received.put(example)
            received.put(None)
        except Exception as error:  # raised below, in the thread that predicts
            received.put(error)

    # A daemon: nothing else ends a read that waits for input.
    threading.Thread(target=read, daemon=True).start()
    error: Exception | None = None
    ended = False
    while not ended:
        block: list[Example] = []
        while len(block) < most:
            try:
                item = received.get(block=not block)
            except queue.Empty:
                break
            if not isinstance(item, Example):
                ended, error = True, item
                break
            block.append(item)
        if block:
            yield block
    if isinstance(error, RunError):
        raise error
    if error is not None:
        raise RuntimeError("standard input cannot be read") from error
