"""Masked language model and next sentence prediction, as in google-research/bert.

Shapes: R rows of tokens, S examples per row, B = R * S examples, P masked tokens per
row, M <= R * P those that may be real, V tokens in the vocabulary.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.core.rows import POSITIONS, Outputs, Rows
from bert_mgpu.core.task import Batch, DropoutKey, Forward, Params, ReadExamples
from bert_mgpu.model import bert, heads
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig

MASKED, NEXT = "masked_lm_loss", "next_sentence_loss"
WEIGHTS = "masked_lm_weights"
NEXT_HEAD = "cls/seq_relationship/output_weights"
_NEW_HEAD_WARNING = (
    "a random masked-word head damages trained weights: train it alone first with"
    " --freeze=^bert/, then pass that output_dir as --init_checkpoint, with another"
    " --output_dir"
)


class _Losses(NamedTuple):
    """-log p of each masked token and each example, and whether p is the largest."""

    tokens: heads.MaskedTokens
    masked: tf.Tensor  # float32 [M]
    masked_hit: tf.Tensor  # bool [M]
    next: tf.Tensor | None = None  # float32 [B]
    next_hit: tf.Tensor | None = None  # bool [B]


class Pretraining:
    """The pretraining task (a `core.task.Task`): losses with separate denominators."""

    name = "pretraining"
    labels: tuple[str, ...] = ()
    lower_is_better = frozenset({"loss", "masked_lm_loss", "perplexity"})
    new_head_warnings: Mapping[str, str] = types.MappingProxyType(
        {params_lib.MASKED_HEAD: _NEW_HEAD_WARNING}
    )

    def __init__(
        self,
        bert_config: BertConfig,
        max_seq_length: int,
        next_sentence: bool,
        *,
        recompute: str = "none",
    ):
        """next_sentence: whether rows have labels for next sentence prediction."""
        self.max_seq_length = max_seq_length
        self._config = bert_config
        self._next_sentence = next_sentence
        self._recompute = recompute
        # Where only masked tokens are read, no loss depends on the pooler.
        pooler = frozenset({"bert/pooler/dense/kernel", "bert/pooler/dense/bias"})
        self.token_outputs: frozenset[str] = frozenset()
        self.shared_outputs: frozenset[str] = frozenset()
        self.unused_params = frozenset() if next_sentence else pooler
        self.facts: dict[str, str] = {}

    def param_specs(self) -> params_lib.Specs:
        own = params_lib.pretraining_specs(self._config, self._next_sentence)
        return params_lib.bert_specs(self._config) | own

    def first_values(
        self, params: Mapping[str, np.ndarray], new: Collection[str]
    ) -> dict[str, np.ndarray]:
        return {}

    def loss_weights(self, batch: Batch) -> dict[str, np.float32]:
        masks = batch.get(WEIGHTS, np.zeros(0))
        weights = {MASKED: np.sum(masks, dtype=np.float32)}
        if self._next_sentence:
            weights[NEXT] = np.sum(batch["is_real_example"])
        return weights

    def loss_sums(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> dict[str, tf.Tensor]:
        batch = heads.with_targets(batch)
        losses = self._losses(params, batch, dropout_key)
        sums = {MASKED: tf.reduce_sum(losses.masked * losses.tokens.weights)}
        if losses.next is not None:
            sums[NEXT] = tf.reduce_sum(losses.next * batch["is_real_example"])
        return sums

    def outputs(self, params: Params, batch: Batch) -> dict[str, tf.Tensor]:
        """Sums for each example: float32 [B]."""
        batch = heads.with_targets(batch)
        losses = self._losses(params, batch, None)
        tokens = losses.tokens
        examples = heads.examples_of_targets(batch, tokens)  # [M]
        count = batch["is_real_example"].shape[0]

        def sums_per_example(values: tf.Tensor) -> tf.Tensor:
            weighted = tf.cast(values, tf.float32) * tokens.weights
            return tf.math.unsorted_segment_sum(weighted, examples, count)

        sums = {
            "masked_lm_losses": sums_per_example(losses.masked),
            "masked_lm_hits": sums_per_example(losses.masked_hit),
            "masked_lm_counts": sums_per_example(tf.ones_like(losses.masked)),
        }
        if losses.next is not None:
            sums["next_sentence_losses"] = losses.next
            sums["next_sentence_hits"] = tf.cast(losses.next_hit, tf.float32)
        return sums

    def _losses(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> _Losses:
        first, masked = bert.first_tokens(batch), batch[POSITIONS]  # [R, S], [R, P]
        positions = tf.concat([first, masked], 1) if self._next_sentence else masked
        hidden = bert.encode(
            params,
            self._config,
            batch,
            dropout_key=dropout_key,
            positions=positions,
            recompute=self._recompute,
        )[-1]
        first_hidden, masked_hidden = tf.split(
            hidden, [positions.shape[1] - masked.shape[1], masked.shape[1]], 1
        )
        width, tokens = hidden.shape[-1], heads.masked_tokens(batch)
        masked_hidden = tf.reshape(masked_hidden, [-1, width])
        logits = heads.masked_lm_logits(
            params, self._config, tf.gather(masked_hidden, tokens.index)
        )  # [M, V]
        losses = _Losses(
            tokens,
            masked=heads.cross_entropy(logits, tokens.ids),
            masked_hit=tf.argmax(logits, -1, tf.int32) == tokens.ids,
        )
        if not self._next_sentence:
            return losses
        pooled = bert.pool(params, tf.reshape(first_hidden, [-1, width]))
        next_logits = heads.next_sentence_logits(params, pooled)  # [B, 2]
        label_ids = batch["next_sentence_labels"]
        return losses._replace(
            next=heads.cross_entropy(next_logits, label_ids),
            next_hit=tf.argmax(next_logits, -1, tf.int32) == label_ids,
        )

    def infer(self, rows: Rows, forward: Forward) -> Outputs:
        return forward(rows)

    def scored_rows(
        self, outputs: Outputs, rows: Rows, examples: ReadExamples
    ) -> dict[str, float]:
        """Sums over the set, and its number of "rows"."""
        sums = {name: float(np.sum(v, dtype=np.float64)) for name, v in outputs.items()}
        return sums | {"rows": len(rows)}

    def scores(self, scored: Mapping[str, float]) -> dict[str, Any]:
        """Means over all masked tokens (at least one is needed) and over all rows."""
        count = scored["masked_lm_counts"]
        scores = {
            "loss": scored["masked_lm_losses"] / count,
            "masked_lm_accuracy": scored["masked_lm_hits"] / count,
            "masked_lm_loss": scored["masked_lm_losses"] / count,
        }
        if self._next_sentence:
            for name, key in (("accuracy", "hits"), ("loss", "losses")):
                mean = scored[f"next_sentence_{key}"] / scored["rows"]
                scores[f"next_sentence_{name}"] = mean
            scores["loss"] += scores["next_sentence_loss"]
        return scores | {"perplexity": float(np.exp(scores["masked_lm_loss"]))}

    def results(self, scores: Mapping[str, Any], step: int) -> dict[str, Any]:
        """Google's six keys in Google's order, then those of this project."""
        return {"global_step": step, **scores}

    def summary(self, scored: Any, scores: Mapping[str, Any]) -> list[str]:
        return [f"  {name} = {value:.4f}" for name, value in scores.items()]
