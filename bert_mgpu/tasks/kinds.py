"""What a classifier's outputs mean: one label of a row, any number of them, or a value.

Letters: B rows, L labels, W outputs of a row. What a kind says of logits is said in
TensorFlow for training, and in numpy, float64, for whole sets.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.nn import heads
from bert_mgpu.tasks import metrics

Label = str | tuple[str, ...] | float


class Loss(NamedTuple):
    """What makes the loss of training another one than that of evaluation.

    weights: of each label, float32 [L], or None. focal_gamma: Lin et al. 2017, "Focal
    Loss": every loss times (1 - probability of the truth) to this power.
    """

    weights: np.ndarray | None = None
    focal_gamma: float = 0.0


PLAIN = Loss()


class Outputs(NamedTuple):
    """What the model says of a whole set."""

    logits: np.ndarray  # float32 [rows, W]
    labels: Sequence[str]
    thresholds: np.ndarray | None = None  # of each label's probability, float [L]
    truth: np.ndarray | None = None  # label_ids; None: only to be predicted


class Decisions(NamedTuple):
    """What is written of rows; each has as many entries as there are rows."""

    texts: list[str]  # the lines of predict.txt
    values: np.ndarray  # [rows, W], those of test_results.tsv
    labels: list[Any]  # JSON values
    names: Sequence[str]  # of the W values, empty where there is one without a name


class Kind(abc.ABC):
    """A type of task.json."""

    name: str
    problem_type: str  # transformers' name of it
    has_labels = True

    def width(self, labels: Sequence[str]) -> int:
        """W."""
        return len(labels)

    @abc.abstractmethod
    def encode(self, found: Sequence[Any], labels: Sequence[str]) -> np.ndarray:
        """Labels of rows, None where a row has none, -> `label_ids`, [rows, ...]."""

    @abc.abstractmethod
    def weights(self, truth: tf.Tensor, loss: Loss) -> tf.Tensor:
        """What each row counts in the mean of the losses: float32 [B]."""

    @abc.abstractmethod
    def losses(self, logits: tf.Tensor, truth: tf.Tensor, loss: Loss) -> tf.Tensor:
        """[B, W] -> [B], times `weights`."""

    @abc.abstractmethod
    def counts(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        """How many rows have each label: int64 [L]."""

    @abc.abstractmethod
    def balanced(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        """Weights by which rare labels count as much as others: float32 [L]."""

    @abc.abstractmethod
    def decide(self, found: Outputs) -> Decisions:
        """What a prediction writes."""

    @abc.abstractmethod
    def score(self, found: Outputs) -> dict[str, float]:
        """Metrics of a whole set, Google's names first."""

    def tables(self, found: Outputs) -> list[str]:
        """What an evaluation shows below its line of scores."""
        return []


