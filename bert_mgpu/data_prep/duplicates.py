"""The share of duplicates among many texts, counted in bounded memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

_BYTES = 8  # of a hash
_BITS = 8 * _BYTES


def hashes(texts: Iterable[str]) -> bytes:
    """A uint64 hash of each text, as bytes; equal in all processes, unlike `hash`."""
    blake = hashlib.blake2b
    return b"".join(blake(text.encode(), digest_size=_BYTES).digest() for text in texts)


class Distinct:
    """Counts texts by their hashes.

    Beyond `most` distinct hashes, only those below a bound are kept; the bound is
    halved as often as needed. A hash does not depend on how often its text occurs, so
    the share of duplicates in this sample is an estimate of that in all texts. The
    sample does not depend on the order of the texts.
    """

    def __init__(self, most: int = 1 << 18) -> None:
        self._most = most
        self._halvings = 0
        self._hashes = np.zeros(0, np.uint64)
        self._counts = np.zeros(0, np.int64)

    def add(self, hashes: np.ndarray) -> None:
        """Counts texts. hashes: uint64 [texts]."""
        new = hashes[self._below(hashes)]
        both = np.concatenate([self._hashes, new])
        counts = np.concatenate([self._counts, np.ones(len(new), np.int64)])
        self._hashes, numbers = np.unique(both, return_inverse=True)
        self._counts = np.zeros(len(self._hashes), np.int64)
        np.add.at(self._counts, numbers, counts)
        while len(self._hashes) > self._most:
            self._halvings += 1
            kept = self._below(self._hashes)
            self._hashes, self._counts = self._hashes[kept], self._counts[kept]

    def _below(self, hashes: np.ndarray) -> np.ndarray:
        return hashes <= np.uint64((1 << _BITS - self._halvings) - 1)

    @property
    def is_exact(self) -> bool:
        return self._halvings == 0

    @property
    def counted(self) -> int:
        """The number of texts in the sample, duplicates included."""
        return int(self._counts.sum())

    @property
    def duplicate_share(self) -> float:
        """The share of texts that occurred before; 0 if there are no texts."""
        return 1 - len(self._hashes) / self.counted if self.counted else 0.0
