"""Scores against scikit-learn and numpy, tables against terminal columns."""

import sys
import unicodedata

import numpy as np
import pytest
import sklearn.metrics

from bert_mgpu.tasks.classification.label_tables import (
    aligned,
    classification_cells,
    confusion_table,
)
from bert_mgpu.tasks.classification.metrics import classification_metrics

pytestmark = pytest.mark.filterwarnings("error")


def _random_set(num_classes, rows, skill=0.3, seed=0):
    """labels [R], probabilities [R, C], losses [R] of a so-so classifier."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, num_classes, rows)
    scores = rng.random((rows, num_classes)) + skill * np.eye(num_classes)[labels]
    probabilities = scores / scores.sum(axis=1, keepdims=True)
    losses = -np.log(probabilities[np.arange(rows), labels])
    return labels, probabilities, losses


def _columns(text):
    """Terminal columns; names here have no characters of unclear width."""
    return sum(
        2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
        if not unicodedata.combining(char)
    )


@pytest.mark.parametrize("num_classes", [2, 3, 15])
def test_metrics_equal_scikit_learn(num_classes):
    labels, probabilities, losses = _random_set(num_classes, 400)
    names = [str(i) for i in range(num_classes)]
    scores = classification_metrics(labels, probabilities, losses, label_names=names)
    assert list(scores)[:5] == [
        "eval_accuracy",
        "eval_loss",
        "macro_f1",
        "micro_f1",
        "weighted_f1",
    ]
    assert all(type(value) is float for value in scores.values())
    predictions = probabilities.argmax(1)
    expected = {
        "eval_accuracy": sklearn.metrics.accuracy_score(labels, predictions),
        "eval_loss": sklearn.metrics.log_loss(labels, probabilities),
        "mcc": sklearn.metrics.matthews_corrcoef(labels, predictions),
    }
    for average in ("macro", "micro", "weighted"):
        expected[f"{average}_f1"] = sklearn.metrics.f1_score(
            labels, predictions, average=average
        )
    for name in ("precision", "recall"):
        score = getattr(sklearn.metrics, f"{name}_score")
        expected[f"macro_{name}"] = score(labels, predictions, average="macro")
        if num_classes == 2:
            expected[name] = score(labels, predictions)
    if num_classes == 2:
        expected["f1"] = sklearn.metrics.f1_score(labels, predictions)
        expected["auc"] = sklearn.metrics.roc_auc_score(labels, probabilities[:, 1])
    assert scores == pytest.approx(expected, abs=1e-7)


def test_macro_mean_leaves_out_classes_that_do_not_occur():
    labels = np.array([0, 0, 2, 2])
    probabilities = np.eye(5)[[0, 2, 2, 2]]
    scores = classification_metrics(labels, probabilities, labels, label_names="abcde")
    f1_0, f1_2 = 2 / 3, 4 / 5
    assert scores["macro_f1"] == pytest.approx((f1_0 + f1_2) / 2)


@pytest.mark.parametrize("labels", [[0, 0, 0], [1, 1, 1], [0]])
@pytest.mark.parametrize("predicted", [0, 1])
def test_one_class_alone_is_no_error(labels, predicted):
    probabilities = np.eye(2)[[predicted] * len(labels)]
    scores = classification_metrics(
        np.array(labels), probabilities, np.ones(len(labels)), label_names=["no", "yes"]
    )
    assert scores["eval_accuracy"] == float(predicted == labels[0])
    assert scores["recall"] == float(predicted == labels[0] == 1)
    assert scores["mcc"] == 0 and "auc" not in scores
    assert np.isfinite(list(scores.values())).all()


def test_loss_is_summed_in_double_precision():
    losses = np.full(1_000_000, 0.1, np.float16)
    labels = np.zeros(len(losses), np.int64)
    probabilities = np.eye(2, dtype=np.float32)[labels]
    scores = classification_metrics(labels, probabilities, losses, label_names="ab")
    assert scores["eval_loss"] == pytest.approx(float(losses[0]), rel=1e-9)


def test_table_equals_scikit_learn():
    labels, probabilities, _ = _random_set(4, 300)
    predictions = probabilities.argmax(1)
    names = ["体育", "财经新闻", "tech", "游戏a", "absent"]
    expected = sklearn.metrics.classification_report(
        labels, predictions, target_names=names[:4], output_dict=True
    )
    zeros = {"precision": 0, "recall": 0, "f1-score": 0, "support": 0}
    expected["absent"] = zeros
    header, *lines = aligned(
        classification_cells(labels, predictions, names)
    ).splitlines()
    assert header.split() == ["label", "precision", "recall", "f1", "rows"]
    for i, (line, name) in enumerate(zip(lines[:5], names, strict=True)):
        row = expected[name]
        scores = [row[key] for key in ("precision", "recall", "f1-score")]
        assert line.split() == [
            str(i),
            name,
            *(f"{score:.4f}" for score in scores),
            str(int(row["support"])),
        ]
    assert lines[5].split() == [
        "accuracy",
        f"{expected['accuracy']:.4f}",
        "300",
    ]
    for line, average in zip(lines[6:], ("macro", "weighted"), strict=True):
        row = expected[f"{average} avg"]
        scores = [row[key] for key in ("precision", "recall", "f1-score")]
        assert line.split() == [
            average,
            "mean",
            *(f"{score:.4f}" for score in scores),
            "300",
        ]


@pytest.mark.parametrize("num_classes", [2, 9, 20, 21, 134])
@pytest.mark.parametrize("name", ["体育新闻" * 15, "e\u0301" * 90, "a", "（全角）"])
def test_tables_are_aligned_within_80_columns(num_classes, name):
    labels, probabilities, _ = _random_set(num_classes, 3000)
    predictions = probabilities.argmax(1)
    names = [name] * num_classes
    table = aligned(classification_cells(labels, predictions, names)).splitlines()
    table = table[num_classes > 50 :]  # a line above those of many labels
    confusion = confusion_table(labels, predictions, names).splitlines()[1:]
    for lines in (table, confusion):
        (width,) = {_columns(line) for line in lines}
        assert width <= 80


def _cells(table, num_classes):
    """(name, cells, rows) of each line of a confusion table."""
    _, header, *lines = table.splitlines()
    assert header.split() == [
        "true\\predicted",
        *map(str, range(num_classes)),
        "rows",
    ]
    for line in lines:
        _, *cells, rows = line.rsplit(maxsplit=num_classes + 1)
        yield [0 if cell == "." else int(cell) for cell in cells], int(rows)


@pytest.mark.parametrize("rows", [50, 2000])
def test_confusion_table_counts_rows_where_they_fit(rows):
    labels, probabilities, _ = _random_set(10, rows)
    labels = labels % 9  # class 9 is only predicted
    predictions = probabilities.argmax(1)
    table = confusion_table(labels, predictions, ["类别"] * 10)
    assert table.startswith("cells: number of examples\n")
    cells = [line for line, _ in _cells(table, 10)]
    np.testing.assert_array_equal(
        cells, sklearn.metrics.confusion_matrix(labels, predictions, labels=range(10))
    )


@pytest.mark.parametrize(("num_classes", "rows"), [(16, 6_000), (20, 60_000)])
def test_confusion_table_shows_percentages_where_counts_do_not_fit(num_classes, rows):
    labels, probabilities, _ = _random_set(num_classes, rows)
    probabilities[labels == 4] = np.eye(num_classes)[4]
    predictions = probabilities.argmax(1)
    table = confusion_table(labels, predictions, ["类别"] * num_classes)
    assert table.startswith("cells: %")
    lines = list(_cells(table, num_classes))
    shares = 100 * sklearn.metrics.confusion_matrix(
        labels, predictions, normalize="true"
    )
    difference = np.abs(np.array([line for line, _ in lines]) - shares)
    assert np.delete(difference, 4, axis=0).max() <= 0.5
    assert lines[4][0] == [0] * 4 + [99] + [0] * (num_classes - 5)
    assert [rows for _, rows in lines] == np.bincount(labels).tolist()


@pytest.mark.parametrize("num_classes", [21, 30])
def test_more_than_20_classes_list_the_most_frequent_errors(num_classes):
    names = [f"类{i}" for i in range(num_classes)]
    labels = np.array([7] * 10 + [3] * 4 + [0] * 86)
    predictions = np.array([9] * 5 + [7] * 5 + [0] * 3 + [3] + [0] * 86)
    table = confusion_table(labels, predictions, names).splitlines()
    assert [line.split() for line in table[2:]] == [
        ["7", "类7", "9", "类9", "5", "50.0"],
        ["3", "类3", "0", "类0", "3", "75.0"],
    ]


def test_scores_take_no_matrix_of_the_classes(monkeypatch):
    labels, probabilities, losses = _random_set(30, 200)
    predictions = probabilities.argmax(1)
    wanted = sklearn.metrics.matthews_corrcoef(labels, predictions)
    module = sys.modules[sklearn.metrics.confusion_matrix.__module__]
    monkeypatch.delattr(module, "confusion_matrix")
    names = [str(n) for n in range(30)]
    scores = classification_metrics(labels, probabilities, losses, label_names=names)
    assert scores["mcc"] == pytest.approx(wanted, abs=1e-12)
    alone = classification_metrics(
        labels * 0, probabilities * 0, losses, label_names=names
    )
    assert alone["mcc"] == 0.0


def test_errors_are_listed_without_a_matrix(monkeypatch):
    """That of 100,000 classes has 80 GB."""
    monkeypatch.delattr("bert_mgpu.tasks.classification.label_tables.confusion")
    labels, predictions = np.array([[70_000, 2], [3, 3], [70_000, 2], [9, 99_999]]).T
    table = confusion_table(labels, predictions, [str(n) for n in range(100_000)])
    assert [line.split() for line in table.splitlines()[2:]] == [
        ["70000", "70000", "2", "2", "2", "100.0"],
        ["9", "9", "99999", "99999", "1", "100.0"],
    ]


def test_a_faultless_model_has_no_errors_to_list():
    labels = np.arange(30)
    table = confusion_table(labels, labels, [str(i) for i in labels])
    assert len(table.splitlines()) == 2
