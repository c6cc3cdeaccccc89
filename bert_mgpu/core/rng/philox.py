"""Random words from counters: Philox4x32-10 of Salmon et al. 2011 (SC '11).

There is no state: a word is a function of a key and a counter, computed in integers,
so it is the same under any version of numpy and on any machine.

    philox.words(Stream(seed=42, purpose=Purpose.ROWS, number=epoch), 0, 10)

The constants are those of the authors' Random123, philox.h. Dropout draws from the same
generator, in TensorFlow (`model.layers.keep_mask`).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85  # what is added to the key after each round
_ROUNDS = 10
_32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
PER_COUNT = 4  # words for each counter


class Purpose(enum.IntEnum):
    """The purpose of a stream, which is the highest word of its counters.

    It is at least 2^31, which no counter of a dropout mask has before step 2^47.
    """

    FIRST_WEIGHTS = 0xFFFFFFFF  # number: a hash of the parameter's name
    ROWS = 0xFFFFFFFE  # number: the epoch
    WINDOW = 0xFFFFFFFD  # number: its first step
    SAMPLE = 0xFFFFFFFC  # number: 0
    ADS = 0xFFFFFFFB  # number: a hash of the ad's text


class Stream(NamedTuple):
    """A stream of words: 2^32 counters for each seed, purpose and number."""

    seed: int  # at least 0, below 2^64
    purpose: Purpose
    number: int = 0  # at least 0, below 2^64


def philox4x32(counter: Sequence[np.ndarray], key: int) -> list[np.ndarray]:
    """Four words for each counter.

    counter: four arrays uint64 [n] of values below 2^32, the lowest word first; key:
    64 bits, its low half first. Returns four arrays of the same kind.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1 = (p1 >> _32) ^ c1 ^ np.uint64(k0), p1 & _LOW
        c2, c3 = (p0 >> _32) ^ c3 ^ np.uint64(k1), p0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


def words(stream: Stream, first: int, count: int) -> np.ndarray:
    """The words of the counters first, first + 1, ... of a stream: uint64 [4 count].

    Their values are below 2^32.
    """
    seed, purpose, number = stream
    counters = np.arange(first, first + count, dtype=np.uint64)
    high = (number & 0xFFFFFFFF, number >> 32, int(purpose))
    rest = [np.full(count, word, np.uint64) for word in high]
    return np.stack(philox4x32([counters, *rest], seed), 1).reshape(-1)


def words_of_each(
    seed: int, purpose: Purpose, numbers: np.ndarray, *, count: int
) -> np.ndarray:
    """The words of the first `count` counters of many streams: uint64 [n, 4 count].

    numbers: those of the streams, uint64 [n]. Each row is what `words` returns.
    """
    first = np.tile(np.arange(count, dtype=np.uint64), len(numbers))
    each = np.repeat(numbers, count)
    high = np.full(len(first), int(purpose), np.uint64)
    drawn = philox4x32([first, each & _LOW, each >> _32, high], seed)
    return np.stack(drawn, 1).reshape(len(numbers), PER_COUNT * count)
