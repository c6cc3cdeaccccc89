"""What a classifier's outputs mean: one label of a row, any number of them, or a value.

Letters: B rows, L labels, W outputs of a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.core.task import Predictions
from bert_mgpu.model import heads
from bert_mgpu.tasks.classification import builtin, metrics
from bert_mgpu.tasks.classification.problem_type import (
    ErrorRow,
    Loss,
    ProblemType,
    ScoredRows,
)


class Single(ProblemType):
    """One label of each row: a softmax. label_ids int32 [B]."""

    name = builtin.SINGLE
    problem_type = "single_label_classification"

    def encode(self, found: Sequence[Any], labels: Sequence[str]) -> np.ndarray:
        ids = {label: index for index, label in enumerate(labels)}
        known = [0 if label is None else ids[label] for label in found]
        return np.array(known, np.int32)

    def weights(self, truth: np.ndarray, loss: Loss) -> np.ndarray:
        if loss.weights is None:
            return np.ones(truth.shape, np.float32)
        return loss.weights[truth]

    def losses(self, logits: tf.Tensor, truth: tf.Tensor, loss: Loss) -> tf.Tensor:
        losses = heads.cross_entropy(logits, truth)
        if loss.focal_gamma:
            losses *= heads.one_minus_exp(-losses) ** loss.focal_gamma
        if loss.weights is None:
            return losses
        return losses * tf.gather(tf.constant(loss.weights), truth)

    def counts(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        return np.bincount(truth, minlength=len(labels))

    def balanced(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        """rows / (labels * rows of the label), as scikit-learn's "balanced"."""
        counts = self.counts(truth, labels)
        return (len(truth) / (len(labels) * np.maximum(counts, 1))).astype(np.float32)

    def decide(self, found: ScoredRows) -> Predictions:
        shares, classes = np.exp(log_softmax(found.logits)), self._classes(found)
        names = [found.labels[index] for index in classes]
        return Predictions(
            [*map(str, classes)], shares, _records(names, shares, found.labels)
        )

    @staticmethod
    def _classes(found: ScoredRows) -> np.ndarray:
        """A threshold is that of the second of two labels."""
        if found.thresholds is None:
            return found.logits.argmax(-1)
        second = np.exp(log_softmax(found.logits))[:, 1]
        return (second >= found.thresholds[1]).astype(int)

    def score(self, found: ScoredRows) -> dict[str, float]:
        shares, classes = np.exp(log_softmax(found.logits)), self._classes(found)
        return metrics.classification_metrics(
            found.truth,
            shares,
            self.row_losses(found),
            label_names=found.labels,
            predictions=classes,
        )

    def row_losses(self, found: ScoredRows) -> np.ndarray:
        log_shares = log_softmax(found.logits)
        return -log_shares[np.arange(len(log_shares)), found.truth]

    def wrong(self, found: ScoredRows) -> np.ndarray:
        return self._classes(found) != found.truth

    def words(self, found: ScoredRows, row: int) -> ErrorRow:
        one = found._replace(logits=found.logits[[row]])
        share, said = np.exp(log_softmax(one.logits))[0], int(self._classes(one)[0])
        true = int(found.truth[row])
        sure = f"{share[true]:.2f}, {share[said]:.2f}"
        return ErrorRow(found.labels[true], found.labels[said], sure)

    def cells(self, found: ScoredRows) -> metrics.Cells:
        return metrics.classification_cells(
            found.truth, self._classes(found), found.labels
        )

    def confusion(self, found: ScoredRows) -> np.ndarray | None:
        classes = self._classes(found)
        return metrics.confusion(found.truth, classes, len(found.labels))

    def tables(self, found: ScoredRows) -> list[str]:
        rows = found.truth, self._classes(found), found.labels
        return [*super().tables(found), metrics.confusion_table(*rows)]

    def answers(
        self, logits: tf.Tensor, labels: Sequence[str], thresholds: np.ndarray | None
    ) -> dict[str, tf.Tensor]:
        """label string [B], class int64 [B], probabilities float32 [B, L]."""
        shares = tf.nn.softmax(logits)
        chosen = tf.argmax(logits, -1)
        if thresholds is not None:
            chosen = tf.cast(shares[:, 1] >= float(thresholds[1]), tf.int64)
        names = tf.gather(tf.constant([*labels]), chosen)
        return {"label": names, "class": chosen, "probabilities": shares}


