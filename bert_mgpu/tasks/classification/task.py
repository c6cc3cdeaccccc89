"""Labels or values of single texts and pairs, by google-research/bert's classifier.

Shapes: R rows of tokens, S examples of a row, B = R * S examples, W outputs of each.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.core.report import ReportSection
from bert_mgpu.core.rows import Example, Features, Outputs, Ragged
from bert_mgpu.core.task import (
    Batch,
    DropoutKey,
    Params,
    Predictions,
    ReadExamples,
)
from bert_mgpu.data import cache
from bert_mgpu.model import bert, heads
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.tasks.base import FinetuningTask
from bert_mgpu.tasks.classification import report
from bert_mgpu.tasks.classification.problem_type import (
    PLAIN,
    Loss,
    ProblemType,
    ScoredRows,
)
from bert_mgpu.tasks.classification.problem_types import SINGLE
from bert_mgpu.text import truncation
from bert_mgpu.text.tokenization import Tokenizer


class Classification(FinetuningTask):
    """A dense layer over the pooled output."""

    shown = (
        *("eval_accuracy", "eval_loss", "macro_f1", "micro_f1"),
        *("mean_average_precision", "pearson", "spearman", "mae"),
    )
    lower = frozenset({"eval_loss", "mae", "hamming_loss"})

    def __init__(
        self,
        name: str,
        bert_config: BertConfig,
        labels: Sequence[str],
        *,
        max_seq_length: int,
        classifier_dropout: float | None = None,
        recompute: str = "none",
        kind: ProblemType = SINGLE,
        loss: Loss = PLAIN,
        thresholds: np.ndarray | None = None,
    ):
        """thresholds: of each label's probability, float [labels]."""
        self.name = name
        self.kind = kind
        self.facts = {"task_type": kind.name}
        self.metric, self.problem_type = kind.metric, kind.problem_type
        self._loss, self._thresholds = loss, thresholds
        self.labels = tuple(labels)
        self.max_seq_length = max_seq_length
        self._config = bert_config
        self._recompute = recompute
        self._dropout = (
            bert_config.hidden_dropout_prob
            if classifier_dropout is None
            else classifier_dropout
        )

    def param_specs(self) -> params_lib.Specs:
        return params_lib.bert_specs(self._config) | params_lib.classifier_specs(
            self._config, self._width
        )

    @property
    def _width(self) -> int:
        return self.kind.width(self.labels)

    def loss_weights(self, batch: Batch) -> dict[str, np.float32]:
        counts = self.kind.weights(batch["label_ids"], self._loss)
        return {"loss": np.sum(counts * batch["is_real_example"])}

    def loss_sums(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> dict[str, tf.Tensor]:
        logits = self._logits(params, batch, dropout_key)
        losses = self.kind.losses(logits, batch["label_ids"], self._loss)
        return {"loss": tf.reduce_sum(losses * batch["is_real_example"])}

    def outputs(self, params: Params, batch: Batch) -> dict[str, tf.Tensor]:
        return {"logits": self._logits(params, batch, None)}  # [B, W]

    def _logits(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> tf.Tensor:
        places = bert.first_tokens(batch)
        last = bert.encode(
            params,
            self._config,
            batch,
            dropout_key=dropout_key,
            positions=places,
            recompute=self._recompute,
        )[-1]  # [R, S, H]
        pooled = bert.pool(params, tf.reshape(last, [-1, last.shape[-1]]))
        if dropout_key is not None:  # its rows are examples now
            dropout_key = dropout_key._replace(
                first_row=dropout_key.first_row * places.shape[1]
            )
        return heads.classification_logits(
            params, pooled, self._dropout, dropout_key=dropout_key
        )

    def scored_rows(
        self, outputs: Outputs, rows: Features, examples: ReadExamples
    ) -> ScoredRows:
        truth = rows.dense["label_ids"]
        return ScoredRows(outputs["logits"], self.labels, self._thresholds, truth=truth)

    def scores(self, found: ScoredRows) -> dict[str, float]:
        return self.kind.score(found)

    def decide(self, found: ScoredRows) -> Predictions:
        return self.kind.decide(found)

    def answers(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        logits = outputs["logits"]  # [B, W]
        said = self.kind.answers(logits, self.labels, self._thresholds)
        return said | {"logits": logits}

    def metrics(self, rows: Features) -> list[str]:
        """The names of the scores that rows like these get."""
        drawn = np.random.default_rng(0).normal(size=(len(rows), self._width))
        outputs = {"logits": drawn.astype(np.float32)}
        return [*self.scores(self.scored_rows(outputs, rows, list))]

    def summary(self, found: ScoredRows, scores: Mapping[str, Any]) -> list[str]:
        return [self.line(scores), *self.kind.tables(found)]

    def sections(
        self,
        name: str,
        found: ScoredRows,
        path: pathlib.Path,
        *,
        examples: Callable[[], Sequence[Example]],
    ) -> list[ReportSection]:
        return report.sections(self.kind, name, found, path=path, examples=examples)


def featurise(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    labels: Sequence[str],
    *,
    max_seq_length: int,
    how: str,
    head_tokens: int,
    kind: ProblemType = SINGLE,
) -> Features:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP], segments 0 and 1.

    Lengths before truncation are noted, for what a run says at its start.

    Rows without a label get label_ids of some value, which nothing reads.
    """
    texts_a = tokenizer.batch_ids([example.text_a for example in examples])
    texts_b = tokenizer.batch_ids([example.text_b or "" for example in examples])
    rows, segments, lengths, truncated = [], [], [], 0
    for index in range(len(examples)):
        a, b = texts_a.row(index).tolist(), texts_b.row(index).tolist()
        pair = len(b) > 0  # as Google's code: a second text without tokens is none
        room = max_seq_length - (3 if pair else 2)
        lengths.append(len(a) + len(b) + (3 if pair else 2))
        if len(a) + len(b) > room:
            truncated += 1
            if pair:
                keep_a, keep_b = truncation.truncate_pair_lengths(len(a), len(b), room)
                a, b = a[:keep_a], b[:keep_b]
            else:
                a = truncation.truncate(a, room, how, head_tokens=head_tokens)
        row = [tokenizer.cls_id, *a, tokenizer.sep_id]
        second = [*b, tokenizer.sep_id] if pair else []
        rows.append(row + second)
        segments.append([0] * len(row) + [1] * len(second))
    known = kind.encode([example.label for example in examples], labels)
    return Features(
        {
            "input_ids": Ragged.from_rows(rows),
            "segment_ids": Ragged.from_rows(segments),
        },
        {"label_ids": known},
        np.array([example.line for example in examples], np.int64),
        notes=cache.length_notes(np.array(lengths), truncated),
        keys=np.array([_key(example) for example in examples], np.uint64),
    )


def _key(example: Example) -> int:
    text = json.dumps([example.text_a.strip(), (example.text_b or "").strip()])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
