"""What every kind of labels of a row can do; kinds.py has the three.

Letters: B rows, L labels, W outputs of a row. What a kind says of logits is said in
TensorFlow for training, and in numpy, float64, for whole sets.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.core.task import Predictions
from bert_mgpu.tasks.classification import metrics


class Loss(NamedTuple):
    """What makes the loss of training another one than that of evaluation.

    weights: of each label, float32 [L], or None. focal_gamma: Lin et al. 2017, "Focal
    Loss": every loss times (1 - probability of the truth) to this power.
    """

    weights: np.ndarray | None = None
    focal_gamma: float = 0.0


PLAIN = Loss()


class ScoredRows(NamedTuple):
    """What the model says of a whole set."""

    logits: np.ndarray  # float32 [rows, W]
    labels: Sequence[str]
    thresholds: np.ndarray | None = None  # of each label's probability, float [L]
    truth: np.ndarray = np.zeros(0)  # label_ids; whatever they are in a prediction


class ErrorRow(NamedTuple):
    """What is said of a row to a reader."""

    truth: str
    said: str
    sure: str  # probabilities of both, or how far off


class ProblemType(abc.ABC):
    """A type of task.json."""

    name: str
    problem_type: str  # transformers' name of it
    metric = "eval_accuracy"  # by which a model is chosen, where no one says
    has_labels = True

    def width(self, labels: Sequence[str]) -> int:
        """W."""
        return len(labels)

    @abc.abstractmethod
    def encode(self, found: Sequence[Any], labels: Sequence[str]) -> np.ndarray:
        """Labels of rows, None where a row has none, -> `label_ids`, [rows, ...]."""

    @abc.abstractmethod
    def weights(self, truth: np.ndarray, loss: Loss) -> np.ndarray:
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
    def decide(self, found: ScoredRows) -> Predictions:
        """What a prediction writes."""

    @abc.abstractmethod
    def score(self, found: ScoredRows) -> dict[str, float]:
        """Metrics of a whole set, Google's names first."""

    @abc.abstractmethod
    def row_losses(self, found: ScoredRows) -> np.ndarray:
        """The loss of each row, whose mean is `eval_loss`: float64 [rows]."""

    @abc.abstractmethod
    def wrong(self, found: ScoredRows) -> np.ndarray:
        """Which rows may be errors to look at: bool [rows]."""

    @abc.abstractmethod
    def words(self, found: ScoredRows, row: int) -> ErrorRow:
        """A row for a reader."""

    @abc.abstractmethod
    def cells(self, found: ScoredRows) -> metrics.Cells:
        """The scores of each label; empty where there are none."""

    @abc.abstractmethod
    def answers(
        self, logits: tf.Tensor, labels: Sequence[str], thresholds: np.ndarray | None
    ) -> dict[str, tf.Tensor]:
        """What an exported model says of rows [B, W] beside their logits."""

    def confusion(self, found: ScoredRows) -> np.ndarray | None:
        """Rows of each true label (down) and predicted one, int [L, L]."""
        return None

    def tables(self, found: ScoredRows) -> list[str]:
        """What an evaluation shows below its line of scores."""
        cells = self.cells(found)
        return [metrics.aligned(cells)] if cells else []
