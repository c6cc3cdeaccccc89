"""Truncated normal numbers beside scipy's."""

import numpy as np
import scipy.special
import scipy.stats

from bert_mgpu.core.rng import normal, philox
from bert_mgpu.core.rng.philox import Purpose, Stream

STREAM = Stream(42, Purpose.FIRST_WEIGHTS, 9)


def test_a_word_is_a_quantile_of_scipys():
    ends = np.arange(1000, dtype=np.uint64)
    middle = np.linspace(0, 2**32 - 1, 200_001).astype(np.uint64)
    words = np.concatenate([ends, 2**32 - 1 - ends, 2**31 + ends, middle])
    low = scipy.special.ndtr(-2.0)
    inside = scipy.special.ndtr(2.0) - low
    wanted = scipy.special.ndtri(low + (words + 0.5) / 2**32 * inside)
    # Near zero ndtri has the rounding of 0.5 + x, we have none.
    np.testing.assert_allclose(normal.quantiles(words), wanted, rtol=2e-8, atol=1e-15)
    assert np.abs(normal.quantiles(words)).max() < 2.0


def test_quantiles_are_symmetric():
    words = philox.words(STREAM, 0, 1000)
    mirrored = np.uint64(2**32 - 1) - words
    assert np.array_equal(normal.quantiles(words), -normal.quantiles(mirrored))


def test_numbers_are_distributed_as_scipys():
    actual = normal.truncated(STREAM, 1_000_000, 0.02)
    assert actual.dtype == np.float32
    assert np.abs(actual).max() <= np.float32(0.04)
    law = scipy.stats.truncnorm(-2, 2, scale=0.02)
    assert scipy.stats.kstest(actual, law.cdf).pvalue > 1e-3
    assert abs(actual.std() / law.std() - 1) < 3e-3
    near = np.corrcoef(actual[:-1], actual[1:])[0, 1]
    assert abs(near) < 4e-3


def test_more_numbers_begin_with_the_same():
    """However many are made at a time."""
    long = normal.truncated(STREAM, 200_001, 0.5)
    for size in (0, 1, 5, 65_536, 65_537, 150_000):
        assert np.array_equal(normal.truncated(STREAM, size, 0.5), long[:size])
