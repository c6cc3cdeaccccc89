"""From the tags of texts to rewritings: drafts are made, filled and ranked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bert_mgpu.config.rewriting import KEEP, RewriteChoice
from bert_mgpu.core.rows import Features, Outputs
from bert_mgpu.core.task import Forward
from bert_mgpu.tasks.rewriting.dataset import SLOTS, WHOLE
from bert_mgpu.tasks.rewriting.drafts import Draft, drafts_of
from bert_mgpu.tasks.rewriting.filling import DraftText, Filled, Filler, Vocabulary
from bert_mgpu.tasks.rewriting.rows import room_of, slots_with_room, special_of
from bert_mgpu.text.tokenization import Tokenizer

TAGS = "tag_scores"  # an output: log p of tags
_WITH_SLOTS = 5  # rewritings by default of a text that has slots


class TokenRewriting(NamedTuple):
    """A rewriting of a text, as tokens."""

    keeps: list[bool]  # of each token that the row has
    counts: list[int]  # of the tokens written before each and, last, at the end
    written: list[int]  # ids
    score: float  # log p of its tags; if one of several, plus mean log p of words
    rounds: int  # passes in which it was written
    is_whole: bool = True  # False: a row had no room for some of its edits


class Tagged(NamedTuple):
    """The tagged row of an example."""

    text: DraftText
    slots: list[int] | None  # those with room in a row; None: the text has none
    scores: np.ndarray  # log p of the tags, float [tokens and, if it fits, the end, C]


def tagged(rows: Features, scores: Outputs, max_length: int) -> Iterator[Tagged]:
    """Yields the tagged row of each example; scores: the outputs of all rows."""
    ids, segments = rows.ragged["input_ids"], rows.ragged["segment_ids"]
    slots, whole = rows.unread[SLOTS], rows.unread[WHOLE]
    for row in rows.first_rows.tolist():
        own, is_source = ids.row(row), segments.row(row) == 1
        before = int((~is_source).sum())
        source = own[before:-1].tolist()
        context = own[1 : before - 1].tolist() if before > 1 else None
        decided = len(source) + int(whole.row(row)[0])
        given = slots.row(row).tolist()
        room = room_of(context, max_length)
        fitting = slots_with_room(given, size=len(source), room=room)
        yield Tagged(
            DraftText(source, context, has_slots=bool(given)),
            fitting if given else None,
            scores[TAGS].row(row)[before : before + decided],
        )


class Decoder:
    """Rewrites texts; every process makes the same rewritings."""

    def __init__(
        self,
        forward: Forward,
        tokenizer: Tokenizer,
        vocabulary: Vocabulary,
        *,
        choice: RewriteChoice,
        max_length: int,
        max_insert: int,
    ):
        self._choice, self._max_insert = choice, max_insert
        self._max_length = max_length
        self._filler = Filler(
            forward,
            vocabulary,
            special_of(tokenizer),
            max_length=max_length,
            rounds=choice.fill_rounds,
        )

    def rewritings(
        self, rows: Features, outputs: Outputs
    ) -> list[list[TokenRewriting]]:
        """The rewritings of each example, the best first."""
        examples = [*tagged(rows, outputs, self._max_length)]
        texts, drafts, owners = list[DraftText](), list[Draft](), list[int]()
        for number, example in enumerate(examples):
            made = self._drafts(example)
            texts += [example.text] * len(made)
            drafts += made
            owners += [number] * len(made)
        filled = self._filler.fill(texts, drafts)
        # A single draft needs no ranking.
        counts = np.bincount(owners, minlength=len(examples))
        ranked = [number for number, own in enumerate(owners) if counts[own] > 1]
        fluency = dict.fromkeys(range(len(filled)), 0.0)
        means = self._filler.log_probabilities(
            [texts[number] for number in ranked], [filled[number] for number in ranked]
        )
        fluency.update(zip(ranked, means, strict=True))
        found: list[list[tuple[Filled, float]]] = [[] for _ in examples]
        for number, each in enumerate(filled):
            found[owners[number]].append((each, fluency[number]))
        return [
            [_rewriting(*pair) for pair in sorted(own, key=_order)] for own in found
        ]

    def _drafts(self, example: Tagged) -> list[Draft]:
        choice = self._choice
        default = _WITH_SLOTS if example.slots else 1
        slots = example.slots
        if slots is None and choice.without_slots == KEEP:
            slots = []
        drafts = drafts_of(
            example.scores,
            slots,
            size=len(example.text.source),
            most=choice.num_candidates or default,
            max_insert=self._max_insert,
            keep_bias=choice.keep_bias,
        )
        found: dict[tuple[tuple[bool, ...], tuple[int, ...]], Draft] = {}
        for draft in drafts:
            own = self._filler.fitting(example.text, draft)
            # Two may have differed only in what has no room.
            found.setdefault((tuple(own.keeps), tuple(own.counts)), own)
        return [*found.values()]


def _rewriting(filled: Filled, fluency: float) -> TokenRewriting:
    draft = filled.draft
    return TokenRewriting(
        draft.keeps,
        draft.counts,
        filled.written,
        score=draft.score - draft.bias + fluency,
        rounds=filled.rounds,
        is_whole=draft.is_whole,
    )


def _order(pair: tuple[Filled, float]) -> tuple[float, int, list[int]]:
    """A sort key: the highest score, with the bias, first; of equals, the shorter."""
    (draft, written, _), fluency = pair
    return -draft.score - fluency, sum(draft.keeps) + len(written), written
