"""Tables of the scores and the errors of a set by label, for the log and the report.

Letters: R rows, C classes. Classes are indices into `label_names`, the same
numbers that predict.txt holds. The formulas are those of scikit-learn.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_mgpu.core import terminal
from bert_mgpu.core.report import MOST_IN_MATRIX

_MAX_MATRIX_CLASSES = 20  # at 3 characters each, 60 of the 80 columns
_MAX_PAIRS = 20
_MAX_LABELS, _MAX_WORST = 50, 20  # lines of a table of labels; of more, the worst
_MEANS = 3  # lines below those of the labels
_PAIR_NUMBERS = 8, 10  # columns of the numbers of a pair
_MIN_NAME_WIDTH = len("true\\predicted")

Cells = list[tuple[str, ...]]  # the lines of a table, its header first


def aligned(cells: Cells) -> str:
    """The lines of a table of labels as a text for the terminal.

    Of many labels, those with the lowest F1 that have rows, the most frequent first.
    """
    widths = (11, 9, 9, 9)
    header, *labels = cells[:-_MEANS]
    if len(labels) <= _MAX_LABELS:
        return terminal.align(cells, widths)
    found = [line for line in labels if line[-1] != "0"]
    found.sort(key=lambda line: (float(line[-2]), -int(line[-1])))
    worst = found[:_MAX_WORST]
    note = f"the {len(worst)} lowest F1 of {len(found)} labels with rows"
    lines = [header, *worst, *cells[-_MEANS:]]
    return f"{note}\n{terminal.align(lines, widths)}"


def multi_label_cells(
    truth: np.ndarray, chosen: np.ndarray, label_names: Sequence[str]
) -> Cells:
    """The precision, recall, F1 and rows of each label, then their means."""
    from sklearn import metrics

    def scored(average: str | None) -> Any:
        return metrics.precision_recall_fscore_support(
            truth, chosen, average=average, zero_division=0
        )

    lines: Cells = [("label", "precision", "recall", "f1", "rows")]
    for i, (name, *scores, rows) in enumerate(
        zip(label_names, *scored(None), strict=True)
    ):
        lines.append((f"{i} {name}", *(f"{x:.4f}" for x in scores), str(rows)))
    for average in ("micro", "macro", "weighted"):
        means = (f"{x:.4f}" for x in scored(average)[:3])
        lines.append((f"{average} mean", *means, str(int(truth.sum()))))
    return lines


def classification_cells(
    labels: np.ndarray, predictions: np.ndarray, label_names: Sequence[str]
) -> Cells:
    """The precision, recall, F1 and rows of each class, one line per class.

    Args:
      labels: int [R].
      predictions: int [R].
      label_names: C names; a line for each, then accuracy and two means.
    """
    from sklearn import metrics

    classes = range(len(label_names))
    per_class = metrics.precision_recall_fscore_support(
        labels, predictions, labels=classes, zero_division=0
    )
    rows = [
        # scikit-learn counts in floats where no row is right.
        (f"{i} {name}", *(f"{score:.4f}" for score in scores), str(int(support)))
        for i, (name, *scores, support) in enumerate(
            zip(label_names, *per_class, strict=True)
        )
    ]
    total = str(len(labels))
    accuracy = np.mean(np.asarray(labels) == np.asarray(predictions))
    rows.append(("accuracy", "", "", f"{accuracy:.4f}", total))
    for average in ("macro", "weighted"):
        *means, _ = metrics.precision_recall_fscore_support(
            labels, predictions, average=average, zero_division=0
        )
        rows.append((f"{average} mean", *(f"{x:.4f}" for x in means), total))
    return [("label", "precision", "recall", "f1", "rows"), *rows]


def confusion(labels: np.ndarray, predictions: np.ndarray, classes: int) -> np.ndarray:
    """Counts of rows by true class (down) and predicted class (across): int [C, C]."""
    from sklearn import metrics

    return metrics.confusion_matrix(labels, predictions, labels=range(classes))


def counts_to_show(labels: np.ndarray, predictions: np.ndarray, classes: int) -> Any:
    """`confusion`; of more classes than a page shows in a matrix, a sparse array."""
    if classes <= MOST_IN_MATRIX:
        return confusion(labels, predictions, classes)
    from scipy import sparse

    ones = np.ones(len(labels), np.int64)
    pairs = (ones, (labels, predictions))
    return sparse.coo_array(pairs, shape=(classes, classes)).tocsr()


def confusion_table(
    labels: np.ndarray, predictions: np.ndarray, label_names: Sequence[str]
) -> str:
    """The confusion matrix, in 80 columns or the terminal's.

    Up to 20 classes: a line for each true class, a column for each predicted
    one; counts where they fit, else percentages of the true class. For more
    classes, the most frequent confusions, one per line.

    Args: those of `classification_cells`.
    """
    num_classes = len(label_names)
    if num_classes > _MAX_MATRIX_CLASSES:
        return _confused_pairs(labels, predictions, label_names)
    matrix = confusion(labels, predictions, num_classes)
    support = matrix.sum(axis=1)
    support_width = max(6, len(str(support.max())) + 1)
    legend, cells = "number of examples", matrix
    cell_width = max(3, len(str(matrix.max())) + 1)
    if (
        terminal.narrow(sys.stderr) - num_classes * cell_width - support_width
        < _MIN_NAME_WIDTH
    ):
        legend, cell_width = "% of the true class (99: or more, .: < 0.5)", 3
        percent = 100 * matrix / np.maximum(support, 1)[:, None]
        cells = np.minimum(np.floor(percent + 0.5), 99).astype(np.int64)
    lines = [("true\\predicted", *map(str, range(num_classes)), "rows")]
    for i, name in enumerate(label_names):
        counts = (str(cell) if cell else "." for cell in cells[i])
        lines.append((f"{i} {name}", *counts, str(support[i])))
    widths = (*[cell_width] * num_classes, support_width)
    return f"cells: {legend}\n{terminal.align(lines, widths)}"


def _confused_pairs(
    labels: np.ndarray, predictions: np.ndarray, label_names: Sequence[str]
) -> str:
    """The most frequent errors: true class, predicted class, rows, share.

    There is no room for a matrix of thousands of classes.
    """
    support = np.bincount(labels, minlength=len(label_names))
    pairs = np.stack([labels, predictions], -1)[labels != predictions]
    pairs, counts = np.unique(pairs, axis=0, return_counts=True)
    width = (terminal.narrow(sys.stderr) - sum(_PAIR_NUMBERS)) // 2  # of each name
    lines = [(terminal.fit("true", width) + "predicted", "rows", "% of true")]
    for index in np.argsort(-counts, kind="stable")[:_MAX_PAIRS]:
        (true, predicted), count = pairs[index].tolist(), int(counts[index])
        names = (f"{i} {label_names[i]}" for i in (true, predicted))
        pair = "".join(terminal.fit(name, width) for name in names)
        share = f"{100 * count / support[true]:.1f}"
        lines.append((pair, str(count), share))
    return f"most frequent errors\n{terminal.align(lines, _PAIR_NUMBERS)}"
