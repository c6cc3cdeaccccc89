"""The texts of a set with their rewritings, and with what they are to become."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from bert_mgpu.core.rows import Example, Features, Outputs
from bert_mgpu.core.task import ReadExamples
from bert_mgpu.tasks.rewriting import metrics
from bert_mgpu.tasks.rewriting.blocks import KNOWN, REWRITINGS, Known
from bert_mgpu.tasks.rewriting.dataset import SLOTS, target_texts, true_edits
from bert_mgpu.tasks.rewriting.decoding import TokenRewriting
from bert_mgpu.tasks.rewriting.metrics import RewritingScores
from bert_mgpu.text import edits
from bert_mgpu.text.edits import Edits, TokenEdit, edits_of, token_edits
from bert_mgpu.text.realise import Rewritten, TextEdit, realised
from bert_mgpu.text.rewrite_source import RewriteSource, source_of
from bert_mgpu.text.tokenization import Tokenizer


class Candidate(NamedTuple):
    """A rewriting as a text."""

    text: str
    edits: list[TextEdit]
    score: float
    rounds: int
    is_whole: bool  # False: a row had no room for some of the edits


class TruePairs:
    """Texts and what they are to become, to compare rewritings with."""

    def __init__(self, examples: Sequence[Example], tokenizer: Tokenizer, marker: str):
        self.sources = [example.text_a for example in examples]
        self.targets = [str(example.label) for example in examples]
        self._tokenizer, self.marker = tokenizer, marker

    def _tokenized(self) -> list[RewriteSource]:
        return [source_of(text, self._tokenizer, self.marker) for text in self.sources]

    def edits_of(self, scripts: Sequence[Edits]) -> list[list[TokenEdit]]:
        """The edits of these scripts, comparable with the true ones.

        Several scripts make the same text: which of two equal tokens is deleted makes
        no difference. So the edits of a text without slots are those of the script that
        `text.edits` finds for the result, as for the true ones.
        """
        pairs = [*zip(self._tokenized(), scripts, strict=True)]
        results = (
            (source.ids, _made(source.ids, script))
            for source, script in pairs
            if not source.slots
        )
        found = edits_of([*results])
        return [
            token_edits(script if source.slots else next(found))
            for source, script in pairs
        ]

    @functools.cached_property
    def _edits(self) -> list[list[TokenEdit]]:
        """The edits that turn the sources into the targets."""
        sources = self._tokenized()
        texts = target_texts(sources, self.targets, self._tokenizer)
        targets = [self._tokenizer.ids(text) for text in texts]
        made = true_edits(sources, targets)
        # All edits of a text with slots that is changed elsewhere, too.
        others = [(sources[n].ids, targets[n]) for n, own in enumerate(made) if not own]
        rest = edits_of(others)
        return [token_edits(own or next(rest)) for own in made]

    def scores(
        self, predicted: Sequence[str], edits: Sequence[Sequence[TokenEdit]]
    ) -> RewritingScores:
        """The scores of texts, and of the edits that turn the sources into them."""
        return metrics.scores(
            self.sources,
            predicted,
            self.targets,
            edits=edits,
            true_edits=self._edits,
            slot_marker=self.marker,
        )

    @functools.cached_property
    def copying(self) -> RewritingScores:
        """The scores of copying: of the texts as they are."""
        return self.scores(self.sources, [[]] * len(self.sources))


class RewrittenSet:
    """The rewritings of a set, made into texts on first use."""

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
        self._tokenizer, self.marker = tokenizer, marker
        self._rewritings: Sequence[Sequence[TokenRewriting]] = outputs[REWRITINGS]

    @property
    def known(self) -> Known:
        """The outputs at what the targets tell."""
        known: Known = self._outputs[KNOWN]
        return known

    def __len__(self) -> int:
        return len(self._rewritings)

    @functools.cached_property
    def examples(self) -> Sequence[Example]:
        """The examples with their texts, read on first use."""
        return self._examples()

    @functools.cached_property
    def candidates(self) -> list[list[Candidate]]:
        """The rewritings of each text, the best first; of equal texts, the first."""
        return [
            [*self._candidates(example, own)]
            for example, own in zip(self.examples, self._rewritings, strict=True)
        ]

    def _candidates(
        self, example: Example, rewritings: Sequence[TokenRewriting]
    ) -> list[Candidate]:
        source = source_of(example.text_a, self._tokenizer, self.marker)
        found: dict[str, Candidate] = {}
        for each in rewritings:
            made = self._realised(source, each, example.text_b)
            own = Candidate(
                made.text,
                made.edits,
                each.score,
                rounds=each.rounds,
                is_whole=each.is_whole,
            )
            found.setdefault(own.text, own)
        return [*found.values()]

    def _realised(
        self, source: RewriteSource, rewriting: TokenRewriting, context: str | None
    ) -> Rewritten:
        edits = Edits(rewriting.keeps, rewriting.counts, rewriting.written)
        return realised(source, edits, self._tokenizer, context=context or "")

    @property
    def without_slots(self) -> int:
        """The number of texts that have no slot."""
        counts = self.rows.unread[SLOTS].lengths[self.rows.first_rows]
        return int((counts == 0).sum())

    @property
    def texts(self) -> list[str]:
        """The best rewriting of each text."""
        return [own[0].text for own in self.candidates]

    @property
    def mean_rounds(self) -> float:
        """The mean number of passes in which the best rewritings were written."""
        rounds = [own[0].rounds for own in self._rewritings]
        return sum(rounds) / max(1, len(rounds))

    @functools.cached_property
    def pairs(self) -> TruePairs:
        return TruePairs(self.examples, self._tokenizer, self.marker)

    @functools.cached_property
    def scores(self) -> RewritingScores:
        best = [
            Edits(own[0].keeps, own[0].counts, own[0].written)
            for own in self._rewritings
        ]
        return self.pairs.scores(self.texts, self.pairs.edits_of(best))


def _made(source: Sequence[int], script: Edits) -> list[int]:
    """The tokens that a script of the first tokens of a source makes of all."""
    size = len(script.keeps)
    return [*edits.realised(source[:size], script), *source[size:]]
