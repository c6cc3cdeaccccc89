"""Shuffled orders and samples of rows, determined by a seed alone.

New runs draw from counters, so that any version of numpy reproduces them and no array
of all rows is needed. Runs that began before there were counters go on with numpy's
Generator, whose streams another version may change (NEP 19).
"""

from __future__ import annotations

import functools
from typing import Protocol

import numpy as np

from bert_mgpu.core.rng.permutation import permuted
from bert_mgpu.core.rng.philox import Purpose, Stream


class Shuffles(Protocol):
    """Random orders and samples; rows are numbered from 0."""

    def epoch(
        self, indices: np.ndarray, rows: int, epoch: int, *, seed: int
    ) -> np.ndarray:
        """The rows at these indices of an epoch, int64 [...] both."""
        ...

    def window(
        self, batches: np.ndarray, first: int, last: int, *, seed: int
    ) -> np.ndarray:
        """The batches of the steps [first, last) in another order: int64 [S, B]."""
        ...

    def sample(self, total: int, keep: int, seed: int) -> np.ndarray:
        """`keep` of `total` rows, int64 [keep] in any order."""
        ...


class _ByCounters:
    def epoch(
        self, indices: np.ndarray, rows: int, epoch: int, *, seed: int
    ) -> np.ndarray:
        return permuted(indices, rows, Stream(seed, Purpose.ROWS, epoch))

    def window(
        self, batches: np.ndarray, first: int, last: int, *, seed: int
    ) -> np.ndarray:
        stream = Stream(seed, Purpose.WINDOW, first)
        return batches[permuted(np.arange(len(batches)), len(batches), stream)]

    def sample(self, total: int, keep: int, seed: int) -> np.ndarray:
        return permuted(np.arange(keep), total, Stream(seed, Purpose.SAMPLE))


class _ByNumpy:
    """The random numbers of runs that version 0.1.0 began before it had counters."""

    def epoch(
        self, indices: np.ndarray, rows: int, epoch: int, *, seed: int
    ) -> np.ndarray:
        return _numpys_epoch(rows, epoch, seed)[indices]

    def window(
        self, batches: np.ndarray, first: int, last: int, *, seed: int
    ) -> np.ndarray:
        return np.random.default_rng([seed, first, last]).permutation(batches)

    def sample(self, total: int, keep: int, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).choice(total, keep, replace=False)


@functools.lru_cache(maxsize=2)  # a batch may run across the end of an epoch
def _numpys_epoch(rows: int, epoch: int, seed: int) -> np.ndarray:
    """All rows in the order of one epoch, int64 [rows]."""
    return np.random.default_rng([seed, epoch]).permutation(rows)


# The key is `RunConfig.random_numbers`.
SHUFFLES: dict[str, Shuffles] = {"counters": _ByCounters(), "numpy": _ByNumpy()}


def sample_rows(
    n_total: int, n_keep: int, seed: int, *, random_numbers: str = "counters"
) -> np.ndarray:
    """Row numbers of a random sample: int64 [min(n_keep, n_total)], ascending.

    The first rows would be no fair sample: files are often sorted by class.
    random_numbers: one of SHUFFLES.
    """
    if n_keep >= n_total:
        return np.arange(n_total, dtype=np.int64)
    return np.sort(SHUFFLES[random_numbers].sample(n_total, n_keep, seed))
