"""Predicts rows as they come: standard input to standard output, a row a line."""

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
from bert_mgpu.tasks.base import FinetuningTask
from bert_mgpu.tasks.dataset import TaskDataset
from bert_mgpu.training.towers import Towers

_LEAST = 8  # tokens to pad to


def predict(task: FinetuningTask, data: TaskDataset, towers: Towers) -> None:
    """Writes a line of JSON, as in predictions.jsonl, for each row that is read.

    What is there is answered at once, up to a batch of rows together. Ends with the
    input, or when nobody reads the output any more. A row that cannot be read ends
    it with an error, after those before it are answered.
    """
    say("predicting standard input: a row a line, until its end")
    count, named, config = 0, data.has_ids, data.config
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
        found = task.scored_rows(task.infer(rows, forward), rows, lambda: examples)  # noqa: B023
        ids = [example.guid for example in examples] if named else None
        lines = result_files.json_lines(task.decide(found), rows, ids)
        if not log.write_stdout("".join(lines)):
            return
        count += len(examples)
    say(f"predicted {count} rows")


def placements(
    lengths: np.ndarray, towers: int, most: int, *, max_length: int
) -> list[packing.Placement]:
    """The rows in batches whose sizes are powers of two: few shapes to trace.

    lengths: tokens of each row; most: rows of a tower.
    """
    placed = []
    for start in range(0, len(lengths), towers * most):
        some = lengths[start : start + towers * most]
        rows = min(most, _power(-(-len(some) // towers)))
        width = min(max_length, max(_LEAST, _power(int(some.max()))))
        numbers = np.full(rows * towers, packing.EMPTY)
        numbers[: len(some)] = np.arange(start, start + len(some))
        placed.append(packing.one_a_row(numbers, towers, width))
    return placed


def _power(value: int) -> int:
    """The next power of two."""
    return 1 << (value - 1).bit_length()


def _blocks(examples: Iterator[Example], most: int) -> Iterator[list[Example]]:
    """What has been read by now, at least one, at most so many."""
    read: queue.Queue[Example | Exception | None] = queue.Queue(most)

    def work() -> None:
        try:
            for example in examples:
                read.put(example)
            read.put(None)
        except Exception as error:  # it is the other thread's
            read.put(error)

    # Nothing else ends a read that waits for input.
    threading.Thread(target=work, daemon=True).start()
    end: Exception | None = None
    going = True
    while going:
        block: list[Example] = []
        while len(block) < most:
            try:
                one = read.get(block=not block)
            except queue.Empty:
                break
            if not isinstance(one, Example):
                going, end = False, one
                break
            block.append(one)
        if block:
            yield block
    if isinstance(end, RunError):
        raise end
    if end is not None:
        raise RuntimeError("standard input cannot be read") from end
