"""Features -> batches. Which rows a batch holds follows from (seed, step) alone.

Letters: N towers, R rows of tokens a tower, S places for examples a row, T tokens.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from bert_mgpu.data import packing
from bert_mgpu.data.packing import EMPTY, Placement
from bert_mgpu.task import Features

Item = TypeVar("Item")
POLICIES = ("max_length", "longest", "bucket", "pack")
_WINDOW = 50  # steps that bucket sorts together
_SAMPLE = 300  # steps, or rows, that shapes are chosen by
_PACKED_ROWS = 100_000  # that packed shapes are tried on


@functools.lru_cache(maxsize=2)  # a batch may run across the end of an epoch
def epoch_order(rows: int, epoch: int, seed: int) -> np.ndarray:
    """All row numbers in the order of one epoch, int64 [rows]."""
    return np.random.default_rng([seed, epoch]).permutation(rows)


def collate(features: Features, placement: Placement) -> dict[str, np.ndarray]:
    """The batch of the placed rows, zeros elsewhere.

    -> every ragged column int32 [N, R, T]; `input_mask` [N, R, T], 0 at padding, else
    the number of the token's example in its row, from 1; every dense column [N, R * S];
    `is_real_example` float32 [N, R * S]. If S > 1 also `position_ids` [N, R, T], from 0
    in each example, and `first_tokens` [N, R, S], where each example starts.
    """
    towers, rows, places = placement.numbers.shape
    shape = (towers, rows, placement.length)
    at = np.flatnonzero(placement.numbers.reshape(-1) != EMPTY)
    numbers = placement.numbers.reshape(-1)[at]
    sizes = features.lengths[numbers]
    # All tokens of the batch in a row: where each comes from and where it goes.
    inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    starts = at // places * placement.length + placement.offsets.reshape(-1)[at]
    targets = np.repeat(starts, sizes) + inside

    def spread(values: np.ndarray) -> np.ndarray:
        tokens = np.zeros(np.prod(shape), np.int32)
        tokens[targets] = values
        return tokens.reshape(shape)

    def of_places(values: np.ndarray) -> np.ndarray:
        filled = np.zeros(placement.numbers.size, values.dtype)
        filled[at] = values
        return filled.reshape(towers, rows * places)

    batch = {
        name: spread(column.values[np.repeat(column.offsets[numbers], sizes) + inside])
        for name, column in features.ragged.items()
    }
    batch["input_mask"] = spread(np.repeat(at % places + 1, sizes))
    if places > 1:
        batch["position_ids"] = spread(inside)
        batch["first_tokens"] = placement.offsets.astype(np.int32)
    for name, values in features.dense.items():
        batch[name] = of_places(values[numbers])
    batch["is_real_example"] = of_places(np.ones(len(at), np.float32))
    return batch


def padding_share(placements: Iterable[Placement], lengths: np.ndarray) -> float:
    """The share of all tokens that are padding."""
    tokens = real = 0
    for placement in placements:
        numbers = placement.numbers
        tokens += numbers.shape[0] * numbers.shape[1] * placement.length
        real += int(lengths[numbers[numbers != EMPTY]].sum())
    return 1 - real / tokens


def _width(length: int, most: int) -> int:
    """Tokens to pad to: a multiple of 8, but no more than the model has places for."""
    return min(int(packing.rounded(length)), most)


class TrainingOrder:
    """Which rows each step trains on and where they stand in its batch."""

    def __init__(
        self,
        lengths: np.ndarray,
        towers: int,
        rows_per_tower: int,
        padding: str,
        max_length: int,
        seed: int,
        sample: int | None = None,
    ):
        """lengths: tokens of each row; sample: steps, at most, that choose shapes."""
        self._lengths = lengths
        self._towers = towers
        self._per_tower = rows_per_tower
        self._padding = padding
        self._max_length = max_length
        self._seed = seed
        self._longest = _width(lengths.max(), max_length)
        self._sorted = functools.lru_cache(maxsize=1)(self._sorted_window)
        most = min(sample or _SAMPLE, len(lengths) // self._batch)
        if padding == "pack":
            most = min(most, _PACKED_ROWS // self._batch)
        steps = range(max(1, most))
        if padding == "pack":
            groups = [
                lengths[mine]
                for step in steps
                for mine in self._numbers(step).reshape(towers, -1)
            ]
            self._shape = packing.packed_shape(groups, self._longest)
        elif padding in ("longest", "bucket"):
            needs = [lengths[self._numbers(step)].max() for step in steps]
            widths = packing.few_widths(np.array([*needs, lengths.max()]))
            self._widths = [_width(width, max_length) for width in widths]

    @property
    def _batch(self) -> int:
        return self._towers * self._per_tower

    def widest(self) -> Placement:
        """A batch of the shape that takes the most memory (packed: almost surely)."""
        if self._padding == "pack":
            return self.placement(0)
        length = self._max_length
        if self._padding != "max_length":
            length = self._widths[-1]
        return packing.one_a_row(self._numbers(0), self._towers, length)

    def placement(self, step: int) -> Placement:
        numbers = self._numbers(step)
        if self._padding == "pack" and self._shape.places > 1:
            packed = packing.pack(numbers, self._lengths, self._towers, self._shape)
            # A batch that is longer than all of the sample: one compilation more.
            return packed or packing.one_a_row(numbers, self._towers, self._longest)
        if self._padding == "pack":  # no two rows go into one
            return packing.one_a_row(numbers, self._towers, self._longest)
        length = self._max_length
        if self._padding != "max_length":
            longest = self._lengths[numbers].max()
            length = next(width for width in self._widths if width >= longest)
        return packing.one_a_row(numbers, self._towers, length)

    def _numbers(self, step: int) -> np.ndarray:
        rows = len(self._lengths)
        if self._padding != "bucket":
            return rows_of_step(rows, self._batch, step, self._seed)
        first, last = window_of_step(rows, self._batch, step, _WINDOW)
        return self._sorted(first, last)[step - first]

    def _sorted_window(self, first: int, last: int) -> np.ndarray:
        """The rows of some steps sorted by length, in batches of random order."""
        rows = len(self._lengths)
        numbers = np.concatenate(
            [rows_of_step(rows, self._batch, s, self._seed) for s in range(first, last)]
        )
        numbers = numbers[np.argsort(self._lengths[numbers], kind="stable")]
        shuffled = np.random.default_rng([self._seed, first, last])
        return shuffled.permutation(numbers.reshape(-1, self._batch))


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


def window_of_step(rows: int, batch: int, step: int, size: int) -> tuple[int, int]:
    """The steps [first, last) that are sorted together with this one.

    No window reaches across the step at which an epoch ends: a run of whole epochs
    sees every row, and goes on in the same order if it is given more of them.
    """
    epoch = ((step + 1) * batch - 1) // rows
    begin, end = rows * epoch // batch, rows * (epoch + 1) // batch
    first = begin + (step - begin) // size * size
    return first, min(first + size, end)


def forward_placements(
    lengths: np.ndarray,
    towers: int,
    rows_per_tower: int,
    padding: str,
    max_length: int,
) -> list[Placement]:
    """Every row once, rows of like length together, the longest first.

    Packed if training packs and this leaves room for it, else padded to one of a few
    widths: only training can be asked to pad more. The longest come first so that a
    lack of memory shows at once. A tower gets at most `rows_per_tower` rows of the
    longest example, or as many tokens.
    """
    longest = _width(lengths.max(), max_length)
    if padding == "pack":
        rng = np.random.default_rng(0)
        sample = lengths[rng.permutation(len(lengths))[:_SAMPLE]]
        shape = packing.packed_shape([np.append(sample, longest)], longest)
        share = rows_per_tower * longest // shape.length
        if share > 0 and shape.places > 1:
            rows = packing.fill_rows(lengths, shape.length, shape.places)
            shape = shape._replace(rows=min(share, -(-len(rows) // towers)))
            return _in_turn(rows, lengths, towers, shape)
    size = towers * rows_per_tower
    order = np.argsort(-lengths, kind="stable")
    full = -(-len(order) // size) * size
    order = np.concatenate([order, np.full(full - len(order), EMPTY)])
    batches = order.reshape(-1, size)
    widths = packing.few_widths(lengths[batches[:, 0]])
    widths = [_width(width, max_length) for width in widths]
    return [
        packing.one_a_row(
            numbers, towers, next(w for w in widths if w >= lengths[numbers[0]])
        )
        for numbers in batches
    ]


def _in_turn(
    rows: list[list[int]], lengths: np.ndarray, towers: int, shape: packing.Shape
) -> list[Placement]:
    """Batches of packed rows, shape.rows of them for each tower."""
    size = towers * shape.rows
    return [
        packing.place_rows(
            [rows[i : i + shape.rows] for i in range(b, b + size, shape.rows)],
            lengths,
            shape,
        )
        for b in range(0, len(rows), size)
    ]


def forward_all(
    features: Features,
    placements: list[Placement],
    outputs: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]],
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
) -> dict[str, np.ndarray]:
    """`outputs` of every row, in the order of the rows: arrays [rows, ...]."""
    results: dict[str, np.ndarray] = {}
    with ahead(collate(features, placement) for placement in placements) as batches:
        for placement, batch in zip(progress(placements), batches, strict=True):
            numbers = placement.numbers.reshape(-1)
            real = numbers != EMPTY
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
