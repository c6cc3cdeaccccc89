"""Sums in a pairwise tree, whose order depends only on the number of terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf


def pairwise_sum(tensors: Iterable[Any]) -> Any:
    """The sum ((a + b) + (c + d)) + ..., for any tensors or numbers."""
    level = list(tensors)
    while len(level) > 1:
        pairs = [a + b for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def sequential_pairwise_sum(
    term: Callable[[tf.Tensor], tf.Tensor], count: int, size: int
) -> tf.Tensor:
    """The pairwise sum of `count` vectors [size], computed one after the other.

    term: returns vector i for an int32 scalar i. The graph is the same for any count:
    it works like a binary counter, which stores the sum of 2 ** k vectors for each
    digit k that is 1. So at most log2(count) + 1 vectors are stored.
    """
    if count == 1:
        return term(tf.constant(0))
    digits = count.bit_length()
    # The counters are int32, which TensorFlow keeps in the host's memory: the loop
    # conditions do not wait for a device.
    held = tf.TensorArray(
        tf.float32, digits, element_shape=[size], clear_after_read=False
    )

    def add(index: tf.Tensor, held: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        def carries(rest: tf.Tensor, digit: tf.Tensor, total: tf.Tensor) -> tf.Tensor:
            return tf.equal(rest % 2, 1)

        def carry(rest: tf.Tensor, digit: tf.Tensor, total: tf.Tensor) -> Any:
            return rest // 2, digit + 1, held.read(digit) + total

        first = index, tf.constant(0), term(index)
        _, digit, total = tf.while_loop(carries, carry, first, parallel_iterations=1)
        return index + 1, held.write(digit, total)

    _, held = tf.while_loop(
        lambda index, held: index < count,
        add,
        (tf.constant(0), held),
        parallel_iterations=1,
    )
    left = [digit for digit in range(digits) if count >> digit & 1]
    total = held.read(left[0])
    for digit in left[1:]:  # the sum of fewer vectors holds the later ones
        total = held.read(digit) + total
    return total


def concat_sequentially(
    tower: Callable[[tf.Tensor], Mapping[str, tf.Tensor]], count: int
) -> dict[str, tf.Tensor]:
    """The outputs [count * b, ...] of `count` towers, run one after the other.

    tower: returns the outputs [b, ...] of tower i for an int32 scalar i.
    """
    if count == 1:
        return {**tower(tf.constant(0))}
    first = tower(tf.constant(0))
    arrays = {
        name: tf.TensorArray(rows.dtype, count, element_shape=rows.shape).write(0, rows)
        for name, rows in first.items()
    }

    def run(index: tf.Tensor, arrays: Any) -> Any:
        outputs = tower(index)
        return index + 1, {n: arrays[n].write(index, outputs[n]) for n in arrays}

    _, arrays = tf.while_loop(
        lambda index, arrays: index < count,
        run,
        (tf.constant(1), arrays),
        parallel_iterations=1,
    )
    return {name: array.concat() for name, array in arrays.items()}
