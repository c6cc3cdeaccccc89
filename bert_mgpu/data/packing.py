"""The placement of the examples of a batch: one per row, or several packed into one.

Letters: N towers, R rows of tokens per tower, at most S examples per row, T tokens and
P targets per row, of which at most M of a tower are real. An example never crosses the
end of a row.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

EMPTY = -1  # in place of an example's number if a row has fewer than S
_LONGEST_PACKED = 512  # tokens of a row, unless an example is longer


class Shape(NamedTuple):
    """The static shape of a tower's rows: XLA compiles once per shape."""

    rows: int  # R
    length: int  # T
    examples_per_row: int  # S; 1: not packed


class Placement(NamedTuple):
    """The examples of a batch, by row and order in the row; arrays: int64 [N, R, S]."""

    numbers: np.ndarray  # numbers of examples; EMPTY where there is none
    offsets: np.ndarray  # tokens before the example in its row
    length: int  # T
    targets: int = 0  # P
    real_targets: int | None = None  # M, of a tower; None: R * P

    @property
    def most_real_targets(self) -> int:
        """The real targets of a tower that there is a place for."""
        if self.real_targets is not None:
            return self.real_targets
        return self.numbers.shape[1] * self.targets

    def share(self, towers: range, total_towers: int) -> Placement:
        """The part for these towers, if split evenly over `total_towers`."""
        parts = len(self.numbers) // total_towers
        own = slice(towers.start * parts, towers.stop * parts)
        return self._replace(numbers=self.numbers[own], offsets=self.offsets[own])

    def token_indices(self, lengths: np.ndarray) -> np.ndarray:
        """The index of each example token among the N * R * T tokens of the batch.

        lengths: int [examples], tokens of each, in the order of the batch. -> int64
        [sum of lengths].
        """
        filled = np.flatnonzero(self.numbers.reshape(-1) != EMPTY)
        rows = filled // self.numbers.shape[2]
        starts = rows * self.length + self.offsets.reshape(-1)[filled]
        before = np.cumsum(lengths) - lengths  # tokens of the examples before each
        return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def one_per_row(numbers: np.ndarray, towers: int, length: int) -> Placement:
    """Places every example in a row of its own; numbers: int64 [N * R]."""
    shaped = numbers.reshape(towers, -1, 1)
    return Placement(shaped, np.zeros_like(shaped), length)


def fill_rows(
    lengths: np.ndarray, length: int, examples_per_row: int
) -> list[list[int]]:
    """The indices of the examples of each row, by best-fit decreasing (Johnson 1973).

    Every example, the longest first, goes to the fullest row that it fits into.
    lengths: int [examples], none above `length`.
    """
    rows: list[list[int]] = []
    open_rows: list[tuple[int, int]] = []  # (tokens left, row), sorted
    for index in np.argsort(-lengths, kind="stable").tolist():
        size = int(lengths[index])
        best = bisect.bisect_left(open_rows, (size, 0))
        if best == len(open_rows):
            rows.append([])
            left, row = length, len(rows) - 1
        else:
            left, row = open_rows.pop(best)
        rows[row].append(index)
        if len(rows[row]) < examples_per_row:
            bisect.insort(open_rows, (left - size, row))
    return rows


