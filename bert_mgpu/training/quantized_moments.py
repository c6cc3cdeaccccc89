"""Optimizer moments in 8 bits: block-wise dynamic codes (Dettmers et al. 2022).

Each block of 2048 values is divided by its value of largest magnitude, the scale, and
every quotient is rounded to the nearest of 256 numbers. These are spaced as in dynamic
tree quantisation (Dettmers 2016): seven decades up to 1, each with twice as many
numbers as the one below, so that both outliers and values a million times smaller keep
their first digits. The numbers are those of bitsandbytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

BLOCK = 2048
_DECADES = 7

Specs = dict[str, tuple[tuple[int, ...], type]]  # (shape, dtype) by name


def _to_blocks(values: Any) -> tf.Tensor:
    """[...] -> [blocks, 2048], with the last block padded with zeros."""
    flat = tf.reshape(values, [-1])
    if missing := -flat.shape[0] % BLOCK:
        flat = tf.pad(flat, [[0, missing]])
    return tf.reshape(flat, [-1, BLOCK])


def _from_blocks(table: Any, shape: Sequence[int]) -> tf.Tensor:
    """The inverse of `_to_blocks`: the values in their original shape."""
    return tf.reshape(tf.reshape(table, [-1])[: math.prod(shape)], shape)


def _decades(signed: bool) -> Iterator[tuple[int, int, float]]:
    """(rank of the first number, count, upper end) of each decade.

    A rank is a number's index among the non-negative numbers: zero has rank 0. Without
    a sign to store there is one more bit for the fraction.
    """
    first, count = 1, 1 if signed else 2
    for decade in range(_DECADES):
        yield first, count, 10.0 ** (decade + 1 - _DECADES)
        first, count = first + count, 2 * count


def _magnitudes(signed: bool) -> np.ndarray:
    """The non-negative numbers, by rank: 0, the centres of the cells, 1."""
    centres = [
        end * (0.1 + 0.9 * (np.arange(count) + 0.5) / count)
        for _, count, end in _decades(signed)
    ]
    return np.concatenate([[0.0], *centres, [1.0]])  # [129] or [256]


def dynamic_map(signed: bool) -> np.ndarray:
    """The number of each code, float64 [256]; code 0 is zero.

    A negative number has the code -rank modulo 256. There is no -1: a scale has the
    sign of the value from which it is taken, whose quotient is therefore 1.
    """
    numbers = _magnitudes(signed)
    return np.concatenate([numbers, -numbers[-2:0:-1]]) if signed else numbers


def _nearest_rank(sizes: tf.Tensor, signed: bool) -> tf.Tensor:
    """The ranks, float32, of the numbers nearest to sizes in [0, 1].

    Computed by arithmetic, since XLA does not compile a search to one fast loop. Within
    a decade the numbers are evenly spaced; between two decades the border lies halfway
    between two numbers, not at the decade's end.
    """
    numbers = _magnitudes(signed)
    borders = (numbers[:-1] + numbers[1:]) / 2  # between rank and rank + 1
    ranks = tf.zeros_like(sizes)
    for first, count, end in _decades(signed):
        per_rank = 0.9 * end / count
        offset = first + 0.5 - numbers[first] / per_rank
        inside = tf.minimum(tf.floor(sizes / per_rank + offset), first + count - 1)
        ranks = tf.where(sizes >= borders[first - 1], inside, ranks)
    return tf.where(sizes >= borders[-1], float(len(numbers) - 1), ranks)


def quantize(values: Any, signed: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """float32 [...] -> codes uint8 [blocks * 2048], scales float32 [blocks].

    Unsigned values must not be negative. Zeros and the value that gives a block its
    scale are restored exactly, others as the nearest number: the error is at most 0.7 %
    of the scale (unsigned: 0.4 %) and, for values of at least a tenth of the scale, at
    most 7 % (3.5 %) of the value.

    Unsigned values that are not zero are rounded to at least the smallest positive
    number, never to zero: with a second moment of zero and a non-zero first moment,
    Adam would divide by its epsilon alone. (bitsandbytes rounds to zero. With gradients
    from 1 to 1e-6 in a block, AdamW's longest step in 100 was 10,000 times the rate
    with the nearest number, 1.8 times with this rule, and 1.0 in 32 bits.)
    """
    table = _to_blocks(values)
    scales = tf.reduce_max(table, 1)  # [blocks]
    if signed:
        lowest = tf.reduce_min(table, 1)
        scales = tf.where(scales >= -lowest, scales, lowest)
    quotients = table / tf.where(scales == 0.0, 1.0, scales)[:, tf.newaxis]
    ranks = _nearest_rank(tf.abs(quotients), signed)
    if signed:
        ranks = tf.maximum(tf.sign(quotients) * ranks, -127.0)  # there is no -1
    else:
        ranks = tf.where(table > 0.0, tf.maximum(ranks, 1.0), 0.0)
    codes = tf.cast(tf.cast(ranks, tf.int32), tf.uint8)  # modulo 256
    return tf.reshape(codes, [-1]), scales


def dequantize(
    codes: Any, scales: Any, shape: Sequence[int], *, signed: bool
) -> tf.Tensor:
    """The float32 values that `quantize` encoded, in this shape."""
    numbers = tf.constant(dynamic_map(signed), tf.float32)
    quotients = tf.gather(numbers, tf.cast(tf.reshape(codes, [-1, BLOCK]), tf.int32))
    return _from_blocks(quotients * scales[:, tf.newaxis], shape)


def specs(slots: Iterable[str], size: int) -> Specs:
    """The tensors that store these slots of `size` values each."""
    blocks = -(-size // BLOCK)
    tensors: Specs = {}
    for slot in slots:
        tensors[f"{slot}_q8"] = ((blocks * BLOCK,), np.uint8)
        tensors[f"{slot}_scale"] = ((blocks,), np.float32)
    return tensors


def update_in_8_bits(
    update: Callable[..., tuple[Any, dict[str, Any]]],
    signed: Mapping[str, bool],
    dependency: Any,
    *,
    grad: Any,
    param: Any,
    slots: Mapping[str, Any],
    settings: Any,
) -> tuple[Any, dict[str, Any], Any]:
    """Updates a parameter whose slots are in 8 bits -> (param, slots, dependency).

    update(grad, param, slots, settings) gets all tensors as tables [blocks, 2048],
    padded with zeros: for this shape XLA makes fewer and faster loops. The dependency
    is a zero that is known only after this update and is passed to the next one:
    otherwise XLA would decode the slots of all parameters at once, and so take the
    memory that 8 bits are meant to save.
    """
    table = _to_blocks(param)
    decoded = {}
    for slot, sign in signed.items():
        codes, scales = slots[f"{slot}_q8"], slots[f"{slot}_scale"] + dependency
        decoded[slot] = dequantize(codes, scales, table.shape, signed=sign)
    table, decoded = update(_to_blocks(grad), table, decoded, settings=settings)
    encoded: dict[str, Any] = {}
    dependency = 0.0
    for slot, sign in signed.items():
        codes, scales = quantize(decoded[slot], sign)
        encoded[f"{slot}_q8"], encoded[f"{slot}_scale"] = codes, scales
        dependency = dependency + 0.0 * scales[0]
    return _from_blocks(table, param.shape), encoded, dependency
