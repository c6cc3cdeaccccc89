"""Classification and regression of texts and pairs, as in google-research/bert.

Shapes: R rows of tokens, S examples per row, B = R * S examples, W outputs of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.core import run_files
from bert_mgpu.core.report import SetReport
from bert_mgpu.core.rows import Features, Outputs
from bert_mgpu.core.task import (
    Batch,
    Display,
    DropoutKey,
    Params,
    Predictions,
    ReadExamples,
    Trust,
)
from bert_mgpu.model import bert, heads, layers
from bert_mgpu.model import params as params_lib
from bert_mgpu.model import segments as segments_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.tasks.base import FinetuningTask
from bert_mgpu.tasks.classification import ranking, report, rewrites
from bert_mgpu.tasks.classification.problem_type import (
    PLAIN,
    Loss,
    ProblemType,
    ScoredRows,
)
from bert_mgpu.tasks.classification.problem_types import SINGLE
from bert_mgpu.text.segments import Segments


class Classification(FinetuningTask):
    """A dense layer on the pooled output (a `core.task.Task`)."""

    shown = (
        *("eval_accuracy", "eval_loss", "macro_f1", "micro_f1"),
        *("mean_average_precision", "pearson", "spearman", "mae"),
        *ranking.NAMES,
    )
    lower_is_better = frozenset({"eval_loss", "mae", "hamming_loss"})
    score_settings = ("threshold",)

    def __init__(
        self,
        name: str,
        bert_config: BertConfig,
        labels: Sequence[str],
        *,
        max_seq_length: int,
        max_segments: int = 1,
        doc_stride: int | None = None,
        segment_pooling: str = "mean",
        classifier_dropout: float | None = None,
        recompute: str = "none",
        problem_type: ProblemType = SINGLE,
        loss: Loss = PLAIN,
        thresholds: np.ndarray | None = None,
        has_slots: bool = False,
    ):
        """max_segments, doc_stride: see `Segments`; segment_pooling: `segments.pool`.

        thresholds: for each label's probability, float [labels]; None: the default.
        has_slots: whether groups of rows are slots of ads.
        """
        self.name = name
        self.problem_type = problem_type
        self.facts = {"task_type": problem_type.name}
        self.metric = problem_type.metric
        self.has_baseline = problem_type.has_labels
        if problem_type.has_labels:
            self.chance_loss = math.log(2)  # more labels have more
        self.huggingface_problem_type = problem_type.huggingface_problem_type
        self._loss, self._thresholds = loss, thresholds
        self._has_slots = has_slots
        self.labels = tuple(labels)
        self.max_seq_length = max_seq_length
        self._segments = Segments(max_seq_length, max_segments, doc_stride)
        self._pooling = segment_pooling
        if max_segments > 1:
            self.facts["segment_pooling"] = segment_pooling
        self._config = bert_config
        self._recompute = recompute
        self._dropout = (
            bert_config.hidden_dropout_prob
            if classifier_dropout is None
            else classifier_dropout
        )

    @property
    def segments(self) -> Segments:
        return self._segments

    def param_specs(self) -> params_lib.Specs:
        specs = params_lib.bert_specs(self._config)
        if self.segments.most > 1:
            specs |= segments_lib.specs(self._config.hidden_size, self._pooling)
        return specs | params_lib.classifier_specs(self._config, self._width)

    @property
    def _width(self) -> int:
        return self.problem_type.width(self.labels)

    def loss_weights(self, batch: Batch) -> dict[str, np.float32]:
        counts = self.problem_type.weights(batch["label_ids"], self._loss)
        return {"loss": np.sum(counts * batch["is_real_example"])}

    def loss_sums(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> dict[str, tf.Tensor]:
        logits = self._logits(params, batch, dropout_key)
        losses = self.problem_type.losses(logits, batch["label_ids"], self._loss)
        return {"loss": tf.reduce_sum(losses * batch["is_real_example"])}

    def outputs(self, params: Params, batch: Batch) -> dict[str, tf.Tensor]:
        return {"logits": self._logits(params, batch, None)}  # [B, W]

    def _logits(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> tf.Tensor:
        if self.segments.most > 1:
            vectors = self._segment_vectors(params, batch, dropout_key)
        else:
            first_tokens = bert.first_tokens(batch)  # [R, S]
            last = self._encode(
                params, batch, first_tokens, dropout_key=dropout_key
            )  # [R, S, H]
            vectors = tf.reshape(last, [-1, last.shape[-1]])
            # From here on, a row is one example.
            dropout_key = _times(dropout_key, first_tokens.shape[1])
        pooled = bert.pool(params, vectors)
        return heads.classification_logits(
            params, pooled, self._dropout, dropout_key=dropout_key
        )

    def _segment_vectors(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> tf.Tensor:
        """One vector for each row, pooled over its segments: float32 [R, H]."""
        parts, is_real = segments_lib.split(batch, self.segments.length)  # K per row
        first_tokens = bert.first_tokens(parts)  # [R * K, 1]
        segment_keys = _times(dropout_key, is_real.shape[1])
        last = self._encode(
            params, parts, first_tokens, dropout_key=segment_keys
        )  # [R * K, 1, H]
        shape = [*layers.shape_list(is_real), last.shape[-1]]
        return segments_lib.pool(
            params, tf.reshape(last, shape), is_real, how=self._pooling
        )

    def _encode(
        self,
        params: Params,
        batch: Batch,
        first_tokens: tf.Tensor,
        *,
        dropout_key: DropoutKey | None,
    ) -> tf.Tensor:
        """The last hidden states at the first tokens."""
        return bert.encode(
            params,
            self._config,
            batch,
            dropout_key=dropout_key,
            positions=first_tokens,
            recompute=self._recompute,
        )[-1]

    def scored_rows(
        self, outputs: Outputs, rows: Features, examples: ReadExamples
    ) -> ScoredRows:
        return ScoredRows(
            outputs["logits"],
            self.labels,
            self._thresholds,
            truth=rows.dense["label_ids"],
            groups=ranking.groups_of(rows),
            examples=examples,
        )

    def scores(self, scored: ScoredRows) -> dict[str, float]:
        return self.problem_type.score(scored)

    def trust(self, scored: ScoredRows) -> Trust:
        return self.problem_type.trust(scored)

    def decide(self, scored: ScoredRows) -> Predictions:
        predictions = self.problem_type.decide(scored)
        if scored.groups is None or not ranking.are_groups(scored.groups):
            return predictions
        lines = rewrites.lines(
            scored.examples(),
            scored.groups,
            scored.margins,
            probabilities=np.asarray(predictions.values)[:, 1],
            has_slots=self._has_slots,
        )
        return predictions._replace(files={run_files.REWRITES: lines})

    def attributes(self, record: Mapping[str, Any]) -> dict[str, Any]:
        return self.problem_type.attributes(record)

    def display(self, record: Mapping[str, Any]) -> Display:
        return self.problem_type.display(record)

    def answers(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        logits = outputs["logits"]  # [B, W]
        named = self.problem_type.answers(logits, self.labels, self._thresholds)
        return named | {"logits": logits}

    def metrics(self, rows: Features) -> list[str]:
        """The names of the scores that an evaluation of these rows gives."""
        # The scores of random outputs have these names.
        logits = np.random.default_rng(0).normal(size=(len(rows), self._width))
        outputs = {"logits": logits.astype(np.float32)}
        return [*self.scores(self.scored_rows(outputs, rows, list))]

    def summary(self, scored: ScoredRows, scores: Mapping[str, Any]) -> list[str]:
        lines = [self.line(scores), *self.problem_type.tables(scored)]
        if scored.groups is not None:
            lines.append(ranking.describe_scored_groups(scored.groups, scored.truth))
        return lines

    def report(self, scored: ScoredRows, examples: ReadExamples) -> SetReport:
        return report.of_set(self.problem_type, scored, examples)


def _times(dropout_key: DropoutKey | None, factor: int) -> DropoutKey | None:
    """The key for a batch in which each row has become `factor` rows."""
    if dropout_key is None:
        return None
    return dropout_key._replace(first_row=dropout_key.first_row * factor)
