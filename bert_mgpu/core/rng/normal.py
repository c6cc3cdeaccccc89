"""Truncated normal numbers, by the inverse of their distribution: one word each.

Nothing is redrawn, and 64-bit floats are only added, multiplied and divided, for which
IEEE 754 prescribes the rounding. So the numbers are the same under any version of numpy
and on any machine.
"""

from __future__ import annotations

import numpy as np

from bert_mgpu.core.rng import philox
from bert_mgpu.core.rng.philox import Stream

# The probability that a normal number is within two deviations: erf(sqrt(2)).
_INSIDE = 0.9544997361036416
# Acklam 2003, "An algorithm for computing the inverse normal cumulative distribution
# function", for the central region: x = q P(q^2) / Q(q^2) with q = p - 1/2, the highest
# power first. His region ends at 1.97 deviations with a relative error of 1.15e-9; up
# to two deviations it is at most 1.7e-8, where a float32 has 6e-8.
_P = (
    *(-3.969683028665376e01, 2.209460984245205e02, -2.759285104469687e02),
    *(1.383577518672690e02, -3.066479806614716e01, 2.506628277459239e00),
)
_Q = (
    *(-5.447609879822406e01, 1.615858368580409e02, -1.556989798598866e02),
    *(6.680131188771972e01, -1.328068155288572e01, 1.0),
)
_CHUNK = 1 << 14  # counters whose numbers are made together: 128 KB stay in the cache


def quantiles(words: np.ndarray) -> np.ndarray:
    """32-bit words as normal numbers within two deviations, float64 [...].

    Each word gives the middle of one of 2^32 equally probable parts of that range.
    """
    q = (words.astype(np.float64) - (2.0**31 - 0.5)) * (_INSIDE / 2.0**32)
    r = q * q
    return q * _polynomial(_P, r) / _polynomial(_Q, r)


def _polynomial(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    """The polynomial's value at each x, by Horner's rule."""
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total *= x
        total += coefficient
    return total


def truncated(stream: Stream, size: int, deviation: float) -> np.ndarray:
    """The first numbers of a stream, none beyond two deviations: float32 [size]."""
    values = np.empty(size, np.float32)
    per_chunk = _CHUNK * philox.PER_COUNT
    for start in range(0, size, per_chunk):
        part = values[start : start + per_chunk]
        counts = -(-len(part) // philox.PER_COUNT)
        drawn = philox.words(stream, start // philox.PER_COUNT, counts)
        part[:] = quantiles(drawn[: len(part)]) * deviation
    return values
