"""Answering questions: where an answer begins and ends in the context.

Shapes: R rows of S examples at most, T tokens, H width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.config.span_qa import CUT, Choice, WindowCut
from bert_mgpu.core.report import SetReport
from bert_mgpu.core.rows import Example, Features, Outputs
from bert_mgpu.core.task import (
    Batch,
    Display,
    DropoutKey,
    Params,
    Predictions,
    ReadExamples,
    Trust,
)
from bert_mgpu.model import bert, heads
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.tasks.base import FinetuningTask
from bert_mgpu.tasks.span_qa import metrics, predictions, report
from bert_mgpu.tasks.span_qa.dataset import ENDS, STARTS
from bert_mgpu.tasks.span_qa.files import TYPE
from bert_mgpu.tasks.span_qa.reader import Answers
from bert_mgpu.tasks.span_qa.scored import AnsweredSet


class SpanQa(FinetuningTask):
    """Predicts the start and the end of an answer (a `core.task.Task`)."""

    token_outputs = frozenset({"logits"})
    score_settings = Choice._fields

    def __init__(
        self,
        name: str,
        bert_config: BertConfig,
        *,
        max_seq_length: int,
        choice: Choice,
        cut: WindowCut = CUT,
        chinese: bool = False,
        recompute: str = "none",
    ):
        """cut: for exports; chinese: whether to report CMRC's scores, too."""
        self.name = name
        self.max_seq_length = max_seq_length
        self.facts = {"task_type": TYPE}
        self._config, self._recompute = bert_config, recompute
        self.choice, self.cut, self._chinese = choice, cut, chinese
        own = (
            ("exact", "f1") if choice.version_2_with_negative else ("exact_match", "f1")
        )
        if chinese:
            own = "cmrc_em", "cmrc_f1"
        self.metric = own[-1]
        self.shown = "eval_loss", *own

    def param_specs(self) -> params_lib.Specs:
        specs = params_lib.bert_specs(self._config, pooled=False)
        return specs | params_lib.span_specs(self._config)

    def loss_weights(self, batch: Batch) -> dict[str, np.float32]:
        is_real = batch["is_real_example"] * (batch[STARTS] >= 0)
        return {"loss": np.sum(is_real, dtype=np.float32)}

    def loss_sums(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> dict[str, tf.Tensor]:
        logits = self._logits(params, batch, dropout_key)
        places = tf.stack([batch[STARTS], batch[ENDS]], 1)
        losses = heads.span_losses(
            logits,
            batch["input_mask"],
            places,
            first_tokens=batch.get("first_tokens"),
        )
        has_target = tf.cast(batch[STARTS] >= 0, tf.float32)
        return {"loss": tf.reduce_sum(losses * batch["is_real_example"] * has_target)}

    def outputs(self, params: Params, batch: Batch) -> dict[str, tf.Tensor]:
        return {"logits": self._logits(params, batch, None)}

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
        return heads.span_logits(params, hidden)

    def scored_rows(
        self, outputs: Outputs, rows: Features, examples: ReadExamples
    ) -> AnsweredSet:
        return AnsweredSet(outputs, rows, examples, choice=self.choice)

    def scores(self, scored: AnsweredSet) -> dict[str, Any]:
        loss = float(scored.losses.mean()) if len(scored.losses) else 0.0
        predicted, best = scored.said(scored.chosen), scored.said(scored.best)
        found = self.scores_of(scored.examples, predicted, best=best, odds=scored.odds)
        return {"eval_loss": loss, **found}

    def scores_of(
        self,
        examples: Sequence[Example],
        predicted: Sequence[str],
        *,
        best: Sequence[str],
        odds: np.ndarray | None,
    ) -> dict[str, Any]:
        """The scores of predicted texts; best, odds: see `scores_with_negative`."""
        truth = [example.label.texts for example in examples]
        if odds is None:
            return metrics.scores(truth, predicted, chinese=self._chinese)
        return metrics.scores_with_negative(
            truth, predicted, answers=best, odds=odds, chinese=self._chinese
        )

    def metrics(self, rows: Features) -> list[str]:
        # Scores one made-up question of each kind, for the names of the scores.
        without = rows.notes["without"]
        kinds = [("x",)] * (without < len(rows.first_rows)) + [()] * (without > 0)
        examples = [Example("", "", label=Answers(kind, None)) for kind in kinds]
        predicted, odds = [""] * len(kinds), None
        if self.choice.version_2_with_negative:
            odds = np.zeros(len(kinds))
        found = self.scores_of(examples, predicted, best=predicted, odds=odds)
        names = [name for name in found if not name.endswith(("total", "_thresh"))]
        return ["eval_loss", *names]

    def report(self, scored: AnsweredSet, examples: ReadExamples) -> SetReport:
        return report.of_set(scored, chinese=self._chinese)

    def trust(self, scored: AnsweredSet) -> Trust:
        truth = [example.label.texts for example in scored.examples]
        predicted = scored.said(scored.chosen)
        return metrics.trust(
            truth,
            predicted,
            chinese=self._chinese,
            negative=self.choice.version_2_with_negative,
        )

    def decide(self, scored: AnsweredSet) -> Predictions:
        return predictions.decide(scored)

    def display(self, record: Mapping[str, Any]) -> Display:
        return predictions.display(record)
