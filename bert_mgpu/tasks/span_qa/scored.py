"""The questions of a set: the outputs of their windows, answers and the truth."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from bert_mgpu.config.span_qa import Choice
from bert_mgpu.core.rows import Example, Features, Outputs
from bert_mgpu.core.task import ReadExamples
from bert_mgpu.tasks.span_qa import answers
from bert_mgpu.tasks.span_qa.answers import Answer
from bert_mgpu.tasks.span_qa.dataset import CORES, ENDS, PLACES, STARTS, windows_of

_NOTHING = answers.answer_of((-1, -1), (0.0, 0.0))  # if no pair is an answer


class AnsweredSet:
    """A set whose answers are found on first use. Letters: Q questions, W windows."""

    def __init__(
        self,
        outputs: Outputs,
        rows: Features,
        examples: ReadExamples,
        *,
        choice: Choice,
    ):
        self.choice, self._rows, self._examples = choice, rows, examples
        self._logits = outputs["logits"]  # Ragged, float32 [..., 2]
        own = rows.owners
        self._owners = np.arange(len(rows)) if own is None else own

    def __len__(self) -> int:
        return len(self._rows.first_rows)

    @functools.cached_property
    def examples(self) -> Sequence[Example]:
        """The examples with their texts, read on first use."""
        return self._examples()

    @functools.cached_property
    def windows(self) -> np.ndarray:
        """The number of windows of each question: int64 [Q]."""
        return np.bincount(self._owners, minlength=len(self))

    def probability(self, number: int) -> float:
        """The probability of a question's predicted answer, within its n-best list."""
        own = self.n_best[number]
        return answers.probabilities(own)[own.index(self.chosen[number])]

    @functools.cached_property
    def null(self) -> np.ndarray | None:
        """The logits of "no answer", float64 [Q, 2]; None if all have an answer."""
        if not self.choice.version_2_with_negative:
            return None
        return answers.null_scores(self._logits, self._owners)

    @functools.cached_property
    def n_best(self) -> list[list[Answer]]:
        """The best answers of each question, at least one."""
        rows = self._rows
        pairs = answers.pairs(
            self._logits,
            windows_of(rows),
            rows.unread[CORES].values,
            owners=self._owners,
            n_best=self.choice.n_best_size,
            max_answer_length=self.choice.max_answer_length,
        )
        contexts = [example.text_b or "" for example in self.examples]
        lists = answers.best_answers(
            pairs,
            rows.unread[PLACES].values,
            contexts,
            n_best=self.choice.n_best_size,
            null=self.null,
        )
        return [own or [_NOTHING] for own in lists]

    @functools.cached_property
    def odds(self) -> np.ndarray | None:
        """The score of "no answer" minus the best answer's: float64 [Q], or None."""
        if self.null is None:
            return None
        pairs = zip(self.n_best, self.null, strict=True)
        return np.array([answers.null_odds(own, null) for own, null in pairs])

    @functools.cached_property
    def best(self) -> list[Answer]:
        """The best answer of each question apart from "no answer", if there is one."""
        return [next((a for a in own if a.text), own[0]) for own in self.n_best]

    @functools.cached_property
    def chosen(self) -> list[Answer]:
        """The predicted answer of each question."""
        if self.odds is None:
            return [own[0] for own in self.n_best]
        none = self.odds > self.choice.null_score_diff_threshold
        return [
            next(a for a in own if not a.text) if is_none else best
            for own, best, is_none in zip(self.n_best, self.best, none, strict=True)
        ]

    def said(self, found: Sequence[Answer]) -> list[str]:
        """An answer of each question as its context has it, which is what is scored.

        CMRC's scores keep white space; `Answer.text` collapses it.
        """
        pairs = zip(self.examples, found, strict=True)
        return [(example.text_b or "")[own.start : own.end] for example, own in pairs]

    @functools.cached_property
    def losses(self) -> np.ndarray:
        """The mean -log p of start and end, for each window with a target: float64."""
        logits, dense = self._logits, self._rows.dense
        values, starts = logits.values.astype(np.float64), logits.offsets[:-1]
        peaks = np.maximum.reduceat(values, starts)  # [W, 2]
        shifted = np.exp(values - np.repeat(peaks, logits.lengths, 0))
        totals = peaks + np.log(np.add.reduceat(shifted, starts))
        places = np.stack([dense[STARTS], dense[ENDS]], 1)
        own = np.take_along_axis(values, np.maximum(starts[:, None] + places, 0), 0)
        return (totals - own).mean(1)[dense[STARTS] >= 0]
