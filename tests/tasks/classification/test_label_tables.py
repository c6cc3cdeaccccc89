"""What a table shows of many labels. Its numbers are in test_metrics.py."""

import numpy as np
import pytest

from bert_mgpu.tasks.classification import label_tables


def cells(labels):
    """Label 1 has most rows, the last none; F1 is higher the later a label is."""
    rows = [(f"{n} L{n}", "0.5", "0.5", f"{n // 2 / 100:.4f}", str(3 + n % 2))
            for n in range(labels - 1)]  # fmt: skip
    rows.append((f"{labels - 1} none", "0.0", "0.0", "0.0000", "0"))
    means = [
        (name, "", "", "0.5000", "9") for name in ("accuracy", "macro", "weighted")
    ]
    return [("label", "precision", "recall", "f1", "rows"), *rows, *means]


def test_of_many_labels_the_worst_are_shown():
    note, head, *lines = label_tables.aligned(cells(51)).splitlines()
    assert note == "the 20 lowest F1 of 50 labels with rows"
    assert head.split() == ["label", "precision", "recall", "f1", "rows"]
    worst = [int(line.split()[0]) for line in lines[:20]]
    assert worst == [
        1,
        0,
        3,
        2,
        5,
        4,
        7,
        6,
        9,
        8,
        11,
        10,
        13,
        12,
        15,
        14,
        17,
        16,
        19,
        18,
    ]
    assert [line.split()[0] for line in lines[20:]] == ["accuracy", "macro", "weighted"]


def test_up_to_50_labels_are_all_shown():
    head, *lines = label_tables.aligned(cells(50)).splitlines()
    assert head.startswith("label") and len(lines) == 50 + 3


def test_rows_are_whole_numbers_where_none_is_right():
    truth = np.arange(60) % 51
    cells = label_tables.classification_cells(truth, truth + 1, list("ab" * 26))
    assert [line[-1] for line in cells[1:53]] == ["2"] * 9 + ["1"] * 42 + ["0"]
    assert label_tables.aligned(cells).startswith("the 20 lowest F1 of 51 labels")


@pytest.mark.parametrize("labels", [30, 31])
def test_counts_are_sparse_where_no_matrix_is_shown(labels):
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(0, labels, (2, 500))
    wanted = label_tables.confusion(truth, predicted, labels)
    actual = label_tables.counts_to_show(truth, predicted, labels)
    assert isinstance(actual, np.ndarray) == (labels == 30)
    dense = actual if labels == 30 else actual.toarray()
    np.testing.assert_array_equal(dense, wanted)
    assert dense.dtype == wanted.dtype
    np.testing.assert_array_equal(actual.sum(1), wanted.sum(1))


def test_a_hundred_thousand_labels_take_little_memory():
    """A matrix of them would take 80 GB."""
    counts = label_tables.counts_to_show(np.arange(9), np.arange(9), 100_000)
    assert counts[3, 3] == 1 and counts[3, 4] == 0 and counts.nnz == 9
