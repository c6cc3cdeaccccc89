"""The placement of rows in the batches of an evaluation, a prediction or a stream.

Letters as in batching.py.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rng.shuffles import SHUFFLES
from bert_mgpu.data import packing
from bert_mgpu.data.batching import (
    BATCHES_SAVED_PER_WIDTH,
    widths_for,
)
from bert_mgpu.data.packing import EMPTY, MostTargets, Placement, Shape

_SAMPLE = 300  # rows from which the packed shape is chosen
_SHORTEST = 8  # tokens of a row in a stream; shorter ones are padded
# A compiled shape is reused if it takes at most this share more tokens than the best
# shape, plus the tokens of one batch.
_MORE_TOKENS = 0.1


class PassShape(NamedTuple):
    """The static shape of a batch in a forward pass over many rows."""

    rows: Shape
    targets: int  # P
    real_targets: int | None = None  # M; None: R * P

    @classmethod
    def of(cls, placement: Placement) -> PassShape:
        _, rows, examples = placement.numbers.shape
        shape = Shape(rows, placement.length, examples)
        return cls(shape, placement.targets, placement.real_targets)


def forward_placements(
    lengths: np.ndarray,
    towers: int,
    rows_per_tower: int,
    *,
    packs: bool,
    max_length: int,
    target_counts: np.ndarray | None = None,
    compiled: Collection[PassShape] = (),
) -> list[Placement]:
    """Places every row once, the longest first.

    The longest come first so that a lack of memory shows at once. A tower gets at most
    `rows_per_tower` rows as long as the longest example, or as many tokens. packs:
    whether several examples may share a row of tokens, if that leaves less padding than
    a few widths do. target_counts: the most targets of each row. compiled: shapes from
    earlier passes over much the same rows; one is reused if it costs few more tokens.
    """
    target_counts = np.zeros_like(lengths) if target_counts is None else target_counts
    sorted_rows = _sorted_rows(
        lengths,
        towers,
        rows_per_tower,
        max_length=max_length,
        target_counts=target_counts,
    )
    if not packs:
        return sorted_rows
    packed = _packed_rows(
        lengths,
        towers,
        rows_per_tower,
        max_length=max_length,
        target_counts=target_counts,
    )
    best = min([sorted_rows, packed], key=_tokens) if packed else sorted_rows
    again = [*_again(compiled, lengths, towers, target_counts=target_counts)]
    if not again:
        return best
    placed = min(again, key=_cost)
    worth = (1 + _MORE_TOKENS) * _tokens(best) + _tokens(placed[:1])
    return placed if _tokens(placed) <= worth else best


def _cost(placements: list[Placement]) -> tuple[int, int]:
    return _tokens(placements), placements[0].most_real_targets


def _again(
    compiled: Collection[PassShape],
    lengths: np.ndarray,
    towers: int,
    *,
    target_counts: np.ndarray,
) -> Iterator[list[Placement]]:
    """Yields the placements of all rows in each compiled shape that can hold them."""
    for shape, targets, real in compiled:
        if lengths.max() > shape.length:
            continue
        rows = packing.fill_rows(lengths, shape.length, shape.examples_per_row)
        placed = _in_batches(rows, lengths, towers, shape=shape)
        most = _most_targets(placed, target_counts)
        if most.row <= targets:
            real = None if real is None or most.tower > real else real
            yield [each._replace(targets=targets, real_targets=real) for each in placed]


def _most_targets(placements: list[Placement], counts: np.ndarray) -> MostTargets:
    """The largest numbers of targets in any of these batches."""
    found = [packing.most_targets(each.numbers, counts) for each in placements]
    return MostTargets(max(m.row for m in found), max(m.tower for m in found))


def _with_targets(placements: list[Placement], counts: np.ndarray) -> list[Placement]:
    """Batches of one shape, with places for their targets and some more."""
    most = _most_targets(placements, counts)
    spare = packing.with_spare(most.tower)
    real = spare if spare < placements[0].numbers.shape[1] * most.row else None
    return [each._replace(targets=most.row, real_targets=real) for each in placements]


def stream_placements(
    lengths: np.ndarray,
    towers: int,
    rows_per_tower: int,
    *,
    max_length: int,
    target_counts: np.ndarray,
    segment: int | None = None,
) -> list[Placement]:
    """Places every row once, with few shapes to trace, however many rows there are.

    Sizes are powers of two, and few rows are empty. If there is more than one batch,
    the rows are sorted, the longest first, and a length may also be three quarters of a
    power of two. Beyond one segment (see `Batching`), this applies to the number of
    segments instead. See `forward_placements`.
    """
    sorts = len(lengths) > towers * rows_per_tower
    order = np.argsort(-lengths if sorts else 0 * lengths, kind="stable")
    placed, sizes = [], round_up_coarsely if sorts else _power_of_two
    for start in range(0, len(lengths), towers * rows_per_tower):
        batch = order[start : start + towers * rows_per_tower]
        rows = min(rows_per_tower, _power_of_two(-(-len(batch) // towers)))
        longest = int(lengths[batch].max())
        if segment is not None and longest > segment:
            width = segment * sizes(-(-longest // segment))
        else:
            width = min(segment or max_length, max(_SHORTEST, sizes(longest)))
        width = min(max_length, width)
        numbers = np.full(rows * towers, EMPTY)
        numbers[: len(batch)] = batch
        targets = _power_of_two(target_counts[batch].max())
        placement = packing.one_per_row(numbers, towers, width)
        placed.append(placement._replace(targets=targets))
    return placed


def round_up_coarsely(least: int) -> int:
    """The next power of two, or 3/4 of it if that suffices: 8, 12, 16, 24, 32, ..."""
    power = _power_of_two(least)
    return 3 * power // 4 if 4 * least <= 3 * power else power


def _power_of_two(least: int) -> int:
    """The next power of two, which may be the number itself; 0 for 0."""
    return 1 << int(least - 1).bit_length() if least else 0


def _sorted_rows(
    lengths: np.ndarray,
    towers: int,
    rows_per_tower: int,
    *,
    max_length: int,
    target_counts: np.ndarray,
) -> list[Placement]:
    """Placements of one example per row, in a few widths."""
    size = towers * rows_per_tower
    order = np.argsort(-lengths, kind="stable")
    full = -(-len(order) // size) * size
    order = np.concatenate([order, np.full(full - len(order), EMPTY)])
    batches = order.reshape(-1, size)
    widths = widths_for(lengths[batches[:, 0]], max_length, BATCHES_SAVED_PER_WIDTH)
    width_of = [next(w for w in widths if w >= lengths[ns[0]]) for ns in batches]
    found, pairs = list[Placement](), zip(width_of, batches, strict=True)
    for width, own in itertools.groupby(pairs, operator.itemgetter(0)):
        placed = [packing.one_per_row(numbers, towers, width) for _, numbers in own]
        found += _with_targets(placed, target_counts)
    return found


def _packed_rows(
    lengths: np.ndarray,
    towers: int,
    rows_per_tower: int,
    *,
    max_length: int,
    target_counts: np.ndarray,
) -> list[Placement]:
    """Placements of several examples per row; empty if no row can hold two."""
    longest = min(int(packing.rounded(lengths.max())), max_length)
    few = min(_SAMPLE, len(lengths))
    sample = lengths[SHUFFLES["counters"].sample(len(lengths), few, 0)]
    shape = packing.packed_shape([np.append(sample, longest)], longest)
    per_tower = rows_per_tower * longest // shape.length
    if per_tower == 0 or shape.examples_per_row == 1:
        return []
    rows = packing.fill_rows(lengths, shape.length, shape.examples_per_row)
    needed = -(-len(rows) // towers)
    batches = -(-needed // per_tower)
    shape = shape._replace(rows=-(-needed // batches))  # no batch is nearly empty
    placed = _in_batches(rows, lengths, towers, shape=shape)
    return _with_targets(placed, target_counts)


def _tokens(placements: list[Placement]) -> int:
    """The number of tokens of all rows, padding included."""
    return sum(np.prod(p.numbers.shape[:2]) * p.length for p in placements)


def _in_batches(
    rows: list[list[int]], lengths: np.ndarray, towers: int, *, shape: packing.Shape
) -> list[Placement]:
    """Batches of packed rows, `shape.rows` of them for each tower."""
    size = towers * shape.rows
    return [
        packing.place_rows(
            packing.split_rows(rows[b : b + size], towers, shape), lengths, shape
        )
        for b in range(0, len(rows), size)
    ]
