"""What masks are drawn by: of the words of a bit generator alone."""

import numpy as np
import scipy.stats

from bert_mgpu.core.rng.draws import Draws


def draws(number=0):
    return Draws(np.random.Philox(key=7, counter=[0, 0, 0, number]))


def test_fractions_are_uniform():
    actual = draws().random(100_000)
    assert actual.dtype == np.float64 and actual.min() >= 0 and actual.max() < 1
    assert scipy.stats.kstest(actual, "uniform").pvalue > 1e-3


def test_integers_are_uniform_and_of_the_type_asked_for():
    actual = draws().integers(3, 10, 70_000, dtype=np.int32)
    assert actual.dtype == np.int32 and actual.min() == 3 and actual.max() == 9
    assert scipy.stats.chisquare(np.bincount(actual - 3)).pvalue > 1e-3
    assert draws().integers(5, 6, 3).tolist() == [5, 5, 5]
    assert draws().integers(0, 2**32, 10_000).max() > 2**32 - 2**22


def test_permutations_are_equally_likely():
    counts = {}
    rng = draws()
    for _ in range(2400):
        order = tuple(rng.permutation(4).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert scipy.stats.chisquare([*counts.values()]).pvalue > 1e-3
    assert draws().permutation(0).tolist() == []


def test_words_are_used_once_and_rows_have_their_own():
    rng = draws()
    first, then = rng.random(4), rng.random(4)
    assert np.array_equal(draws().random(8), np.concatenate([first, then]))
    assert not np.array_equal(draws(1).random(4), first)
