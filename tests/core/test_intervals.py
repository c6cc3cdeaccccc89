"""95 % intervals, against scipy and against what a score does on drawn sets."""

import numpy as np
import pytest
from scipy import stats

from bert_mgpu.core import intervals


@pytest.mark.parametrize(
    ("right", "count"), [(0, 9), (9, 9), (1, 1), (415, 441), (7, 20)]
)
def test_wilson_is_scipys(right, count):
    wanted = stats.binomtest(right, count).proportion_ci(method="wilson")
    assert intervals.wilson(right, count) == pytest.approx((wanted.low, wanted.high))


def test_of_nothing_nothing_is_known():
    assert intervals.wilson(0, 0) == (0.0, 1.0)


def recall(counts):
    return counts[:, 0, 0] / counts[:, 0].sum(-1)


def test_a_drawn_matrix_has_the_interval_of_a_recall():
    """Of the normal distribution, since there are many."""
    found = intervals.of_confusion(np.array([[3000, 1000], [0, 2]]), recall)
    half = 1.96 * (0.75 * 0.25 / 4000) ** 0.5
    assert found == pytest.approx((0.75 - half, 0.75 + half), abs=0.1 * half)


def test_every_draw_has_all_rows_of_a_class():
    counts = np.array([[190, 7], [2, 1]])
    seen = []
    intervals.of_confusion(counts, lambda drawn: seen.append(drawn) or np.zeros(1000))
    assert (seen[0].sum(-1) == counts.sum(-1)).all()
    assert len(np.unique(seen[0][:, 0, 0])) > 5


def test_drawn_rows_have_the_interval_of_their_mean():
    values = np.random.default_rng(1).normal(3.0, 2.0, 2000)
    rows = np.stack([values, np.ones(2000)], 1)
    found = intervals.of_rows(rows, lambda sums: sums[:, 0] / sums[:, 1])
    half = 1.96 * values.std() / 2000**0.5
    wanted = values.mean() - half, values.mean() + half
    assert found == pytest.approx(wanted, abs=0.1 * half)
    assert intervals.of_rows(rows, lambda sums: sums[:, 0] / sums[:, 1]) == found
    assert intervals.of_mean(values) == found


def test_f1_of_sums():
    sums = np.array([[2, 4, 4], [0, 3, 0], [0, 0, 0], [5, 5, 5]])
    assert intervals.f1(sums).tolist() == [0.5, 0.0, 0.0, 1.0]
