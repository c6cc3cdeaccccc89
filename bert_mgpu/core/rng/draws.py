"""Random floats, integers and permutations from the words of a numpy bit generator.

numpy guarantees the words of a bit generator, but not the numbers that its Generator
makes of them (NEP 19, and "Compatibility policy" in its manual).
"""

from __future__ import annotations

import numpy as np


class Draws:
    """The three methods of np.random.Generator that masks need."""

    def __init__(self, bits: np.random.BitGenerator):
        """bits: makes 64-bit words, as do all generators that numpy recommends."""
        self._bits = bits

    def random(self, size: int) -> np.ndarray:
        """Multiples of 2^-53 below 1: float64 [size]."""
        return (self._words(size) >> np.uint64(11)) * 2.0**-53

    def integers(
        self, low: int, high: int, size: int, *, dtype: type = np.int64
    ) -> np.ndarray:
        """Integers from low to high - 1: [size]; high - low may be at most 2^32.

        All are equally likely, up to a relative error of (high - low) / 2^32.
        """
        upper = self._words(size) >> np.uint64(32)
        return (low + (upper * np.uint64(high - low) >> np.uint64(32))).astype(dtype)

    def permutation(self, size: int) -> np.ndarray:
        """The numbers from 0 to size - 1 in random order: int64 [size]."""
        return np.argsort(self._words(size), kind="stable")

    def _words(self, size: int) -> np.ndarray:
        return np.asarray(self._bits.random_raw(size), np.uint64)
