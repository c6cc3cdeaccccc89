"""Features -> batches. Which rows a batch holds follows from (seed, step) alone.

A global batch is a dict of arrays [N, b, ...]: N towers of b rows.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bert_mgpu.task import Features

Item = TypeVar("Item")
EMPTY = -1  # the row number of a place that only fills a batch up


@functools.lru_cache(maxsize=2)  # a batch may run across the end of an epoch
def epoch_order(rows: int, epoch: int, seed: int) -> np.ndarray:
    """All row numbers in the order of one epoch, int64 [rows]."""
    return np.random.default_rng([seed, epoch]).permutation(rows)


def rows_of_step(rows: int, batch: int, step: int, seed: int) -> np.ndarray:
    """Row numbers of the global batch of a step, int64 [batch].

    Epochs follow each other without a gap: no row is dropped at their ends.
    """
    places = np.arange(step * batch, (step + 1) * batch)
    epochs, positions = np.divmod(places, rows)
    numbers = np.empty(batch, np.int64)
    for epoch in np.unique(epochs):
        inside = epochs == epoch
        order = epoch_order(rows, int(epoch), seed)
        numbers[inside] = order[positions[inside]]
    return numbers


def collate(
    features: Features, numbers: np.ndarray, towers: int, length: int
) -> dict[str, np.ndarray]:
    """The batch of the given rows, padded to `length` tokens.

    numbers: int64 [N * b], EMPTY for places without a row, which come out as
    zeros with is_real_example 0. -> arrays [N, b, length] and [N, b].
    """
    real = numbers >= 0
    shape = (towers, len(numbers) // towers)
    batch: dict[str, np.ndarray] = {}
    for name, column in features.ragged.items():
        padded = np.zeros((len(numbers), length), np.int32)
        for place in np.flatnonzero(real):
            row = column.row(int(numbers[place]))
            padded[place, : len(row)] = row
        batch[name] = padded.reshape(*shape, length)
    lengths = np.where(real, features.lengths[numbers], 0)
    mask = np.arange(length) < lengths[:, None]
    batch["input_mask"] = mask.astype(np.int32).reshape(*shape, length)
    for name, values in features.dense.items():
        batch[name] = np.where(real, values[numbers], 0).reshape(shape)
    batch["is_real_example"] = real.astype(np.float32).reshape(shape)
    return batch


class ForwardBatch(NamedTuple):
    numbers: np.ndarray  # int64 [N * b]: row numbers, EMPTY at the end of the last
    length: int  # tokens that its rows are padded to


def _widths(longest: int) -> list[int]:
    """Few lengths to pad to, for few compilations: 16, 32, 64, ... longest."""
    widths = [width for width in (16, 32, 64, 128, 256) if width < longest]
    return [*widths, longest]


def forward_batches(
    lengths: np.ndarray, towers: int, rows_per_tower: int, longest: int
) -> list[ForwardBatch]:
    """Every row once, rows of like length together, the longest first.

    The longest come first so that a lack of memory shows at once.
    """
    size = towers * rows_per_tower
    order = np.argsort(-lengths, kind="stable")
    full = -(-len(order) // size) * size
    order = np.concatenate([order, np.full(full - len(order), EMPTY)])
    batches = []
    for numbers in order.reshape(-1, size):
        needed = lengths[numbers[0]]
        length = next(width for width in _widths(longest) if width >= needed)
        batches.append(ForwardBatch(numbers, length))
    return batches


def forward_all(
    features: Features,
    towers: int,
    rows_per_tower: int,
    longest: int,
    outputs: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]],
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
) -> dict[str, np.ndarray]:
    """`outputs` of every row, in the order of the rows: arrays [rows, ...]."""
    results: dict[str, np.ndarray] = {}
    batches = forward_batches(features.lengths, towers, rows_per_tower, longest)
    for numbers, length in progress(batches):
        batch = collate(features, numbers, towers, length)
        real = numbers >= 0
        for name, values in outputs(batch).items():
            if name not in results:
                shape = (len(features), *values.shape[1:])
                results[name] = np.empty(shape, values.dtype)
            results[name][numbers[real]] = values[real]
    return results


@contextlib.contextmanager
def ahead(items: Iterable[Item], depth: int = 4) -> Iterator[Iterator[Item]]:
    """Gives the same items, made in a thread of its own up to `depth` ahead."""
    made: queue.Queue[tuple[bool, Any]] = queue.Queue(depth)
    stop = threading.Event()

    def put(more: bool, value: Any) -> None:
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                made.put((more, value), timeout=0.1)
                return

    def work() -> None:
        try:
            for item in items:
                put(True, item)
                if stop.is_set():
                    return
            put(False, None)
        except Exception as error:  # raised where the item would be read
            put(False, error)

    def read() -> Iterator[Item]:
        while True:
            more, value = made.get()
            if more:
                yield value
            elif value is None:
                return
            else:
                raise value

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield read()
    finally:
        stop.set()
        thread.join()
