"""Scores of a classifier over a whole evaluation set, and their tables.

Letters: R rows, C classes. Classes are indices into `label_names`, the same
numbers that predict.txt holds. The formulas are those of scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_mgpu.core import terminal

_MAX_MATRIX_CLASSES = 20  # at 3 characters each, 60 of the 80 columns
_MAX_PAIRS = 20
_PAIR_WIDTH = 31  # of each name of a pair
_MIN_NAME_WIDTH = len("true\\predicted")


def classification_metrics(
    labels: np.ndarray,
    probabilities: np.ndarray,
    losses: np.ndarray,
    *,
    label_names: Sequence[str],
    predictions: np.ndarray | None = None,
) -> dict[str, float]:
    """The scores of a task with one label per row, google-research/bert's first.

    Macro and weighted means run over the classes that occur among labels or
    predictions, as scikit-learn's do. Two classes add the scores of class 1
    (`precision`, `recall`, `f1`, and `auc` if both classes occur).

    Args:
      labels: int [R].
      probabilities: float [R, C].
      losses: float [R], the loss of each row in nats.
      label_names: C names.
      predictions: int [R]; None: the classes of the highest probabilities.
    """
    from sklearn import metrics

    if predictions is None:
        predictions = probabilities.argmax(axis=-1)
    macro, weighted = (
        metrics.precision_recall_fscore_support(
            labels, predictions, average=average, zero_division=0
        )
        for average in ("macro", "weighted")
    )
    scores = {
        "eval_accuracy": np.mean(predictions == labels),
        "eval_loss": np.mean(losses, dtype=np.float64),
        "macro_f1": macro[2],
        "micro_f1": metrics.f1_score(labels, predictions, average="micro"),
        "weighted_f1": weighted[2],
        "macro_precision": macro[0],
        "macro_recall": macro[1],
        "mcc": _mcc(labels, predictions),
    }
    if len(label_names) == 2:
        binary = metrics.precision_recall_fscore_support(
            labels, predictions, labels=[1], average=None, zero_division=0
        )
        for name, (value,) in zip(
            ("precision", "recall", "f1"), binary[:3], strict=True
        ):
            scores[name] = value
        if len(np.unique(labels)) == 2:
            scores["auc"] = metrics.roc_auc_score(labels, probabilities[:, 1])
    return {name: float(value) for name, value in scores.items()}


def _mcc(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Matthews' correlation coefficient, without scikit-learn's matrix of all classes.

    0 if all labels, or all predictions, are of one class.
    """
    rows, right = len(labels), int((labels == predictions).sum())
    size = int(max(labels.max(initial=0), predictions.max(initial=0))) + 1
    true, said = (
        np.bincount(classes, minlength=size).astype(np.float64)
        for classes in (labels, predictions)
    )
    spread = (rows**2 - said @ said) * (rows**2 - true @ true)
    return float((right * rows - true @ said) / np.sqrt(spread)) if spread else 0.0


def multi_label_metrics(
    truth: np.ndarray,
    probabilities: np.ndarray,
    chosen: np.ndarray,
    *,
    losses: np.ndarray,
) -> dict[str, float]:
    """The scores of a task whose rows may have several labels.

    eval_accuracy is the share of rows all of whose labels are right. Macro means run
    over all labels, mean_average_precision over those that occur.

    Args:
      truth, chosen: 0 or 1, [R, L].
      probabilities: float [R, L].
      losses: float [R], the loss of each row in nats.
    """
    from sklearn import metrics

    scores = {
        "eval_accuracy": np.mean((truth == chosen).all(-1)),
        "eval_loss": np.mean(losses, dtype=np.float64),
    }
    for average in ("micro", "macro", "weighted", "samples"):
        precision, recall, f1, _ = metrics.precision_recall_fscore_support(
            truth, chosen, average=average, zero_division=0
        )
        scores[f"{average}_f1"] = f1
        if average in ("micro", "macro"):
            scores |= {f"{average}_precision": precision, f"{average}_recall": recall}
    scores["hamming_loss"] = np.mean(truth != chosen)
    occurs = truth.any(0)
    if occurs.any():
        ranks = metrics.average_precision_score(
            truth[:, occurs], probabilities[:, occurs]
        )
        scores["mean_average_precision"] = ranks
    return {name: float(value) for name, value in scores.items()}


def regression_metrics(truth: np.ndarray, values: np.ndarray) -> dict[str, float]:
    """The scores of a regression; no pearson or spearman where one side is constant.

    Args:
      truth, values: float [R].
    """
    from scipy import stats

    truth, values = truth.astype(np.float64), values.astype(np.float64)
    errors = values - truth
    scores = {"eval_loss": np.mean(errors**2), "mae": np.mean(np.abs(errors))}
    if len(truth) > 1 and np.ptp(truth) and np.ptp(values):
        scores["pearson"] = stats.pearsonr(truth, values).statistic
        scores["spearman"] = stats.spearmanr(truth, values).statistic
    return {name: float(value) for name, value in scores.items()}


Cells = list[tuple[str, ...]]  # the lines of a table, its header first


def aligned(cells: Cells) -> str:
    """The lines of a table of labels as a text for the terminal."""
    return terminal.align(cells, (11, 9, 9, 9))


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
        (f"{i} {name}", *(f"{score:.4f}" for score in scores), str(support))
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


def confusion_table(
    labels: np.ndarray, predictions: np.ndarray, label_names: Sequence[str]
) -> str:
    """The confusion matrix in 80 columns.

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
    if terminal.WIDTH - num_classes * cell_width - support_width < _MIN_NAME_WIDTH:
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
    lines = [(terminal.fit("true", _PAIR_WIDTH) + "predicted", "rows", "% of true")]
    for index in np.argsort(-counts, kind="stable")[:_MAX_PAIRS]:
        (true, predicted), count = pairs[index].tolist(), int(counts[index])
        names = (f"{i} {label_names[i]}" for i in (true, predicted))
        pair = "".join(terminal.fit(name, _PAIR_WIDTH) for name in names)
        share = f"{100 * count / support[true]:.1f}"
        lines.append((pair, str(count), share))
    return f"most frequent errors\n{terminal.align(lines, (8, 10))}"


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log probabilities over the last axis, in float64."""
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """The logistic function, in float64."""
    return np.exp(-np.logaddexp(0, -logits.astype(np.float64)))
