"""Scores of a classifier over a whole evaluation set.

Letters: R rows, C classes. Classes are indices into `label_names`, the same
numbers that predict.txt holds. The formulas are those of scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


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


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log probabilities over the last axis, in float64."""
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """The logistic function, in float64."""
    return np.exp(-np.logaddexp(0, -logits.astype(np.float64)))