class Single(Kind):
    """One label of each row: a softmax. label_ids int32 [B]."""

    name = "single"
    problem_type = "single_label_classification"

    def encode(self, found: Sequence[Any], labels: Sequence[str]) -> np.ndarray:
        ids = {label: index for index, label in enumerate(labels)}
        known = [0 if label is None else ids[label] for label in found]
        return np.array(known, np.int32)

    def weights(self, truth: tf.Tensor, loss: Loss) -> tf.Tensor:
        if loss.weights is None:
            return tf.ones_like(truth, tf.float32)
        return tf.gather(tf.constant(loss.weights), truth)

    def losses(self, logits: tf.Tensor, truth: tf.Tensor, loss: Loss) -> tf.Tensor:
        losses = heads.cross_entropy(logits, truth)
        if loss.focal_gamma:
            losses *= heads.one_minus_exp(-losses) ** loss.focal_gamma
        return losses if loss.weights is None else losses * self.weights(truth, loss)

    def counts(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        return np.bincount(truth, minlength=len(labels))

    def balanced(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        """rows / (labels * rows of the label), as scikit-learn's "balanced"."""
        counts = self.counts(truth, labels)
        return (len(truth) / (len(labels) * np.maximum(counts, 1))).astype(np.float32)

    def decide(self, found: Outputs) -> Decisions:
        shares, classes = np.exp(log_softmax(found.logits)), self._classes(found)
        names = [found.labels[index] for index in classes]
        return Decisions([*map(str, classes)], shares, names, found.labels)

    @staticmethod
    def _classes(found: Outputs) -> np.ndarray:
        """A threshold is that of the second of two labels."""
        if found.thresholds is None:
            return found.logits.argmax(-1)
        second = np.exp(log_softmax(found.logits))[:, 1]
        return (second >= found.thresholds[1]).astype(int)

    def score(self, found: Outputs) -> dict[str, float]:
        assert found.truth is not None
        log_shares = log_softmax(found.logits)
        losses = -log_shares[np.arange(len(log_shares)), found.truth]
        shares, classes = np.exp(log_shares), self._classes(found)
        return metrics.classification_metrics(
            found.truth, shares, losses, found.labels, classes
        )

    def tables(self, found: Outputs) -> list[str]:
        assert found.truth is not None
        rows = found.truth, self._classes(found), found.labels
        return [metrics.classification_table(*rows), metrics.confusion_table(*rows)]


class Multi(Kind):
    """Any number of labels of each row: a sigmoid each. label_ids uint8 [B, L], 0 or 1.

    The loss of a row is the mean over the labels.
    """

    name = "multi"
    problem_type = "multi_label_classification"
    threshold = 0.5

    def encode(self, found: Sequence[Any], labels: Sequence[str]) -> np.ndarray:
        ids = {label: index for index, label in enumerate(labels)}
        known = np.zeros((len(found), len(labels)), np.uint8)
        for row, names in enumerate(found):
            known[row, [ids[name] for name in names or ()]] = 1
        return known

    def weights(self, truth: tf.Tensor, loss: Loss) -> tf.Tensor:
        return tf.ones(tf.shape(truth)[:1])

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

    def decide(self, found: Outputs) -> Decisions:
        shares, chosen = self._chosen(found)
        ids = [np.flatnonzero(row) for row in chosen]
        names = [[found.labels[index] for index in row] for row in ids]
        texts = [",".join(map(str, row)) for row in ids]
        return Decisions(texts, shares, names, found.labels)

    def _chosen(self, found: Outputs) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities, and which labels that chooses."""
        shares = sigmoid(found.logits)
        least = self.threshold if found.thresholds is None else found.thresholds
        return shares, shares >= least

    def score(self, found: Outputs) -> dict[str, float]:
        assert found.truth is not None
        wide = found.logits.astype(np.float64)
        losses = np.logaddexp(0, wide) - wide * found.truth
        shares, chosen = self._chosen(found)
        return metrics.multi_label_metrics(found.truth, shares, chosen, losses.mean(-1))

    def tables(self, found: Outputs) -> list[str]:
        assert found.truth is not None
        chosen = self._chosen(found)[1]
        return [metrics.multi_label_table(found.truth, chosen, found.labels)]


class Regression(Kind):
    """A value of each row: squared error. label_ids float32 [B]."""

    name = "regression"
    problem_type = "regression"
    has_labels = False

    def width(self, labels: Sequence[str]) -> int:
        return 1

    def encode(self, found: Sequence[Any], labels: Sequence[str]) -> np.ndarray:
        return np.array([0.0 if value is None else value for value in found], "f")

    def weights(self, truth: tf.Tensor, loss: Loss) -> tf.Tensor:
        return tf.ones_like(truth)

    def losses(self, logits: tf.Tensor, truth: tf.Tensor, loss: Loss) -> tf.Tensor:
        return tf.square(logits[:, 0] - truth)

    def counts(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        return np.zeros(0, np.int64)

    def balanced(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        return np.zeros(0, np.float32)

    def decide(self, found: Outputs) -> Decisions:
        texts = [*map(str, found.logits[:, 0])]  # few digits, that are the same float32
        values = [*map(float, texts)]
        return Decisions(texts, np.array(values)[:, None], values, ())

    def score(self, found: Outputs) -> dict[str, float]:
        assert found.truth is not None
        return metrics.regression_metrics(found.truth, found.logits[:, 0])


SINGLE, MULTI, REGRESSION = _ALL = (Single(), Multi(), Regression())
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}


def number(cell: str) -> float:
    """A regression's label. Raises ValueError for what is no finite number."""
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"label {cell[:40]!r} is not a number")
    return value


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis, in float64."""
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """In float64."""
    return np.exp(-np.logaddexp(0, -logits.astype(np.float64)))
