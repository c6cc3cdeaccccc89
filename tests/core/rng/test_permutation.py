"""The permutation by index: one indeed, random enough, and kept nowhere."""

import itertools
import tracemalloc

import numpy as np
import pytest
import scipy.stats

from bert_mgpu.core.rng import permutation
from bert_mgpu.core.rng.permutation import permuted
from bert_mgpu.core.rng.philox import Purpose, Stream
from tests.support.marks import rarely

UNLIKELY = 1e-4  # a smaller chance is no chance


def stream(number, seed=1):
    return Stream(seed, Purpose.ROWS, number)


@pytest.mark.parametrize(
    "sizes",
    [range(1, 200), (997, 1000, 1024, 1025), (65_535, 65_536, 65_537), (1_000_003,)],
)
def test_every_place_has_an_image_of_its_own(sizes):
    for size in sizes:
        images = permuted(np.arange(size), size, stream(size))
        assert images.dtype == np.int64
        assert np.array_equal(np.sort(images), np.arange(size)), size


def test_places_may_come_in_any_order_and_shape():
    whole = permuted(np.arange(1000), 1000, stream(0))
    places = np.array([[999, 3], [3, 0]])
    assert np.array_equal(permuted(places, 1000, stream(0)), whole[places])
    assert permuted(np.zeros(0, np.int64), 10, stream(0)).shape == (0,)


def test_streams_have_permutations_of_their_own():
    def order(*of):
        return tuple(permuted(np.arange(50), 50, Stream(*of)).tolist())

    seeds = {order(seed, Purpose.ROWS, 0) for seed in range(20)}
    numbers = {order(0, Purpose.ROWS, number) for number in range(20)}
    assert len(seeds | numbers | {order(0, Purpose.WINDOW, 0)}) == 40


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_all_permutations_of_a_few_are_equally_likely(size):
    orders = {order: n for n, order in enumerate(itertools.permutations(range(size)))}
    counts = np.zeros(len(orders))
    for number in range(40 * len(orders)):
        images = permuted(np.arange(size), size, stream(number, seed=size))
        counts[orders[tuple(images.tolist())]] += 1
    assert scipy.stats.chisquare(counts).pvalue > UNLIKELY


@pytest.mark.parametrize("size", [6, 9, 10, 25, *rarely(60)])
def test_all_pairs_of_places_have_all_pairs_of_images(size):
    """The images of the first, the last and a middle place, two by two."""
    draws = 8 * size * size
    places = np.array([0, size // 2, size - 1])
    images = np.array(
        [permuted(places, size, stream(number, seed=2)) for number in range(draws)]
    )
    for one, other in itertools.combinations(range(3), 2):
        pairs = images[:, one] * size + images[:, other]
        counts = np.bincount(pairs, minlength=size**2).reshape(size, size)
        assert counts.trace() == 0
        counts = counts[~np.eye(size, dtype=bool)]
        assert scipy.stats.chisquare(counts).pvalue > UNLIKELY


@pytest.mark.parametrize("size", [3, 9, 25, 81])
def test_odd_permutations_occur_too(size):
    """A network of odd height and width would make even ones alone."""

    def parity(order):
        pairs = itertools.combinations(order, 2)
        return sum(first > second for first, second in pairs) % 2

    indices = np.arange(size)
    parities = [parity(permuted(indices, size, stream(i)).tolist()) for i in range(40)]
    assert {*parities} == {0, 1}


@pytest.mark.parametrize("size", [100, 1000, 50_000])
def test_a_large_one_looks_random(size):
    """Where places go, how far from each other, and how many stay."""
    rounds = 200_000 // size
    images = [permuted(np.arange(size), size, stream(n, seed=4)) for n in range(rounds)]
    cells = 10
    table = np.zeros((cells, cells))
    for image in images:
        np.add.at(table, (np.arange(size) * cells // size, image * cells // size), 1)
    # Rows and columns of the table are given, as of a contingency table.
    statistic = ((table - table.mean()) ** 2 / table.mean()).sum()
    assert scipy.stats.chi2.sf(statistic, (cells - 1) ** 2) > UNLIKELY
    steps = np.concatenate([np.diff(image) % size for image in images])
    counts = np.bincount(steps * 50 // size, minlength=50)
    expected = np.bincount(np.arange(1, size) * 50 // size, minlength=50) * 1.0
    expected *= counts.sum() / expected.sum()
    assert scipy.stats.chisquare(counts, expected).pvalue > UNLIKELY
    stays = sum((image == np.arange(size)).sum() for image in images)
    assert scipy.stats.poisson(rounds).interval(1 - UNLIKELY)[0] <= stays
    assert stays <= scipy.stats.poisson(rounds).interval(1 - UNLIKELY)[1]


def test_a_hundred_million_places_take_a_few_megabytes():
    permutation._tables.cache_clear()
    size, places = 10**8, np.arange(10**8 - 4096, 10**8)
    tracemalloc.start()
    try:
        images = permuted(places, size, stream(0))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2e7
    assert len(np.unique(images)) == 4096
    assert images.min() >= 0 and images.max() < size
    ranks = scipy.stats.kstest(images / size, "uniform")
    assert ranks.pvalue > UNLIKELY
