"""Tagging the units of texts with a dense layer on every token, to find entities.

Shapes: R rows, T tokens, H width, L tags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.config.tagging import WORDS
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
from bert_mgpu.model import bert, crf, heads, layers
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.tasks.base import FinetuningTask
from bert_mgpu.tasks.tagging import bio, metrics, predictions, report
from bert_mgpu.tasks.tagging.decoding import TaggedSet

_CRF = crf.Transitions("crf/follow", "crf/first", "crf/last")  # parameter names


class Tagging(FinetuningTask):
    """Tags each unit (a `core.task.Task`); consecutive tags make up entities."""

    token_outputs = frozenset({"logits"})
    shared_outputs = frozenset({"transitions"})
    metric = "f1"
    shown = ("eval_accuracy", "eval_loss", "precision", "recall", "f1")

    def __init__(
        self,
        name: str,
        bert_config: BertConfig,
        tags: Sequence[str],
        *,
        max_seq_length: int,
        units: str,
        has_crf: bool = False,
        dropout: float | None = None,
        recompute: str = "none",
        chance_loss: float | None = None,
    ):
        """tags: the model's classes; units: what is tagged, "words" or "pieces".

        chance_loss: see `FinetuningTask`.
        """
        self.chance_loss = chance_loss
        self.name = name
        self.labels = tuple(tags)
        self.max_seq_length = max_seq_length
        self.tags_words = units == WORDS
        self.facts = {"task_type": "tags", "crf": has_crf, "tag_units": units}
        self.rules = crf.Transitions(*bio.rules_of(tags))
        self._config, self._recompute, self._has_crf = bert_config, recompute, has_crf
        self._dropout = bert_config.hidden_dropout_prob if dropout is None else dropout

    def param_specs(self) -> params_lib.Specs:
        count = len(self.labels)
        specs = params_lib.bert_specs(self._config, pooled=False)
        specs |= params_lib.classifier_specs(self._config, count)
        if self._has_crf:
            shapes = (count, count), (count,), (count,)
            specs |= {
                name: (shape, "zeros") for name, shape in zip(_CRF, shapes, strict=True)
            }
        return specs

    def loss_weights(self, batch: Batch) -> dict[str, np.float32]:
        return {"loss": np.sum(batch["tag_ids"] > 0, dtype=np.float32)}

    def loss_sums(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> dict[str, tf.Tensor]:
        logits = self._logits(params, batch, dropout_key)
        tag_ids = batch["tag_ids"]
        if not self._has_crf:
            return {"loss": tf.reduce_sum(heads.token_losses(logits, tag_ids))}
        weights = self.transitions(params)
        losses = crf.losses(
            logits,
            tag_ids,
            batch["prior_ids"],
            edges=batch["edges"],
            transitions=weights,
        )
        return {"loss": tf.reduce_sum(losses)}

    def outputs(self, params: Params, batch: Batch) -> dict[str, tf.Tensor]:
        outputs = {"logits": self.logits(params, batch)}
        if self._has_crf:  # decoding needs them, and sees only outputs
            weights = self.transitions(params)
            flat = tf.concat([tf.reshape(part, [-1]) for part in weights], 0)
            examples = layers.shape_list(batch["is_real_example"])[0]
            outputs["transitions"] = tf.tile(flat[None], [examples, 1])
        return outputs

    def logits(self, params: Params, batch: Batch) -> tf.Tensor:
        """The scores of the tags of each token: float32 [R, T, L]."""
        return self._logits(params, batch, None)

    def transitions(self, params: Params) -> crf.Transitions:
        """The transition scores of the random field; zeros without one."""
        if self._has_crf:
            return crf.Transitions(*(params[name] for name in _CRF))
        count = len(self.labels)
        shapes = (count, count), (count,), (count,)
        return crf.Transitions(*(np.zeros(shape, np.float32) for shape in shapes))

    def _logits(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> tf.Tensor:
        hidden = bert.encode(
            params,
            self._config,
            batch,
            dropout_key=dropout_key,
            recompute=self._recompute,
        )[-1]  # [R, T, H]
        return heads.token_logits(
            params, hidden, self._dropout, dropout_key=dropout_key
        )

    def scored_rows(
        self, outputs: Outputs, rows: Features, examples: ReadExamples
    ) -> TaggedSet:
        return TaggedSet(
            outputs, rows, self.labels, rules=self.rules, examples=examples
        )

    def scores(self, scored: TaggedSet) -> dict[str, Any]:
        right = scored.decoded[0].values == scored.truth.values
        units = max(1, len(right))
        counts = metrics.count(scored.true_entities, scored.entities)
        return {
            "eval_accuracy": float(right.sum() / units),
            "eval_loss": float(scored.losses.sum() / units),
            **metrics.scores(counts),
        }

    def metrics(self, rows: Features) -> list[str]:
        return ["eval_accuracy", "eval_loss", *metrics.NAMES]

    def trust(self, scored: TaggedSet) -> Trust:
        return metrics.trust(scored.true_entities, scored.entities)

    def decide(self, scored: TaggedSet) -> Predictions:
        return predictions.decide(scored)

    def display(self, record: Mapping[str, Any]) -> Display:
        return predictions.display(record)

    def summary(self, scored: TaggedSet, scores: Mapping[str, Any]) -> list[str]:
        counts = metrics.count(scored.true_entities, scored.entities)
        return [self.line(scores), metrics.table(counts)]

    def report(self, scored: TaggedSet, examples: ReadExamples) -> SetReport:
        return report.of_set(scored)
