"""The interface of a problem type: one label per row, several, or a number.

`problem_types.py` has all three. Losses and the answers of exports are computed in
TensorFlow, the decisions and scores of whole sets in NumPy and float64.
Letters: B rows, L labels, W outputs of a row.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.core.task import Display, Predictions, ReadExamples, Trust
from bert_mgpu.tasks.classification import label_tables

_MOST_BARS = 10  # labels whose probabilities a displayed prediction has


class Loss(NamedTuple):
    """The options of the training loss; the loss of evaluation has none.

    weights: one per label, float32 [L], or None. focal_gamma: every loss is multiplied
    by (1 - probability of the true label) to this power (Lin et al. 2017).
    """

    weights: np.ndarray | None = None
    focal_gamma: float = 0.0


PLAIN = Loss()


class ScoredRows(NamedTuple):
    """The logits of a whole set, with its labels and thresholds."""

    logits: np.ndarray  # float32 [rows, W]
    labels: Sequence[str]
    thresholds: np.ndarray | None = None  # of each label's probability, float [L]
    truth: np.ndarray = np.zeros(0)  # label_ids; meaningless when predicting
    groups: np.ndarray | None = None  # the group of each row, if any: see ranking.py
    examples: ReadExamples = list  # reads the texts of the rows

    @property
    def margins(self) -> np.ndarray:
        """How far the second of two labels is ahead of the first: float64 [rows].

        It orders rows as that label's probability does, which is rounded near 0 and 1.
        """
        return np.subtract(self.logits[:, 1], self.logits[:, 0], dtype=np.float64)


class ErrorRow(NamedTuple):
    """A row of the report's table of errors."""

    truth: str
    predicted: str
    probabilities: str  # of both labels; for a regression, how far off it is
    place: tuple[int, int] | None = None  # in the confusion matrix


class ProblemType(abc.ABC):
    """One of the types "single", "multi" and "regression" of task.json."""

    name: str
    huggingface_problem_type: str  # "problem_type" of its config.json
    metric = "eval_accuracy"  # chooses the best model by default
    has_labels = True

    def width(self, labels: Sequence[str]) -> int:
        """W, the number of outputs of a row."""
        return len(labels)

    @abc.abstractmethod
    def encode(self, row_labels: Sequence[Any], labels: Sequence[str]) -> np.ndarray:
        """`label_ids` [rows, ...] for the labels of rows, which are None if unknown."""

    def weights(self, truth: np.ndarray, loss: Loss) -> np.ndarray:
        """The weight of each row in the mean of the losses: float32 [B]."""
        return np.ones(len(truth), np.float32)

    @abc.abstractmethod
    def losses(self, logits: tf.Tensor, truth: tf.Tensor, loss: Loss) -> tf.Tensor:
        """The loss of each row, times its weight: [B, W] -> [B]."""

    @abc.abstractmethod
    def counts(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        """The number of rows that have each label: int64 [L]."""

    @abc.abstractmethod
    def balanced(self, truth: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        """Weights that make rare labels count as much as frequent ones: float32 [L]."""

    @abc.abstractmethod
    def decide(self, scored: ScoredRows) -> Predictions:
        """The predictions for each result file."""

    @abc.abstractmethod
    def score(self, scored: ScoredRows) -> dict[str, float]:
        """Metrics of a whole set, Google's names first."""

    def trust(self, scored: ScoredRows) -> Trust:
        """See `core.task.Trust`."""
        return Trust()

    @abc.abstractmethod
    def row_losses(self, scored: ScoredRows) -> np.ndarray:
        """The loss of each row, whose mean is `eval_loss`: float64 [rows]."""

    @abc.abstractmethod
    def wrong(self, scored: ScoredRows) -> np.ndarray:
        """Whether to show each row as an error: bool [rows]."""

    @abc.abstractmethod
    def error_row(self, scored: ScoredRows, row: int) -> ErrorRow:
        """A row of the table of errors, in words, for the report."""

    @abc.abstractmethod
    def cells(self, scored: ScoredRows) -> label_tables.Cells:
        """A table of the scores of each label; empty where there are no labels."""

    @abc.abstractmethod
    def answers(
        self, logits: tf.Tensor, labels: Sequence[str], thresholds: np.ndarray | None
    ) -> dict[str, tf.Tensor]:
        """The tensors of an exported model, besides the logits [B, W]."""

    def attributes(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """label, probability, probabilities; or labels, probabilities; or value."""
        fields = dict(record)
        label = fields.pop("label", None)
        if isinstance(label, str):
            return {
                "label": label,
                "probability": record["probabilities"][label],
            } | fields
        return fields if label is None else {"labels": label} | fields

    def display(self, record: Mapping[str, Any]) -> Display:
        """A prediction for people to read: its labels and the highest probabilities."""
        if not self.has_labels:
            return Display(str(record["value"]))
        label = record["label"]
        text = label if isinstance(label, str) else ", ".join(label) or "no label"
        bars = sorted(record["probabilities"].items(), key=lambda pair: -pair[1])
        if len(rest := bars[_MOST_BARS:]) > 1:
            bars[_MOST_BARS:] = [(f"{len(rest)} more, each at most", rest[0][1])]
        return Display(text, bars)

    def confusion(self, scored: ScoredRows) -> Any:
        """The `counts` of a `core.report.ConfusionMatrix`, or None."""
        return None

    def confidence(self, scored: ScoredRows) -> label_tables.Cells:
        """How often predictions of some probability are right; empty if not known."""
        return []

    def tables(self, scored: ScoredRows) -> list[str]:
        """Tables that an evaluation logs below the line of its scores."""
        cells = self.cells(scored)
        return [label_tables.aligned(cells)] if cells else []
