"""Where the examples of a batch stand: one in a row, or several packed into one.

Letters: N towers, R rows of tokens a tower, S places for examples a row, T tokens
of a row, P targets of a row. An example never crosses the end of a row.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

EMPTY = -1  # the number of a place without an example
_LONGEST_PACKED = 512  # tokens of a row, unless an example is longer


class Shape(NamedTuple):
    """The static shape of what a tower is given: XLA compiles once for each."""

    rows: int  # R
    length: int  # T
    places: int  # S; 1 is not packed


class Placement(NamedTuple):
    """numbers, offsets: int64 [N, R, S]; which example stands where in which row."""

    numbers: np.ndarray  # EMPTY where there is none
    offsets: np.ndarray  # tokens before it in its row
    length: int  # T
    targets: int = 0  # P, places for targets in a row

    def share(self, towers: range, of: int) -> Placement:
        """What some of the towers get, of so many: each has as many parts of it."""
        parts = len(self.numbers) // of
        own = slice(towers.start * parts, towers.stop * parts)
        return self._replace(numbers=self.numbers[own], offsets=self.offsets[own])

    def token_indices(self, lengths: np.ndarray) -> np.ndarray:
        """Where each token of the examples stands among the N * R * T of the batch.

        lengths: int [examples], tokens of each, in the order of the batch. -> int64
        [sum of lengths].
        """
        at = np.flatnonzero(self.numbers.reshape(-1) != EMPTY)
        row = at // self.numbers.shape[2]
        starts = row * self.length + self.offsets.reshape(-1)[at]
        before = np.cumsum(lengths) - lengths  # tokens of the examples before each
        return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def one_a_row(numbers: np.ndarray, towers: int, length: int) -> Placement:
    """int64 [N * R] -> every example in a row of its own."""
    shaped = numbers.reshape(towers, -1, 1)
    return Placement(shaped, np.zeros_like(shaped), length)


def fill_rows(lengths: np.ndarray, length: int, places: int) -> list[list[int]]:
    """Packs examples into few rows: the indices of each row's, best fit decreasing.

    Every example goes to the fullest row that has room for it (Johnson 1973), the
    longest ones first. lengths: int [examples], none above `length`.
    """
    rows: list[list[int]] = []
    open_rows: list[tuple[int, int]] = []  # (room, row), sorted
    for index in np.argsort(-lengths, kind="stable").tolist():
        size = int(lengths[index])
        place = bisect.bisect_left(open_rows, (size, 0))
        if place == len(open_rows):
            rows.append([])
            room, row = length, len(rows) - 1
        else:
            room, row = open_rows.pop(place)
        rows[row].append(index)
        if len(rows[row]) < places:
            bisect.insort(open_rows, (room - size, row))
    return rows


def pack(
    numbers: np.ndarray, lengths: np.ndarray, towers: int, *, shapes: Sequence[Shape]
) -> Placement | None:
    """The examples of a step packed into the rows of its towers, one after the other.

    Which examples share a row, and its place in the batch, follow from the length of
    rows and not from the towers.

    numbers: int64 [examples]; lengths: int, of each of them. shapes: for all towers
    together, ever more of the same rows; the first with room for all is taken. None if
    there is none.
    """
    if not shapes:
        return None
    rows = fill_rows(lengths, shapes[0].length, shapes[0].places)
    for shape in shapes:
        if len(rows) <= shape.rows:
            share = shape._replace(rows=-(-shape.rows // towers))
            placed = place_rows(split_rows(rows, towers, share), lengths, share)
            named = np.append(numbers, EMPTY)[placed.numbers]  # EMPTY is the last one
            return placed._replace(numbers=named)
    return None


def split_rows(
    rows: list[list[int]], towers: int, shape: Shape
) -> list[list[list[int]]]:
    """Rows for each tower, one after the other; the last ones may get fewer."""
    firsts = range(0, towers * shape.rows, shape.rows)
    return [rows[first : first + shape.rows] for first in firsts]


def place_rows(
    towers: Sequence[Sequence[Sequence[int]]], lengths: np.ndarray, shape: Shape
) -> Placement:
    """The numbers of each row of each tower -> their places, one after the other."""
    full = (len(towers), shape.rows, shape.places)
    placed = np.full(full, EMPTY, np.int64)
    offsets = np.zeros(full, np.int64)
    for tower, rows in enumerate(towers):
        for row, numbers in enumerate(rows):
            placed[tower, row, : len(numbers)] = numbers
            ends = np.cumsum(lengths[numbers])
            offsets[tower, row, 1 : len(numbers)] = ends[:-1]
    return Placement(placed, offsets, shape.length)


def most_targets(numbers: np.ndarray, counts: np.ndarray) -> int:
    """The most targets of any row of tokens.

    numbers: int64 [N, R, S], EMPTY allowed; counts: int, targets of each example.
    """
    known = np.where(numbers == EMPTY, 0, counts[numbers % len(counts)])
    return int(known.sum(-1).max())


def rounded(length: Any, multiple: int = 8) -> Any:
    """Up to a multiple of it, a number or an array of them."""
    return -(-length // multiple) * multiple


def few_widths(
    longest: np.ndarray, most: int = 8, multiple: int = 2, *, worth: float = 0.0
) -> list[int]:
    """Lengths to pad batches to: few, for few compilations, and with little waste.

    longest: int [batches], the longest row of each. Of all choices of so many
    multiples, the one that pads these batches least; the last fits all. worth: each
    width more has to save the tokens of so many of these batches.
    """
    needs, counts = np.unique(rounded(longest, multiple), return_counts=True)
    batches = np.append(0, np.cumsum(counts))  # of the i smallest needs
    # cost[i]: tokens of the batches of the i smallest needs, with the best widths.
    cost = np.full(len(needs) + 1, np.inf)
    cost[0] = 0
    chosen: list[list[int]] = [[] for _ in range(len(needs) + 1)]
    for _ in range(min(most, len(needs))):
        before, lists = cost.copy(), list(chosen)
        for end in range(1, len(needs) + 1):
            with_one = batches[end] - batches[:end]  # those that this width is for
            tokens = before[:end] + needs[end - 1] * with_one
            start = int(tokens.argmin())
            if tokens[start] < cost[end]:
                cost[end] = tokens[start]
                chosen[end] = [*lists[start], int(needs[end - 1])]
        share = 1 - cost[-1] / before[-1]  # that this width saves; of all at first
        if share * batches[-1] < worth and lists[-1]:
            return lists[-1]
    return chosen[-1]


def packed_shape(groups: Sequence[np.ndarray], longest: int, towers: int = 1) -> Shape:
    """The shape that holds each of these groups of examples in the fewest tokens.

    groups: the lengths of the examples of one step, for many steps. Its rows are those
    of all towers together, as many for each.
    Rows may be one to four times as long as the longest example, but not of more than
    512 tokens for that: the scores of attention grow with the square.
    """
    start = rounded(longest)
    most = max(start, min(4 * start, _LONGEST_PACKED))
    best: Shape | None = None
    for length in range(start, most + 1, rounded(start // 4)):
        packed = [fill_rows(group, length, length) for group in groups]
        places = max(len(row) for rows in packed for row in rows)
        of_a_tower = -(-max(map(len, packed)) // towers)
        shape = Shape(towers * of_a_tower, length, places)
        if best is None or shape.rows * length < best.rows * best.length:
            best = shape
    assert best is not None
    return best
