"""Two more forms of the toy family: a number for each token, and a second pass.

"pointing_tokens" cuts a text into rows of WINDOW tokens, so that a long text has
several, and scores each token. "pointing_twice" reads the two best words of a text
once more, alone, where they are close.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.core.rows import Features, Ragged
from bert_mgpu.core.task import Predictions
from bert_mgpu.data import cache
from bert_mgpu.model import bert, params
from bert_mgpu.tasks.base import FinetuningTask
from tests.support.pointing.family import PointingFamily

WINDOW = 4  # tokens of a row beside [CLS] and [SEP]
CLOSE = 0.5  # logits that differ by less are compared again
_HEAD = "pointing/output_weights"


class Words(NamedTuple):
    """Of each example: its tokens, a logit each, the right one and the chosen one."""

    ids: list[np.ndarray]
    logits: list[np.ndarray]
    truth: list[int]
    chosen: list[int]


class TokenPointing(FinetuningTask):
    """One logit for each token: is it the longest word?"""

    token_outputs = frozenset({"logits"})
    shown = ("eval_accuracy",)

    def __init__(self, name, bert_config, max_seq_length, tokens):
        self.name, self.max_seq_length = name, max_seq_length
        self.facts = {"task_type": "pointing_tokens"}
        self._config, self._tokens = bert_config, tokens

    def param_specs(self):
        return params.bert_specs(self._config) | {
            _HEAD: ((1, self._config.hidden_size), "truncated_normal")
        }

    def loss_weights(self, batch):
        return {"loss": np.sum(batch["input_mask"] > 0, dtype=np.float32)}

    def loss_sums(self, weights, batch, dropout_key):
        logits = self._logits(weights, batch, dropout_key)
        targets = tf.cast(batch["target_ids"], tf.float32)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(targets, logits)
        return {"loss": tf.reduce_sum(tf.where(batch["input_mask"] > 0, losses, 0.0))}

    def outputs(self, weights, batch):
        return {"logits": self._logits(weights, batch, None)}

    def _logits(self, weights, batch, dropout_key):
        hidden = bert.encode(weights, self._config, batch, dropout_key=dropout_key)[-1]
        return tf.tensordot(tf.cast(hidden, tf.float32), weights[_HEAD][0], 1)  # [R, T]

    def scored_rows(self, outputs, rows, examples):
        inputs, targets = rows.ragged["input_ids"], rows.ragged["target_ids"]

        ends = [*rows.first_rows[1:], len(rows)]

        def texts(column):  # without [CLS] and [SEP]
            parts = [column.row(row)[1:-1] for row in range(len(rows))]
            pairs = zip(rows.first_rows, ends, strict=True)
            return [np.concatenate(parts[start:end]) for start, end in pairs]

        logits = texts(outputs["logits"])
        truth = [int(one.argmax()) for one in texts(targets)]
        chosen = [int(one.argmax()) for one in logits]
        return Words(texts(inputs), logits, truth, chosen)

    def decide(self, scored):
        pairs = zip(scored.ids, scored.chosen, strict=True)
        words = [self._tokens[ids[place]] for ids, place in pairs]
        values = np.array([[logits.max()] for logits in scored.logits])
        return Predictions(words, values, [{"value": word} for word in words])

    def scores(self, scored):
        hits = np.array(scored.chosen) == np.array(scored.truth)
        loss = np.mean([np.logaddexp(0, -one.max()) for one in scored.logits])
        return {"eval_accuracy": float(hits.mean()), "eval_loss": float(loss)}

    def metrics(self, rows):
        return ["eval_accuracy", "eval_loss"]


class PointingTwice(TokenPointing):
    """Of two words that are close, the one with the higher logit when read alone."""

    def infer(self, rows, forward):
        outputs = forward(rows)
        scored = self.scored_rows(outputs, rows, list)
        best = [np.argsort(-one, kind="stable")[:2] for one in scored.logits]
        close = [
            number
            for number, (one, two) in enumerate(zip(scored.logits, best, strict=True))
            if len(two) == 2 and one[two[0]] - one[two[1]] < CLOSE
        ]
        first, last = rows.ragged["input_ids"].row(0)[[0, -1]]
        again = Ragged.from_rows(
            [[first, scored.ids[n][place], last] for n in close for place in best[n]]
        )
        zeros = Ragged(np.zeros_like(again.values), again.offsets)
        columns = {"input_ids": again, "segment_ids": zeros, "target_ids": zeros}
        lines = np.zeros(2 * len(close), np.int64)
        alone = forward(Features(columns, {}, lines))
        chosen = np.array([two[0] for two in best])
        for index, number in enumerate(close):
            logits = [alone["logits"].row(2 * index + i)[1] for i in (0, 1)]
            chosen[number] = best[number][int(np.argmax(logits))]
        # Not an output of rows, but of examples.
        return {**outputs, "chosen": chosen, "close": np.array(close)}

    def scored_rows(self, outputs, rows, examples):
        scored = super().scored_rows(outputs, rows, examples)
        if "chosen" not in outputs:  # of the first pass alone
            return scored
        texts = [example.text_a for example in examples()]
        assert len(texts) == len(scored.ids)  # a family may score by the texts, too
        return scored._replace(chosen=outputs["chosen"].tolist())


class TokenFamily(PointingFamily):
    """The type "pointing_tokens"; the label is the longest word."""

    made = TokenPointing
    exportable = False  # an example has several rows

    def features(self, examples, tokenizer, files, config):
        texts = tokenizer.batch_ids([example.text_a for example in examples])
        rows, targets, owners = [], [], []
        for number, example in enumerate(examples):
            ids = texts.row(number).tolist()
            words = [tokenizer.tokens[token] for token in ids]
            place = words.index(example.label) if example.label in words else -1
            for start in range(0, max(len(ids), 1), WINDOW):
                part = ids[start : start + WINDOW]
                rows.append([tokenizer.cls_id, *part, tokenizer.sep_id])
                hits = [int(start + i == place) for i in range(len(part))]
                targets.append([0, *hits, 0])
                owners.append(number)
        columns = {
            "input_ids": Ragged.from_rows(rows),
            "segment_ids": Ragged.from_rows([[0] * len(row) for row in rows]),
            "target_ids": Ragged.from_rows(targets),
        }
        lines = np.array([examples[number].line for number in owners], np.int64)
        notes = cache.length_notes(columns["input_ids"].lengths, 0)
        return Features(columns, {}, lines, notes=notes, owners=np.array(owners))

    def task(self, config, model, files, data):
        return self.made(
            files.name,
            model.bert_config,
            config.max_seq_length,
            model.required_tokenizer.tokens,
        )

    def baseline(self, train, sets, task, *, examples):
        return {}


class TwiceFamily(TokenFamily):
    """The type "pointing_twice"."""

    made = PointingTwice
