"""A family of tasks for tests: which word of the text is the longest, pointed at.

What "Adding a kind of task" in docs/architecture.md asks for, and nothing else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.core.rows import Features, Ragged
from bert_mgpu.core.task import Predictions
from bert_mgpu.data import cache
from bert_mgpu.model import bert, heads, params
from bert_mgpu.tasks.base import Family, FinetuningTask

_HEAD, _BIAS = "pointing/output_weights", "pointing/output_bias"


class Scored(NamedTuple):
    """A set: float [rows, T], bool [rows, T], int [rows], and token ids."""

    logits: np.ndarray
    inside: np.ndarray  # of the text
    truth: np.ndarray
    ids: Ragged


class Pointing(FinetuningTask):
    """One logit for each place of a row, from the pooled [CLS]."""

    metric = "eval_accuracy"

    def __init__(self, name, bert_config, max_seq_length, tokens):
        self.name, self.max_seq_length = name, max_seq_length
        self.facts = {"task_type": "pointing"}
        self._config, self._tokens = bert_config, tokens

    def param_specs(self):
        own = {
            _HEAD: ((self.max_seq_length, self._config.hidden_size), "zeros"),
            _BIAS: ((self.max_seq_length,), "zeros"),
        }
        return params.bert_specs(self._config) | own

    def loss_weights(self, batch):
        return {"loss": np.sum(batch["is_real_example"], dtype=np.float32)}

    def loss_sums(self, weights, batch, dropout_key):
        logits = self._logits(weights, batch, dropout_key)
        losses = heads.cross_entropy(logits, batch["label_ids"])
        return {"loss": tf.reduce_sum(losses * batch["is_real_example"])}

    def outputs(self, weights, batch):
        return {"logits": self._logits(weights, batch, None)}

    def _logits(self, weights, batch, dropout_key):
        first = bert.first_tokens(batch)
        hidden = bert.encode(
            weights, self._config, batch, dropout_key=dropout_key, positions=first
        )[-1]
        pooled = bert.pool(weights, tf.reshape(hidden, [-1, hidden.shape[-1]]))
        logits = tf.matmul(pooled, weights[_HEAD], transpose_b=True)
        return logits + weights[_BIAS]

    def scored_rows(self, outputs, rows, examples):
        places = np.arange(self.max_seq_length)
        inside = (places > 0) & (places < rows.lengths[:, None] - 1)
        ids = rows.ragged["input_ids"]
        return Scored(outputs["logits"], inside, rows.dense["label_ids"], ids)

    def _chosen(self, scored):
        """Where each row points, and how sure: int, float [rows]."""
        logits = np.where(scored.inside, scored.logits, -1e9)
        shares = np.exp(logits - logits.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        return logits.argmax(-1), shares.max(-1)

    def _words(self, scored, places):
        ids = (scored.ids.row(row)[place] for row, place in enumerate(places))
        return [self._tokens[token] for token in ids]

    def scores(self, scored):
        words = self.decide(scored).texts
        truth = self._words(scored, scored.truth)
        hits = [word == true for word, true in zip(words, truth, strict=True)]
        logits = scored.logits - scored.logits.max(-1, keepdims=True)
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return {
            "eval_accuracy": float(np.mean(hits)),
            "eval_loss": float(-logs[np.arange(len(logs)), scored.truth].mean()),
        }

    def decide(self, scored):
        chosen, sure = self._chosen(scored)
        words = self._words(scored, chosen)
        return Predictions(words, sure[:, None], [{"value": word} for word in words])

    def answers(self, outputs):
        return {"place": tf.argmax(outputs["logits"], -1), **outputs}


class PointingFamily(Family):
    """The type "pointing": a text, and its longest word."""

    baseline_name = "the first word"

    def read_label(self, files, columns, cells):
        return cells[columns.label]

    def features(self, examples, tokenizer, files, *, config):
        texts = tokenizer.batch_ids([example.text_a for example in examples])
        room, rows, truth, cut = config.max_seq_length - 2, [], [], 0
        for number, example in enumerate(examples):
            ids = texts.row(number).tolist()
            cut += len(ids) > room
            words = [tokenizer.tokens[token] for token in ids[:room]]
            known = example.label in words
            truth.append(words.index(example.label) + 1 if known else 0)
            rows.append([tokenizer.cls_id, *ids[:room], tokenizer.sep_id])
        columns = {"input_ids": Ragged.from_rows(rows)}
        columns["segment_ids"] = Ragged.from_rows([[0] * len(row) for row in rows])
        return Features(
            columns,
            {"label_ids": np.array(truth, np.int32)},
            np.array([example.line for example in examples], np.int64),
            notes=cache.length_notes(texts.lengths + 2, cut),
        )

    def task(self, config, model, files, *, data):
        tokens = model.required_tokenizer.tokens
        return Pointing(files.name, model.bert_config, config.max_seq_length, tokens)

    def baseline(self, train, sets, task: Any, *, examples):
        return {
            name: {"eval_accuracy": float((rows.dense["label_ids"] == 1).mean())}
            for name, rows in sets.items()
        }


FAMILY = PointingFamily()
