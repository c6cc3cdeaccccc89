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


def predictions(counts):
    """(truth, predicted) of a confusion matrix, the rows in a mixed order."""
    truth, said = (
        np.repeat(each.ravel(), np.ravel(counts)) for each in np.indices((2, 2))
    )
    mixed = np.random.default_rng(0).permutation(len(truth))
    return truth[mixed], said[mixed]


def test_a_drawn_matrix_has_the_interval_of_a_recall():
    """Of the normal distribution, since there are many."""
    found = intervals.of_classes(
        *predictions([[3000, 1000], [0, 2]]),
        lambda drawn: drawn.right[:, 0] / drawn.true[0],
        classes=2,
    )
    half = 1.96 * (0.75 * 0.25 / 4000) ** 0.5
    assert found == pytest.approx((0.75 - half, 0.75 + half), abs=0.1 * half)


def test_every_draw_has_all_rows_of_a_class():
    seen = []
    intervals.of_classes(
        *predictions([[190, 7], [2, 1]]),
        lambda drawn: seen.append(drawn) or np.zeros(1000),
        classes=3,  # the third of which does not occur
    )
    drawn = seen[0]
    assert drawn.true.tolist() == [197, 3, 0]
    assert (drawn.predicted.sum(-1) == 200).all()
    assert (drawn.right <= drawn.true).all()
    # Right ones of the first class, and wrong ones of the second, are predicted first.
    assert (drawn.predicted[:, 0] == drawn.right[:, 0] + 3 - drawn.right[:, 1]).all()
    assert len(np.unique(drawn.right[:, 0])) > 5


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