def pack(
    numbers: np.ndarray, lengths: np.ndarray, towers: int, *, shapes: Sequence[Shape]
) -> Placement | None:
    """Packs the examples of a step into the rows of its towers, one after the other.

    Which examples share a row, and that row's position in the batch, depend on the
    length of rows but not on the number of towers.

    numbers: int64 [examples]; lengths: int [examples]. shapes: for all towers together,
    with ever more rows of one length; the first that holds all examples is used. None
    if none does.
    """
    if not shapes:
        return None
    rows = fill_rows(lengths, shapes[0].length, shapes[0].examples_per_row)
    for shape in shapes:
        if len(rows) <= shape.rows:
            per_tower = shape._replace(rows=-(-shape.rows // towers))
            split = split_rows(rows, towers, per_tower)
            placed = place_rows(split, lengths, per_tower)
            indices = np.append(numbers, EMPTY)  # indices[EMPTY] is EMPTY
            return placed._replace(numbers=indices[placed.numbers])
    return None


def split_rows(
    rows: list[list[int]], towers: int, shape: Shape
) -> list[list[list[int]]]:
    """The rows of each tower, in order; the last towers may get fewer."""
    firsts = range(0, towers * shape.rows, shape.rows)
    return [rows[first : first + shape.rows] for first in firsts]


def place_rows(
    towers: Sequence[Sequence[Sequence[int]]], lengths: np.ndarray, shape: Shape
) -> Placement:
    """The placement of the rows of each tower, which are lists of example numbers."""
    full = (len(towers), shape.rows, shape.examples_per_row)
    placed = np.full(full, EMPTY, np.int64)
    offsets = np.zeros(full, np.int64)
    for tower, rows in enumerate(towers):
        for row, numbers in enumerate(rows):
            placed[tower, row, : len(numbers)] = numbers
            ends = np.cumsum(lengths[numbers])
            offsets[tower, row, 1 : len(numbers)] = ends[:-1]
    return Placement(placed, offsets, shape.length)


class MostTargets(NamedTuple):
    """The largest numbers of targets in a batch."""

    row: int  # of a row of tokens
    tower: int


def most_targets(numbers: np.ndarray, counts: np.ndarray) -> MostTargets:
    """numbers: int64 [N, R, S], EMPTY allowed; counts: int, targets of each example."""
    by_example = np.where(numbers == EMPTY, 0, counts[numbers % len(counts)])
    by_row = by_example.sum(-1)
    return MostTargets(int(by_row.max()), int(by_row.sum(-1).max()))


def with_spare(targets: int, more: int = 0) -> int:
    """Places that almost surely suffice for other batches: a quarter more, or `more`.

    targets: the largest number of real targets in the batches that are known.
    """
    return int(rounded(max(targets * 5 // 4, targets + more)))


def rounded(length: Any, multiple: int = 8) -> Any:
    """A number, or an array of them, rounded up to a multiple."""
    return -(-length // multiple) * multiple


def few_widths(
    longest: np.ndarray, most: int = 8, multiple: int = 2, *, worth: float = 0.0
) -> list[int]:
    """A few widths to pad batches to: little to compile, and little padding.

    longest: int [batches], the longest row of each. The result is the choice of at most
    `most` multiples that pads these batches least; the last one fits all of them.
    worth: each further width has to save the tokens of this many of these batches.
    """
    needs, counts = np.unique(rounded(longest, multiple), return_counts=True)
    batches = np.append(0, np.cumsum(counts))  # [i]: those of the i smallest needs
    # cost[i]: tokens of the batches with the i smallest needs, at the best widths.
    cost = np.full(len(needs) + 1, np.inf)
    cost[0] = 0
    chosen: list[list[int]] = [[] for _ in range(len(needs) + 1)]
    for _ in range(min(most, len(needs))):
        before, lists = cost.copy(), list(chosen)
        for end in range(1, len(needs) + 1):
            padded = batches[end] - batches[:end]  # batches of this width
            tokens = before[:end] + needs[end - 1] * padded
            start = int(tokens.argmin())
            if tokens[start] < cost[end]:
                cost[end] = tokens[start]
                chosen[end] = [*lists[start], int(needs[end - 1])]
        saved = 1 - cost[-1] / before[-1]  # the fraction; 1 for the first width
        if saved * batches[-1] < worth and lists[-1]:
            return lists[-1]
    return chosen[-1]


def packed_shape(groups: Sequence[np.ndarray], longest: int, towers: int = 1) -> Shape:
    """The shape that holds each of these groups of examples in the fewest tokens.

    groups: the lengths of the examples of each of many steps. The shape has the rows of
    all towers together, equally many for each. A row may be one to four times as long
    as the longest example, but only up to 512 tokens, unless that example is longer:
    the attention scores grow with the square of the length.
    """
    start = rounded(longest)
    most = max(start, min(4 * start, _LONGEST_PACKED))
    best: Shape | None = None
    for length in range(start, most + 1, rounded(start // 4)):
        packed = [fill_rows(group, length, length) for group in groups]
        per_row = max(len(row) for rows in packed for row in rows)
        per_tower = -(-max(map(len, packed)) // towers)
        shape = Shape(towers * per_tower, length, per_row)
        if best is None or shape.rows * length < best.rows * best.length:
            best = shape
    assert best is not None
    return best
