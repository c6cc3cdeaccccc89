"""Overlapping windows of a text that is longer than a row, and the core of each.

A text is cut at the borders of its units: words, or pieces. Every unit is in the core
of one window, the one that shows the most of its context (google-research/bert's
`_check_is_max_context`, of run_squad.py): so it is labelled and predicted just once.

Letters: U units of a text, W windows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LENGTH_WEIGHT = 0.01  # weight of a window's tokens relative to those of the context


class Windows(NamedTuple):
    """The windows of a text in order, as numbers of units: int64 [W] each."""

    starts: np.ndarray
    ends: np.ndarray  # excluded
    core_starts: np.ndarray
    core_ends: np.ndarray  # excluded; the next window's core begins there


def windows(sizes: np.ndarray, room: int, stride: int) -> Windows:
    """The windows of a text; a text without units has one, which is empty.

    A window whose core holds no unit is left out.

    Args:
      sizes: int [U], the tokens of each unit; longer ones count as `room` tokens.
      room: the largest number of tokens of a window.
      stride: the largest number of tokens from the start of a window to that of the
        next one, up to `room`; a window always starts at least one unit later.
    """
    sizes = np.minimum(sizes, room)
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    if offsets[-1] <= room:
        zero, count = np.zeros(1, np.int64), np.array([len(sizes)])
        return Windows(zero, count, core_starts=zero, core_ends=count)
    starts = [0]
    while offsets[-1] - offsets[starts[-1]] > room:
        start = starts[-1]
        farthest = np.searchsorted(offsets, offsets[start] + stride, side="right") - 1
        starts.append(max(start + 1, int(farthest)))
    first = np.array(starts)
    last = np.searchsorted(offsets, offsets[first] + room, side="right") - 1
    owners = _owners(offsets, first, last)
    numbers = np.arange(len(first))
    core_starts = np.searchsorted(owners, numbers, side="left")
    core_ends = np.searchsorted(owners, numbers, side="right")
    kept = core_ends > core_starts
    return Windows(
        first[kept],
        last[kept],
        core_starts=core_starts[kept],
        core_ends=core_ends[kept],
    )


def _owners(offsets: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The window whose core each unit is in: int64 [U], which never decreases."""
    positions = offsets[:-1]  # of the first token of each unit
    best, owners = np.full(len(positions), -np.inf), np.zeros(len(positions), np.int64)
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        low, high, own = offsets[start], offsets[end], slice(start, end)
        context = np.minimum(positions[own] - low, high - 1 - positions[own])
        scores = context + LENGTH_WEIGHT * (high - low)
        owners[own] = np.where(scores > best[own], number, owners[own])
        best[own] = np.maximum(scores, best[own])
    return owners
