"""Prediction of a stream: rows from standard input, to standard output as they come."""

from __future__ import annotations

import dataclasses
import functools
import queue
import threading
from collections.abc import Iterator

from bert_mgpu.core import log
from bert_mgpu.core.errors import RunError
from bert_mgpu.core.log import say
from bert_mgpu.core.rows import Example
from bert_mgpu.evaluation import result_files
from bert_mgpu.evaluation.forward import scored_rows
from bert_mgpu.runs.run import FinetuningRun
from bert_mgpu.training.towers import Towers


def predict(run: FinetuningRun, towers: Towers) -> None:
    """Writes a line of JSON, as in predictions.jsonl, for each row that is read.

    Rows that have come by now are predicted together, up to a batch. The stream ends
    with the input, or when nobody reads the output any more. A row that cannot be read
    ends it with an error, after the predictions of the rows before it.
    """
    say("predicting standard input, one line at a time, until it ends")
    task, data, count = run.task, run.data, 0
    settings = run.forward_settings("predict", predicting=True)
    settings = dataclasses.replace(settings, streams=True)
    score = functools.partial(scored_rows, settings=settings, note=lambda text: None)
    for examples in _blocks(data.stream(), towers.n_towers * settings.batch_size):
        rows = data.featurise(examples)
        scored = score(task, rows, towers, examples=lambda: examples)  # noqa: B023
        ids = [example.guid for example in examples] if data.has_ids else None
        lines = result_files.json_lines(task.decide(scored), rows, ids)
        if not log.write_stdout("".join(lines)):
            return
        count += len(examples)
    say(f"predicted {count} examples")


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
