"""Towers of one device take turns; their sums do not depend on who took which."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf


def pairwise_sum(tensors: Iterable[Any]) -> Any:
    """((a + b) + (c + d)) + ...: the order follows from the count alone."""
    level = list(tensors)
    while len(level) > 1:
        pairs = [a + b for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def sum_in_turn(part: Callable[[int], Any], indices: Iterable[int]) -> Any:
    """The pairwise sum of what `part` gives, worked out one after the other.

    Holds at most log2(indices) + 1 results: two sums of equally many are added at once.
    """
    held: list[tuple[int, Any]] = []  # sums of so many parts: ever fewer

    def add_last_two() -> None:
        (count, left), (more, right) = held.pop(-2), held.pop()
        held.append((count + more, tf.nest.map_structure(tf.add, left, right)))

    for index in indices:
        before = tf.nest.flatten(held[-1][1]) if held else []
        with tf.control_dependencies(before):
            held.append((1, part(index)))
        while len(held) > 1 and held[-1][0] == held[-2][0]:
            add_last_two()
    while len(held) > 1:
        add_last_two()
    return held[0][1]


def in_turn(tower: Callable[[int], Any], indices: Iterable[int]) -> list[Any]:
    """Runs the towers of one device one after the other, for memory's sake."""
    results: list[Any] = []
    for index in indices:
        before = tf.nest.flatten(results[-1])[:1] if results else []
        with tf.control_dependencies(before):
            results.append(tower(index))
    return results
