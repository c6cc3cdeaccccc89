"""The three problem types: one label per row, any number of labels, or a value.

Letters: B rows, L labels, W outputs of a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.core.task import Predictions, Trust
from bert_mgpu.model import heads
from bert_mgpu.tasks.classification import (
    builtin,
    label_tables,
    metrics,
    ranking,
    trust,
)
from bert_mgpu.tasks.classification.problem_type import (
    ErrorRow,
    Loss,
    ProblemType,
    ScoredRows,
)
from bert_mgpu.tasks.classification.records import LabelRecords

_WORST, _FEWEST_WORST = 0.1, 20  # share and least number of rows shown as errors


class Single(ProblemType):
    """One label per row: a softmax. label_ids int32 [B]."""

    name = builtin.SINGLE
    huggingface_problem_type = "single_label_classification"

    def encode(self, row_labels: Sequence[Any], labels: Sequence[str]) -> np.ndarray:
        ids = {label: index for index, label in enumerate(labels)}
        return np.array(
            [0 if label is None else ids[label] for label in row_labels], np.int32
        )

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

    def decide(self, scored: ScoredRows) -> Predictions:
        probabilities = np.exp(metrics.log_softmax(scored.logits))
        classes = self._classes(scored)
        names = [scored.labels[index] for index in classes]
        records = LabelRecords(names, probabilities, scored.labels)
        return Predictions([*map(str, classes)], probabilities, records)

    @staticmethod
    def _classes(scored: ScoredRows) -> np.ndarray:
        """The predicted classes. A threshold is that of the second of two labels."""
        if scored.thresholds is None:
            return scored.logits.argmax(-1)
        second = np.exp(metrics.log_softmax(scored.logits))[:, 1]
        return (second >= scored.thresholds[1]).astype(int)

    def score(self, scored: ScoredRows) -> dict[str, float]:
        scores = metrics.classification_metrics(
            scored.truth,
            np.exp(metrics.log_softmax(scored.logits)),
            self.row_losses(scored),
            label_names=scored.labels,
            predictions=self._classes(scored),
        )
        truth = scored.truth
        return scores | ranking.scores(scored.groups, scored.margins, truth=truth)

    def trust(self, scored: ScoredRows) -> Trust:
        return trust.of_single(scored, self._classes(scored))

    def row_losses(self, scored: ScoredRows) -> np.ndarray:
        log_probs = metrics.log_softmax(scored.logits)
        return -log_probs[np.arange(len(log_probs)), scored.truth]

    def wrong(self, scored: ScoredRows) -> np.ndarray:
        return self._classes(scored) != scored.truth

    def error_row(self, scored: ScoredRows, row: int) -> ErrorRow:
        one_row = scored._replace(logits=scored.logits[[row]])
        probabilities = np.exp(metrics.log_softmax(one_row.logits))[0]
        true, predicted = int(scored.truth[row]), int(self._classes(one_row)[0])
        both = f"{probabilities[true]:.2f}, {probabilities[predicted]:.2f}"
        truth, said = scored.labels[true], scored.labels[predicted]
        return ErrorRow(truth, said, both, place=(true, predicted))

    def cells(self, scored: ScoredRows) -> label_tables.Cells:
        classes = self._classes(scored)
        return label_tables.classification_cells(scored.truth, classes, scored.labels)

    def confusion(self, scored: ScoredRows) -> Any:
        classes = self._classes(scored)
        return label_tables.counts_to_show(scored.truth, classes, len(scored.labels))

    def confidence(self, scored: ScoredRows) -> label_tables.Cells:
        classes = self._classes(scored)
        return trust.confidence_cells(scored.truth, classes, scored.logits)

    def tables(self, scored: ScoredRows) -> list[str]:
        classes = self._classes(scored)
        table = label_tables.confusion_table(scored.truth, classes, scored.labels)
        return [*super().tables(scored), table]

    def answers(
        self, logits: tf.Tensor, labels: Sequence[str], thresholds: np.ndarray | None
    ) -> dict[str, tf.Tensor]:
        """label string [B], class int64 [B], probabilities float32 [B, L]."""
        probabilities = tf.nn.softmax(logits)
        chosen = tf.argmax(logits, -1)
        if thresholds is not None:
            chosen = tf.cast(probabilities[:, 1] >= float(thresholds[1]), tf.int64)
        names = tf.gather(tf.constant([*labels]), chosen)
        return {"label": names, "class": chosen, "probabilities": probabilities}


class Multi(ProblemType):
    """Any number of labels per row, a sigmoid each. label_ids uint8 [B, L], 0 or 1.

    The loss of a row is the mean over the labels.
    """

    name = builtin.MULTI
    huggingface_problem_type = "multi_label_classification"
    metric = "micro_f1"
    threshold = 0.5

    def encode(self, row_labels: Sequence[Any], labels: Sequence[str]) -> np.ndarray:
        ids = {label: index for index, label in enumerate(labels)}
        label_ids = np.zeros((len(row_labels), len(labels)), np.uint8)
        for row, names in enumerate(row_labels):
            label_ids[row, [ids[name] for name in names or ()]] = 1
        return label_ids

    def losses(self, logits: tf.Tensor, truth: tf.Tensor, loss: Loss) -> tf.Tensor:
        """The losses of rows. A label's weight applies to rows that have it; all others
        have weight 1 (as with `pos_weight` of PyTorch's BCEWithLogitsLoss).
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
        """The number of rows without the label, per row that has it."""
        counts = np.maximum(self.counts(truth, labels), 1)
        return np.maximum((len(truth) - counts) / counts, 1e-3).astype(np.float32)

    def decide(self, scored: ScoredRows) -> Predictions:
        probabilities, chosen = self._chosen(scored)
        ids = [np.flatnonzero(row) for row in chosen]
        names = [[scored.labels[index] for index in row] for row in ids]
        texts = [",".join(map(str, row)) for row in ids]
        records = LabelRecords(names, probabilities, scored.labels)
        return Predictions(texts, probabilities, records)

    def _chosen(self, scored: ScoredRows) -> tuple[np.ndarray, np.ndarray]:
        """The probabilities [rows, L], and whether each label is predicted."""
        probabilities = metrics.sigmoid(scored.logits)
        least = self.threshold if scored.thresholds is None else scored.thresholds
        return probabilities, probabilities >= least

    def score(self, scored: ScoredRows) -> dict[str, float]:
        probabilities, chosen = self._chosen(scored)
        return metrics.multi_label_metrics(
            scored.truth, probabilities, chosen, losses=self.row_losses(scored)
        )

    def trust(self, scored: ScoredRows) -> Trust:
        chosen = self._chosen(scored)[1].astype(np.uint8)
        return trust.of_label_sets(scored.truth, chosen, scored.labels)

    def row_losses(self, scored: ScoredRows) -> np.ndarray:
        wide = scored.logits.astype(np.float64)
        return (np.logaddexp(0, wide) - wide * scored.truth).mean(-1)

    def wrong(self, scored: ScoredRows) -> np.ndarray:
        return (self._chosen(scored)[1] != scored.truth).any(-1)

    def error_row(self, scored: ScoredRows, row: int) -> ErrorRow:
        one_row = scored._replace(logits=scored.logits[[row]])
        probabilities, chosen = self._chosen(one_row)
        differ = np.flatnonzero(chosen[0] != scored.truth[row])
        return ErrorRow(
            self._names(scored.labels, scored.truth[row]),
            self._names(scored.labels, chosen[0]),
            ", ".join(f"{scored.labels[i]} {probabilities[0, i]:.3f}" for i in differ),
        )

    @staticmethod
    def _names(labels: Sequence[str], chosen: np.ndarray) -> str:
        return ", ".join(labels[index] for index in np.flatnonzero(chosen)) or "none"

    def cells(self, scored: ScoredRows) -> label_tables.Cells:
        chosen = self._chosen(scored)[1]
        return label_tables.multi_label_cells(scored.truth, chosen, scored.labels)

    def answers(
        self, logits: tf.Tensor, labels: Sequence[str], thresholds: np.ndarray | None
    ) -> dict[str, tf.Tensor]:
        """chosen int32 [B, L], 0 or 1, probabilities float32 [B, L]."""
        probabilities = tf.sigmoid(logits)
        least = self.threshold if thresholds is None else thresholds.astype(np.float32)
        chosen = tf.cast(probabilities >= least, tf.int32)
        return {"chosen": chosen, "probabilities": probabilities}


class Regression(ProblemType):
    """A value per row: squared error. label_ids float32 [B]."""

    name = builtin.REGRESSION
    huggingface_problem_type = "regression"
    metric = "eval_loss"
    has_labels = False

    def width(self, labels: Sequence[str]) -> int:
        return 1

    def encode(self, row_labels: Sequence[Any], labels: Sequence[str]) -> np.ndarray:
        values = [0.0 if value is None else value for value in row_labels]
        return np.array(values, np.float32)

    def losses(self, logits: tf.Tensor, truth: tf.Tensor, loss: Loss) -> tf.Tensor:
        return tf.square(logits[:, 0] - truth)

    def counts(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        return np.zeros(0, np.int64)

    def balanced(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        return np.zeros(0, np.float32)

    def decide(self, scored: ScoredRows) -> Predictions:
        texts = [*map(str, scored.logits[:, 0])]  # the shortest form of each float32
        values = [*map(float, texts)]
        records = [{"value": value} for value in values]
        return Predictions(texts, np.array(values)[:, None], records)

    def score(self, scored: ScoredRows) -> dict[str, float]:
        return metrics.regression_metrics(scored.truth, scored.logits[:, 0])

    def row_losses(self, scored: ScoredRows) -> np.ndarray:
        wide = scored.logits[:, 0].astype(np.float64)
        return np.square(wide - scored.truth)

    def trust(self, scored: ScoredRows) -> Trust:
        return trust.of_values(scored.truth, scored.logits[:, 0])

    def wrong(self, scored: ScoredRows) -> np.ndarray:
        """The worst tenth, but at least 20 rows: no value is simply right or wrong."""
        losses = self.row_losses(scored)
        count = max(_FEWEST_WORST, int(_WORST * len(losses)))
        worst = np.zeros(len(losses), bool)
        worst[np.argsort(-losses, kind="stable")[:count]] = True
        return worst

    def error_row(self, scored: ScoredRows, row: int) -> ErrorRow:
        value, true = float(scored.logits[row, 0]), float(scored.truth[row])
        return ErrorRow(f"{true:g}", f"{value:.4g}", f"off by {abs(value - true):.4g}")

    def cells(self, scored: ScoredRows) -> label_tables.Cells:
        return []

    def answers(
        self, logits: tf.Tensor, labels: Sequence[str], thresholds: np.ndarray | None
    ) -> dict[str, tf.Tensor]:
        """value float32 [B]."""
        return {"value": logits[:, 0]}


SINGLE, MULTI, REGRESSION = _ALL = (Single(), Multi(), Regression())
PROBLEM_TYPES: Mapping[str, ProblemType] = {each.name: each for each in _ALL}
