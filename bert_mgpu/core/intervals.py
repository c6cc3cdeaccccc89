"""95 % confidence intervals of scores: where the score over all such rows may lie.

Letters: T draws, R rows, C classes, K counts of a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Interval = tuple[float, float]
_Z = 1.959963984540054  # of the normal distribution: 2.5 % lie above it
_DRAWS, _SEED = 1000, 0


def wilson(right: int, count: int) -> Interval:
    """The interval of the share of right rows (Wilson 1927); (0, 1) without rows."""
    if not count:
        return 0.0, 1.0
    share, z2 = right / count, _Z * _Z
    middle = share + z2 / (2 * count)
    half = _Z * math.sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    low, high = (middle - half) / (1 + z2 / count), (middle + half) / (1 + z2 / count)
    return max(0.0, low), min(1.0, high)


class Drawn(NamedTuple):
    """Right and predicted rows of each class, int [T, C], and true ones, int [C]."""

    right: np.ndarray
    predicted: np.ndarray
    true: np.ndarray


def of_classes(
    truth: np.ndarray,
    predicted: np.ndarray,
    score: Callable[[Drawn], np.ndarray],
    *,
    classes: int,
) -> Interval:
    """The interval of a score of single classes, by the bootstrap (Efron 1979).

    Each draw has as many rows of every true class: rare ones are never missing.

    truth, predicted: int [R]; score: returns [T].
    """
    rng = np.random.default_rng(_SEED)
    sums = np.zeros((2, _DRAWS, classes), np.int64)
    true = np.bincount(truth, minlength=classes)
    for own in np.flatnonzero(true):
        said, counts = np.unique(predicted[truth == own], return_counts=True)
        draws = rng.multinomial(true[own], counts / true[own], _DRAWS)  # [T, said]
        sums[1][:, said] += draws
        sums[0][:, own] = draws[:, said == own].sum(-1)
    return _middle(score(Drawn(sums[0], sums[1], true)))


def of_mean(values: np.ndarray) -> Interval:
    """The interval of the mean of values, float [R], by the bootstrap."""
    pairs = np.stack([values, np.ones(len(values))], 1)
    return of_rows(pairs, lambda sums: sums[:, 0] / sums[:, 1])


def of_rows(values: np.ndarray, score: Callable[[np.ndarray], np.ndarray]) -> Interval:
    """The interval of a score computed from sums over rows, by the bootstrap.

    values: [R, K], of which each draw takes R rows; score: sums [T, K] -> [T].
    """
    rng, rows = np.random.default_rng(_SEED), len(values)
    sums = [
        np.bincount(rng.integers(0, rows, rows), minlength=rows) @ values
        for _ in range(_DRAWS)
    ]
    return _middle(score(np.array(sums)))


def _middle(values: np.ndarray) -> Interval:
    # A draw without any variance, say, has no score that is a ratio to it.
    low, high = np.quantile(values[np.isfinite(values)], (0.025, 0.975))
    return float(low), float(high)


def f1(sums: np.ndarray) -> np.ndarray:
    """F1 from numbers of right, predicted and true items: [T, 3] -> [T]; 0 if none."""
    both = sums[:, 1] + sums[:, 2]
    return np.where(both > 0, 2 * sums[:, 0] / np.maximum(both, 1), 0.0)
