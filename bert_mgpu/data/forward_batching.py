"""The placement of rows in the batches of an evaluation, a prediction or a stream.

Letters as in batching.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rng.shuffles import SHUFFLES
from bert_mgpu.data import packing
from bert_mgpu.data.batching import WORTH_A_WIDTH, most_targets_to, widths_for
from bert_mgpu.data.packing import EMPTY, Placement, Shape

_SAMPLE = 300  # rows from which the packed shape is chosen
_SHORTEST = 8  # tokens of a row of a stream: shorter ones are padded
# A shape that is compiled is used again, unless it takes this share of tokens more, and
# a batch of it more than that.
_MORE_TOKENS = 0.1


class PassShape(NamedTuple):
    """The static shape of a batch of a pass."""

    rows: Shape
    targets: int  # P

    @classmethod
    def of(cls, placement: Placement) -> PassShape:
        _, rows, examples = placement.numbers.shape
        return cls(Shape(rows, placement.length, examples), placement.targets)


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
    """The placements of every row once, by length, the longest first.

    packs: several may share a row of tokens, where that leaves less padding than a few
    widths do. The longest come first so that a lack of memory shows at once. A tower
    gets at most `rows_per_tower` rows of the longest example, or as many
    tokens. target_counts: targets of each row at most. compiled: of earlier passes over
    much the same rows; one of them is taken where it costs few tokens.
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
    placed = min(again, key=_tokens)
    worth = (1 + _MORE_TOKENS) * _tokens(best) + _tokens(placed[:1])
    return placed if _tokens(placed) <= worth else best


def _again(
    compiled: Collection[PassShape],
    lengths: np.ndarray,
    towers: int,
    *,
    target_counts: np.ndarray,
) -> Iterator[list[Placement]]:
    """The placements of all rows in each of these shapes that holds them."""
    for shape, targets in compiled:
        if lengths.max() > shape.length:
            continue
        rows = packing.fill_rows(lengths, shape.length, shape.examples_per_row)
        placed = _in_batches(rows, lengths, towers, shape=shape)
        if _most_targets(placed, target_counts) <= targets:
            yield [each._replace(targets=targets) for each in placed]


def _most_targets(placements: list[Placement], counts: np.ndarray) -> int:
    """The most targets of any row of tokens."""
    return max(packing.most_targets(each.numbers, counts) for each in placements)


def stream_placements(
    lengths: np.ndarray,
    towers: int,
    rows_per_tower: int,
    *,
    max_length: int,
    target_counts: np.ndarray,
    segment: int | None = None,
) -> list[Placement]:
    """The placements of every row once, in few shapes to trace, however many rows.

    Sizes are powers of two, with few rows that are empty. Rows of more than one batch
    are sorted, the longest first, and there a length may also be three quarters of a
    power of two. Beyond a segment (see `Batching`) it is the number of segments that
    is. See `forward_placements`.
    """
    sorts = len(lengths) > towers * rows_per_tower
    order = np.argsort(-lengths if sorts else 0 * lengths, kind="stable")
    placed, sizes = [], half_way if sorts else _power_of_two
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
        placement = packing.one_a_row(numbers, towers, width)
        placed.append(placement._replace(targets=targets))
    return placed


def half_way(least: int) -> int:
    """The next power of two, or three quarters of it: 8, 12, 16, 24, 32, 48, ..."""
    power = _power_of_two(least)
    return 3 * power // 4 if 4 * least <= 3 * power else power


def _power_of_two(least: int) -> int:
    """The next power of two; 0 of 0."""
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
    widths = widths_for(lengths[batches[:, 0]], max_length, WORTH_A_WIDTH)
    targets = {
        width: most_targets_to(width, lengths, target_counts) for width in widths
    }
    width_of = [next(w for w in widths if w >= lengths[ns[0]]) for ns in batches]
    return [
        packing.one_a_row(numbers, towers, width)._replace(targets=targets[width])
        for numbers, width in zip(batches, width_of, strict=True)
    ]


def _packed_rows(
    lengths: np.ndarray,
    towers: int,
    rows_per_tower: int,
    *,
    max_length: int,
    target_counts: np.ndarray,
) -> list[Placement]:
    """Placements of several examples per row; none where no two fit into one."""
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
    most = _most_targets(placed, target_counts)
    return [each._replace(targets=most) for each in placed]


def _tokens(placements: list[Placement]) -> int:
    """The number of tokens of all rows, padding included."""
    return sum(np.prod(p.numbers.shape[:2]) * p.length for p in placements)


def _in_batches(
    rows: list[list[int]], lengths: np.ndarray, towers: int, *, shape: packing.Shape
) -> list[Placement]:
    """Batches of packed rows, shape.rows of them for each tower."""
    size = towers * shape.rows
    return [
        packing.place_rows(
            packing.split_rows(rows[b : b + size], towers, shape), lengths, shape
        )
        for b in range(0, len(rows), size)
    ]
