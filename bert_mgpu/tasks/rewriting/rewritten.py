"""A set of texts with their rewritings, beside what they were to become."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rows import Example, Features, Outputs
from bert_mgpu.core.task import ReadExamples
from bert_mgpu.tasks.rewriting.decoding import REWRITINGS, TAGS, TokenRewriting
from bert_mgpu.tasks.rewriting.filling import LOSSES
from bert_mgpu.text.edits import Edits
from bert_mgpu.text.realise import Rewritten, TextEdit, realised
from bert_mgpu.text.rewrite_source import RewriteSource, source_of
from bert_mgpu.text.tokenization import Tokenizer


class Candidate(NamedTuple):
    """A rewriting as a text."""

    text: str
    edits: list[TextEdit]
    score: float
    rounds: int


class RewrittenSet:
    """Texts are made when they are needed."""

    def __init__(
        self,
        outputs: Outputs,
        rows: Features,
        examples: ReadExamples,
        *,
        tokenizer: Tokenizer,
        marker: str,
    ):
        self._outputs, self.rows, self._examples = outputs, rows, examples
        self._tokenizer, self._marker = tokenizer, marker
        self._rewritings: Sequence[Sequence[TokenRewriting]] = outputs[REWRITINGS]

    def __len__(self) -> int:
        return len(self._rewritings)

    @functools.cached_property
    def examples(self) -> Sequence[Example]:
        """The texts, which are read when they are needed."""
        return self._examples()

    @functools.cached_property
    def candidates(self) -> list[list[Candidate]]:
        """The rewritings of each text, the best first; of equal texts the first."""
        return [
            [*self._candidates(example, own)]
            for example, own in zip(self.examples, self._rewritings, strict=True)
        ]

    def _candidates(
        self, example: Example, rewritings: Sequence[TokenRewriting]
    ) -> list[Candidate]:
        source = source_of(example.text_a, self._tokenizer, self._marker)
        found: dict[str, Candidate] = {}
        for each in rewritings:
            made = self._realised(source, each, example.text_b)
            own = Candidate(made.text, made.edits, each.score, rounds=each.rounds)
            found.setdefault(own.text, own)
        return [*found.values()]

    def _realised(
        self, source: RewriteSource, rewriting: TokenRewriting, context: str | None
    ) -> Rewritten:
        edits = Edits(rewriting.keeps, rewriting.counts, rewriting.written)
        return realised(source, edits, self._tokenizer, context=context or "")

    @property
    def texts(self) -> list[str]:
        """The best rewriting of each text."""
        return [own[0].text for own in self.candidates]

    @property
    def truth(self) -> list[str]:
        return [str(example.label) for example in self.examples]

    @functools.cached_property
    def tags(self) -> tuple[np.ndarray, np.ndarray]:
        """log p of the tags of each token whose tag is known, [n, C], and that tag."""
        tag_ids = self.rows.ragged["tag_ids"].values
        known = np.flatnonzero(tag_ids)
        return self._outputs[TAGS].values[known], tag_ids[known] - 1

    @property
    def tag_losses(self) -> np.ndarray:
        """-log p of each tag that is known: float64 [n]."""
        scores, known = self.tags
        return -scores[np.arange(len(known)), known].astype(np.float64)

    @property
    def word_losses(self) -> np.ndarray:
        """-log p of each word to write, all of them masked: float64."""
        values = self._outputs[LOSSES].values
        return values[self._is_target].astype(np.float64)

    @property
    def _is_target(self) -> np.ndarray:
        """Which tokens of all rows are masks with a true word."""
        positions = self.rows.targets["masked_lm_positions"]
        starts = self.rows.ragged["input_ids"].offsets[:-1]
        found = np.zeros(len(self.rows.ragged["input_ids"].values), bool)
        found[positions.values + np.repeat(starts, positions.lengths)] = True
        return found
