"""Ranks phrases by the words that the model expects in the slot (--ad_slot=words).

A row is the ad alone, with a mask for each token of the phrase in its slot; the tokens
themselves are the targets of the masks, which `heads.slot_logits` scores. The ranker
so begins with what pretraining has taught the masked-word head, and is trained on its
labels like every other classifier.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.core.log import fact
from bert_mgpu.core.rows import POSITIONS, Example, Features, Ragged
from bert_mgpu.core.task import Batch, DropoutKey, Params
from bert_mgpu.data import packing, pipeline
from bert_mgpu.model import bert, heads
from bert_mgpu.model import params as params_lib
from bert_mgpu.tasks.classification import rows as rows_lib
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.text import ad_slots, truncation
from bert_mgpu.text.pair_rows import PairRows
from bert_mgpu.text.tokenization import Tokenizer

STRANGE_PHRASES = "strange_phrases"  # a note: rows whose phrase has no known word
_IDS = "masked_lm_ids"
_SAMPLE, _BLOCK = 256, 32  # rows by which words are weighed, and of a pass
_NEW_HEAD_WARNING = (
    "a random masked-word head, by which --ad_slot=words ranks: train it first on"
    " unlabelled ads (docs/pretraining.md, In short), then pass that output_dir as"
    " --init_checkpoint"
)


def featurise(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    labels: Sequence[str],
    *,
    max_seq_length: int,
    **cut: Any,
) -> Features:
    """Rows [CLS] ad [SEP]; an ad without a slot has no masks.

    Of a slot that is cut, some masks are left, with their tokens. Words that the
    vocabulary lacks have a mask, but are no targets, unless a phrase has no others.

    cut: `how` and `head_tokens` of `truncation.truncate`.
    """
    unknown = tokenizer.unk_id
    found = tokenizer.batch_ids([example.text_a for example in examples])
    phrases = [found.row(index).tolist() or [unknown] for index in range(len(examples))]
    ads = ad_slots.masked_ids(
        [example.text_b or "" for example in examples],
        tokenizer,
        counts=[*map(len, phrases)],
    )
    rows, positions, words = [], [], []
    for index in range(len(examples)):
        ad = ads.row(index)
        is_mask = ad == tokenizer.mask_id
        targets = np.zeros_like(ad)
        # A segment that occurs twice has two slots, of the same phrase.
        targets[is_mask] = np.resize(phrases[index], is_mask.sum())
        kept = truncation.truncate(range(len(ad)), max_seq_length - 2, **cut)
        places = np.flatnonzero(is_mask[kept])
        known = places[targets[kept][places] != unknown]
        places = known if len(known) else places[:1]
        positions.append((places + 1).tolist())  # behind [CLS]
        words.append(targets[kept][places].tolist())
        rows.append([tokenizer.cls_id, *ad[kept].tolist(), tokenizer.sep_id])
    columns = {
        "input_ids": Ragged.from_rows(rows),
        "segment_ids": Ragged.from_rows([[0] * len(row) for row in rows]),
    }
    features = rows_lib.labelled(
        PairRows(columns, ads.lengths + 2), examples, labels, longest=max_seq_length
    )
    if cut["how"] != "head":
        features.notes["truncation"] = False  # so it is not proposed
    own = {POSITIONS: Ragged.from_rows(positions), _IDS: Ragged.from_rows(words)}
    strange = sum(row == [unknown] for row in words)
    return dataclasses.replace(
        features, targets=own, notes=features.notes | {STRANGE_PHRASES: strange}
    )


class SlotRanking(Classification):
    """The masked-word head on an ad's slot (a `core.task.Task`)."""

    new_head_warnings = {params_lib.MASKED_HEAD: _NEW_HEAD_WARNING}
    reads_both_texts = False  # the phrase is only looked for in the ad's slot
    training_rows: Features | None = None  # of which `first_values` takes a sample
    unknown_id: int | None = None  # of [UNK]

    def param_specs(self) -> params_lib.Specs:
        specs = params_lib.bert_specs(self._config, pooled=False)
        specs |= params_lib.pretraining_specs(self._config, next_sentence=False)
        return specs | params_lib.slot_specs(self._config)

    def first_values(
        self, params: Mapping[str, np.ndarray], new: Collection[str]
    ) -> dict[str, np.ndarray]:
        """Of the words -log of their mean probability in slots; the labels' log odds.

        The model itself tells how probable words are, which differs from how often they
        occur: with their shares among the phrases, its hit@1 was three points lower.
        [UNK], the target of phrases without a known word, begins with so low a value
        that they come last: how probable it is says nothing about them.
        """
        if heads.WORD_BIAS not in new or self.training_rows is None:
            return {}
        right = 1.0 + np.bincount(self.training_rows.dense["label_ids"], minlength=2)
        shares = self._mean_probabilities(params, self.training_rows)
        bias = -np.log(shares + heads.LEAST).astype(np.float32)
        if self.unknown_id is not None:
            bias[self.unknown_id] = np.log(heads.LEAST)
        return {
            heads.WORD_BIAS: bias,
            heads.SLOT_BIAS: np.log(right[1] / right[0]).astype(np.float32),
        }

    def _mean_probabilities(
        self, params: Mapping[str, np.ndarray], rows: Features
    ) -> np.ndarray:
        """The mean of the words' probabilities at the masks of some rows: [V]."""
        with_masks = np.flatnonzero(rows.target_counts)
        if not len(with_masks):
            return np.ones(self._config.vocab_size)
        places = np.linspace(0, len(with_masks) - 1, min(_SAMPLE, len(with_masks)))
        sample = rows.take(with_masks[places.astype(int)])
        fact("slots", f"how probable words are in those of {len(sample)} rows")
        tensors = {name: tf.constant(value) for name, value in params.items()}
        total, masks = np.zeros(self._config.vocab_size), 0
        for first in range(0, len(sample), _BLOCK):
            numbers = np.arange(first, min(first + _BLOCK, len(sample)))
            place = packing.one_per_row(numbers, 1, self.max_seq_length)
            place = place._replace(targets=int(sample.target_counts[numbers].max()))
            batch = pipeline.collate(sample, place)
            own = {name: tf.constant(value[0]) for name, value in batch.items()}
            words, tokens = self._words(tensors, own, None)
            own_masks = tf.nn.softmax(words) * tokens.weights[:, None]  # [M, V]
            total += tf.reduce_sum(own_masks, 0).numpy()
            masks += int(sample.target_counts[numbers].sum())
        return total / masks

    def _logits(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> tf.Tensor:
        batch = heads.with_targets(batch)
        words, tokens = self._words(params, batch, dropout_key)
        right = heads.slot_logits(
            params,
            words,
            tokens,
            examples=heads.examples_of_targets(batch, tokens),
            count=batch["is_real_example"].shape[0],
        )
        return tf.stack([tf.zeros_like(right), right], 1)  # [B, 2]

    def _words(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> tuple[tf.Tensor, heads.MaskedTokens]:
        """The logits of words at the masks, float32 [M, V], and what stands there."""
        hidden = bert.encode(
            params,
            self._config,
            batch,
            dropout_key=dropout_key,
            positions=batch[POSITIONS],
            recompute=self._recompute,
        )[-1]  # [R, P, H]
        tokens = heads.masked_tokens(batch)
        flat = tf.reshape(hidden, [-1, hidden.shape[-1]])
        own = tf.gather(flat, tokens.index)
        return heads.masked_lm_logits(params, self._config, own), tokens