class Multi(ProblemType):
    """Any number of labels of each row: a sigmoid each. label_ids uint8 [B, L], 0 or 1.

    The loss of a row is the mean over the labels.
    """

    name = builtin.MULTI
    problem_type = "multi_label_classification"
    metric = "micro_f1"
    threshold = 0.5

    def encode(self, found: Sequence[Any], labels: Sequence[str]) -> np.ndarray:
        ids = {label: index for index, label in enumerate(labels)}
        known = np.zeros((len(found), len(labels)), np.uint8)
        for row, names in enumerate(found):
            known[row, [ids[name] for name in names or ()]] = 1
        return known

    def weights(self, truth: np.ndarray, loss: Loss) -> np.ndarray:
        return np.ones(len(truth), np.float32)

    def losses(self, logits: tf.Tensor, truth: tf.Tensor, loss: Loss) -> tf.Tensor:
        """A label's weight is that of the rows that have it, those that lack it have 1
        (`pos_weight` of PyTorch's BCEWithLogitsLoss).
        """
        truth = tf.cast(truth, tf.float32)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(truth, logits)  # [B, L]
        if loss.focal_gamma:
            losses *= heads.one_minus_exp(-losses) ** loss.focal_gamma
        if loss.weights is not None:
            losses *= 1 + truth * (tf.constant(loss.weights) - 1)
        return tf.reduce_mean(losses, -1)

    def counts(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        return truth.sum(0, dtype=np.int64)

    def balanced(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        """Rows that lack the label for each that has it."""
        counts = np.maximum(self.counts(truth, labels), 1)
        return np.maximum((len(truth) - counts) / counts, 1e-3).astype(np.float32)

    def decide(self, found: ScoredRows) -> Predictions:
        shares, chosen = self._chosen(found)
        ids = [np.flatnonzero(row) for row in chosen]
        names = [[found.labels[index] for index in row] for row in ids]
        texts = [",".join(map(str, row)) for row in ids]
        return Predictions(texts, shares, _records(names, shares, found.labels))

    def _chosen(self, found: ScoredRows) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities, and which labels that chooses."""
        shares = sigmoid(found.logits)
        least = self.threshold if found.thresholds is None else found.thresholds
        return shares, shares >= least

    def score(self, found: ScoredRows) -> dict[str, float]:
        shares, chosen = self._chosen(found)
        losses = self.row_losses(found)
        return metrics.multi_label_metrics(found.truth, shares, chosen, losses=losses)

    def row_losses(self, found: ScoredRows) -> np.ndarray:
        wide = found.logits.astype(np.float64)
        return (np.logaddexp(0, wide) - wide * found.truth).mean(-1)

    def wrong(self, found: ScoredRows) -> np.ndarray:
        return (self._chosen(found)[1] != found.truth).any(-1)

    def words(self, found: ScoredRows, row: int) -> ErrorRow:
        shares, chosen = self._chosen(found._replace(logits=found.logits[[row]]))
        differ = np.flatnonzero(chosen[0] != found.truth[row])
        return ErrorRow(
            self._names(found.labels, found.truth[row]),
            self._names(found.labels, chosen[0]),
            ", ".join(f"{found.labels[i]} {shares[0, i]:.3f}" for i in differ),
        )

    @staticmethod
    def _names(labels: Sequence[str], chosen: np.ndarray) -> str:
        return ", ".join(labels[index] for index in np.flatnonzero(chosen)) or "none"

    def cells(self, found: ScoredRows) -> metrics.Cells:
        chosen = self._chosen(found)[1]
        return metrics.multi_label_cells(found.truth, chosen, found.labels)

    def answers(
        self, logits: tf.Tensor, labels: Sequence[str], thresholds: np.ndarray | None
    ) -> dict[str, tf.Tensor]:
        """chosen int32 [B, L], 0 or 1, probabilities float32 [B, L]."""
        shares = tf.sigmoid(logits)
        least = self.threshold if thresholds is None else thresholds.astype(np.float32)
        return {"chosen": tf.cast(shares >= least, tf.int32), "probabilities": shares}


class Regression(ProblemType):
    """A value of each row: squared error. label_ids float32 [B]."""

    name = builtin.REGRESSION
    problem_type = "regression"
    metric = "eval_loss"
    has_labels = False

    def width(self, labels: Sequence[str]) -> int:
        return 1

    def encode(self, found: Sequence[Any], labels: Sequence[str]) -> np.ndarray:
        return np.array([0.0 if value is None else value for value in found], "f")

    def weights(self, truth: np.ndarray, loss: Loss) -> np.ndarray:
        return np.ones(len(truth), np.float32)

    def losses(self, logits: tf.Tensor, truth: tf.Tensor, loss: Loss) -> tf.Tensor:
        return tf.square(logits[:, 0] - truth)

    def counts(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        return np.zeros(0, np.int64)

    def balanced(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        return np.zeros(0, np.float32)

    def decide(self, found: ScoredRows) -> Predictions:
        texts = [*map(str, found.logits[:, 0])]  # few digits, that are the same float32
        values = [*map(float, texts)]
        records = [{"value": value} for value in values]
        return Predictions(texts, np.array(values)[:, None], records)

    def score(self, found: ScoredRows) -> dict[str, float]:
        return metrics.regression_metrics(found.truth, found.logits[:, 0])

    def row_losses(self, found: ScoredRows) -> np.ndarray:
        wide = found.logits[:, 0].astype(np.float64)
        return np.square(wide - found.truth)

    def wrong(self, found: ScoredRows) -> np.ndarray:
        return np.ones(len(found.logits), bool)

    def words(self, found: ScoredRows, row: int) -> ErrorRow:
        value, true = float(found.logits[row, 0]), float(found.truth[row])
        return ErrorRow(f"{true:g}", f"{value:.4g}", f"off by {abs(value - true):.4g}")

    def cells(self, found: ScoredRows) -> metrics.Cells:
        return []

    def answers(
        self, logits: tf.Tensor, labels: Sequence[str], thresholds: np.ndarray | None
    ) -> dict[str, tf.Tensor]:
        """value float32 [B]."""
        return {"value": logits[:, 0]}


SINGLE, MULTI, REGRESSION = _ALL = (Single(), Multi(), Regression())
PROBLEM_TYPES: Mapping[str, ProblemType] = {kind.name: kind for kind in _ALL}


def _records(
    chosen: Sequence[Any], probabilities: np.ndarray, labels: Sequence[str]
) -> list[dict[str, Any]]:
    """The chosen label or labels of each row, beside the probability of every label."""
    rounded = ([round(value, 6) for value in row] for row in probabilities.tolist())
    return [
        {"label": label, "probabilities": dict(zip(labels, row, strict=True))}
        for label, row in zip(chosen, rounded, strict=True)
    ]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis, in float64."""
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """In float64."""
    return np.exp(-np.logaddexp(0, -logits.astype(np.float64)))
