"""Rewriting: which tokens are kept, and what is written between them.

Shapes: R rows, T tokens, H width, C tags (see `tags`), P masks of a row, M masks of a
batch, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.config.rewriting import KEEP, ROW, RewriteChoice
from bert_mgpu.core.report import SetReport
from bert_mgpu.core.rows import POSITIONS, Example, Features, Outputs
from bert_mgpu.core.task import (
    Batch,
    Display,
    DropoutKey,
    Forward,
    Params,
    Predictions,
    ReadExamples,
    Trust,
)
from bert_mgpu.model import bert, heads
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.tasks.base import FinetuningTask
from bert_mgpu.tasks.rewriting import (
    bias_curve,
    blocks,
    decoding,
    metrics,
    pair_checks,
    predictions,
    report,
    tags,
)
from bert_mgpu.tasks.rewriting.decoding import TAGS
from bert_mgpu.tasks.rewriting.files import TYPE
from bert_mgpu.tasks.rewriting.filling import LOSSES, WORD_SCORES, WORDS, Vocabulary
from bert_mgpu.tasks.rewriting.rewritten import RewrittenSet, TruePairs
from bert_mgpu.text.tokenization import Tokenizer

TAG_LOSS, MASKED_LOSS = "tag_loss", "masked_lm_loss"
_NEW_HEAD_WARNING = (
    "a random masked-word head: what it writes starts from noise: train it first on"
    " unlabelled text (docs/pretraining.md, In short), then pass that"
    " output_dir as --init_checkpoint"
)
_HIDDEN = -1e30  # the logit of what is never written


class Rewriting(FinetuningTask):
    """Predicts tags of tokens and words at masks (a `core.task.Task`): two losses."""

    token_outputs = frozenset({TAGS, WORDS, WORD_SCORES, LOSSES})
    new_head_warnings = {params_lib.MASKED_HEAD: _NEW_HEAD_WARNING}
    metric = "sari"
    shown = ("eval_loss", "exact_match", "sari", "bleu", "changed")
    # The rounds are the cost of a prediction.
    lower_is_better = frozenset({"eval_loss", TAG_LOSS, MASKED_LOSS, "mean_rounds"})
    score_settings = RewriteChoice._fields

    def __init__(
        self,
        name: str,
        bert_config: BertConfig,
        tokenizer: Tokenizer,
        *,
        max_seq_length: int,
        max_insert: int,
        slot_marker: str,
        choice: RewriteChoice,
        dropout: float | None = None,
        recompute: str = "none",
    ):
        self.name = name
        self.max_seq_length = max_seq_length
        self.facts = {
            "task_type": TYPE,
            "max_insert": max_insert,
            "slot_marker": slot_marker,
        }
        self._max_insert, self._marker, self._choice = max_insert, slot_marker, choice
        self._config, self._recompute = bert_config, recompute
        self._dropout = bert_config.hidden_dropout_prob if dropout is None else dropout
        # The embedding may have rows beyond the vocabulary, which are never written.
        beyond = [""] * (bert_config.vocab_size - len(tokenizer.tokens))
        self._vocabulary = Vocabulary([*tokenizer.tokens, *beyond])
        self._tokenizer = tokenizer

    def param_specs(self) -> params_lib.Specs:
        specs = params_lib.bert_specs(self._config, pooled=False)
        specs |= params_lib.classifier_specs(self._config, tags.count(self._max_insert))
        return specs | params_lib.pretraining_specs(self._config, next_sentence=False)

    def loss_weights(self, batch: Batch) -> dict[str, np.float32]:
        masks = batch.get("masked_lm_weights", np.zeros(0))
        return {
            TAG_LOSS: np.sum(batch["tag_ids"] > 0, dtype=np.float32),
            MASKED_LOSS: np.sum(masks, dtype=np.float32),
        }

    def loss_sums(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> dict[str, tf.Tensor]:
        hidden = self._encode(params, batch, dropout_key)
        logits = heads.token_logits(
            params, hidden, self._dropout, dropout_key=dropout_key
        )
        sums = {TAG_LOSS: tf.reduce_sum(heads.token_losses(logits, batch["tag_ids"]))}
        if POSITIONS not in batch:
            return sums | {MASKED_LOSS: tf.constant(0.0)}
        masks = heads.masked_tokens(batch)
        logits = self._word_logits(params, hidden, _places(batch, masks))  # [M, V]
        losses = heads.cross_entropy(logits, masks.ids)
        return sums | {MASKED_LOSS: tf.reduce_sum(losses * masks.weights)}

    def outputs(self, params: Params, batch: Batch) -> dict[str, tf.Tensor]:
        """tag_scores: log p of the tags of each token, float32 [R, T, C], unless the
        batch has no column of tags, as where drafts are filled.

        At masks, and 0 elsewhere: words, int32 [R, T, 2], the best token of all and the
        best that begins a word; word_scores, their log p, float32 [R, T, 2];
        word_losses, -log p of the true token, float32 [R, T].
        """
        hidden = self._encode(params, batch, None)
        rows, length = batch["input_ids"].shape
        found: dict[str, tf.Tensor] = {}
        if "tag_ids" in batch:
            logits = heads.token_logits(params, hidden, self._dropout)
            found[TAGS] = tf.nn.log_softmax(logits)
        if POSITIONS not in batch:
            return found | {
                WORDS: tf.zeros([rows, length, 2], tf.int32),
                WORD_SCORES: tf.zeros([rows, length, 2]),
                LOSSES: tf.zeros([rows, length]),
            }
        masks = heads.masked_tokens(batch)
        places = _places(batch, masks)
        scores = tf.nn.log_softmax(self._word_logits(params, hidden, places))  # [M, V]
        words = self._best_words(scores, batch, places)  # [M, 2]
        values = {
            WORDS: words,
            WORD_SCORES: tf.gather(scores, words, batch_dims=1),
            LOSSES: -tf.gather(scores, masks.ids, batch_dims=1),
        }

        def by_token(own: tf.Tensor) -> tf.Tensor:  # [M, ...] -> [R, T, ...]
            weights = tf.reshape(masks.weights, [-1, *[1] * (own.ndim - 1)])
            own *= tf.cast(weights, own.dtype)  # padding's place is that of a mask
            inner = own.shape[1:]
            summed = tf.scatter_nd(places[:, None], own, [rows * length, *inner])
            return tf.reshape(summed, [rows, length, *inner])

        return found | {name: by_token(own) for name, own in values.items()}

    def _encode(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> tf.Tensor:
        return bert.encode(
            params,
            self._config,
            batch,
            dropout_key=dropout_key,
            recompute=self._recompute,
        )[-1]  # [R, T, H]

    def _word_logits(
        self, params: Params, hidden: tf.Tensor, places: tf.Tensor
    ) -> tf.Tensor:
        """The logits of the vocabulary at these places: float32 [M, V]."""
        flat = tf.reshape(hidden, [-1, hidden.shape[-1]])  # [R * T, H]
        return heads.masked_lm_logits(params, self._config, tf.gather(flat, places))

    def _best_words(
        self, scores: tf.Tensor, batch: Batch, places: tf.Tensor
    ) -> tf.Tensor:
        """The best token, and the best that continues no word: int32 [M, 2]."""
        never = self._vocabulary.never
        found = []
        for banned in (never, never | self._vocabulary.continues):
            best = tf.argmax(scores + _HIDDEN * banned.astype("f"), -1, tf.int32)
            if self._choice.insert_from == ROW:
                own = _best_of_row(scores, batch, places, banned=banned)
                best = tf.where(own >= 0, own, best)
            found.append(best)
        return tf.stack(found, -1)

    def infer(self, rows: Features, forward: Forward) -> Outputs:
        """See `blocks.inferred`."""
        decoder = decoding.Decoder(
            forward,
            self._tokenizer,
            self._vocabulary,
            choice=self._choice,
            max_length=self.max_seq_length,
            max_insert=self._max_insert,
        )
        return blocks.inferred(rows, forward, decoder.rewritings)

    def scored_rows(
        self, outputs: Outputs, rows: Features, examples: ReadExamples
    ) -> RewrittenSet:
        return RewrittenSet(
            outputs,
            rows,
            examples,
            tokenizer=self._tokenizer,
            marker=self._marker,
        )

    def copying(self, examples: Sequence[Example]) -> dict[str, float]:
        """The scores of copying: of the texts as they are."""
        pairs = TruePairs(examples, self._tokenizer, self._marker)
        return pairs.copying.values

    def scores(self, scored: RewrittenSet) -> dict[str, Any]:
        losses = [_mean(scored.known.tag_losses), _mean(scored.known.word_losses)]
        found = {"eval_loss": sum(losses), TAG_LOSS: losses[0], MASKED_LOSS: losses[1]}
        return found | scored.scores.values | {"mean_rounds": scored.mean_rounds}

    def metrics(self, rows: Features) -> list[str]:
        return ["eval_loss", TAG_LOSS, MASKED_LOSS, *metrics.NAMES, "mean_rounds"]

    def summary(self, scored: RewrittenSet, scores: Mapping[str, Any]) -> list[str]:
        lines = [
            self.line(scores),
            f"copying: {self.line(scored.pairs.copying.values)}",
        ]
        if bias_curve.matters(scored.known.places):
            lines.append(bias_curve.table(scored.known.places))
            left_out = pair_checks.left_out(scored.rows.notes)
            lines += [f"without the {left_out} pairs that are not learnt"] * (
                left_out > 0
            )
        return lines

    def report(self, scored: RewrittenSet, examples: ReadExamples) -> SetReport:
        return report.of_set(scored, keep_bias=self._choice.keep_bias)

    def trust(self, scored: RewrittenSet) -> Trust:
        sources, targets = scored.pairs.sources, scored.pairs.targets
        return metrics.trust(sources, scored.texts, targets, slot_marker=self._marker)

    def decide(self, scored: RewrittenSet) -> Predictions:
        return predictions.decide(scored, self._choice.without_slots == KEEP)

    def display(self, record: Mapping[str, Any]) -> Display:
        return predictions.display(record)


def _mean(losses: np.ndarray) -> float:
    return float(losses.mean(dtype=np.float64)) if len(losses) else 0.0


def _places(batch: Batch, masks: heads.MaskedTokens) -> tf.Tensor:
    """The places of masks among the R * T tokens: int32 [M]."""
    rows, length = batch["input_ids"].shape
    flat = tf.range(rows)[:, None] * length + batch[POSITIONS]  # [R, P]
    return tf.gather(tf.reshape(flat, [-1]), masks.index)


def _best_of_row(
    scores: tf.Tensor, batch: Batch, places: tf.Tensor, *, banned: np.ndarray
) -> tf.Tensor:
    """The best token of the mask's own example: int32 [M]; -1 if it has none."""
    ids, owners = batch["input_ids"], batch["input_mask"]  # [R, T]
    rows = places // ids.shape[1]
    own_ids = tf.gather(ids, rows)  # [M, T]
    is_own = (
        tf.gather(owners, rows) == tf.gather(tf.reshape(owners, [-1]), places)[:, None]
    )
    is_text = ~tf.gather(banned, own_ids)
    own = tf.gather(scores, own_ids, batch_dims=1)  # [M, T]
    found = tf.where(is_own & is_text, own, _HIDDEN)
    best = tf.gather(own_ids, tf.argmax(found, -1, tf.int32), batch_dims=1)
    return tf.where(tf.reduce_max(found, -1) > _HIDDEN, best, -1)
