"""Fills drafts with words, in rounds of mask-predict (Ghazvininejad et al. 2019).

Each round writes all masked words at once; then the least certain ones are masked
again, fewer after each round. Letters: P masks of a row.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rows import POSITIONS, Features, Ragged
from bert_mgpu.core.task import Forward
from bert_mgpu.tasks.rewriting.dataset import MASKED_IDS
from bert_mgpu.tasks.rewriting.drafts import Draft
from bert_mgpu.tasks.rewriting.rows import RewriteRow, Special, layout, room_of
from bert_mgpu.text.vocab_coverage import is_standalone
from bert_mgpu.text.whole_words import continuing

WORDS, WORD_SCORES, LOSSES = "words", "word_scores", "word_losses"  # outputs
_UNSEEN = "ZC"  # categories of characters: blanks, line ends, controls
_ROWS = 4096  # of a pass, whose outputs are all in memory


class DraftText(NamedTuple):
    """The text that a draft rewrites, and its context."""

    source: Sequence[int]
    context: Sequence[int] | None
    has_slots: bool = False  # then only slots are written in


class Filled(NamedTuple):
    """A draft with what is written in it."""

    draft: Draft
    written: list[int]  # ids, in their order
    rounds: int  # passes that it took


class Vocabulary:
    """Which tokens of a vocabulary may be written, and which may follow which."""

    def __init__(self, tokens: Sequence[str]):
        self._tokens = tokens
        # Tokens that stand for no text: [CLS], [UNK], [unused1], <S>, U+2028, ...
        self.never = np.array([_stands_for_no_text(token) for token in tokens])
        self.continues = continuing(tokens)

    @functools.cached_property
    def ends_word(self) -> np.ndarray:
        """Whether a piece of the same word may follow a token: bool [V]."""
        ends = [token[-1:] for token in self._tokens]
        alone = {char: is_standalone(char) for char in {*ends}}
        return np.array([not alone[char] for char in ends])


def _stands_for_no_text(token: str) -> bool:
    if len(token) > 2 and token[0] + token[-1] in ("[]", "<>"):
        return True
    text = token[2:] if token.startswith("##") else token
    return all(unicodedata.category(char)[0] in _UNSEEN for char in text or token)


class Filler:
    """Fills drafts with words; `forward` runs the model over rows."""

    def __init__(
        self,
        forward: Forward,
        vocabulary: Vocabulary,
        special: Special,
        *,
        max_length: int,
        rounds: int,
    ):
        self._forward, self._vocabulary, self._special = forward, vocabulary, special
        self._max_length, self._rounds = max_length, rounds

    def fill(self, texts: Sequence[DraftText], drafts: Sequence[Draft]) -> list[Filled]:
        """The drafts with words in place of masks; texts: the text of each draft.

        drafts: those that fit in a row, see `fitting`.
        """
        works = [
            _Work(text, draft, self._special.mask)
            for text, draft in zip(texts, drafts, strict=True)
        ]
        for number in range(self._rounds):
            waiting = [work for work in works if work.masked]
            for first in range(0, len(waiting), _ROWS):
                part = waiting[first : first + _ROWS]
                self._write_masked(part, is_last=number + 1 == self._rounds)
        return [work.filled for work in works]

    def _write_masked(self, works: Sequence[_Work], *, is_last: bool) -> None:
        """Runs a round for these drafts."""
        rows = [self._row(work.text, work.draft, work.written) for work in works]
        outputs = self._forward(
            _features(rows, [work.masked for work in works], self._special.mask)
        )
        words, scores = outputs[WORDS], outputs[WORD_SCORES]
        for index, (work, row) in enumerate(zip(works, rows, strict=True)):
            at = [row.written[place] for place in work.masked]
            self._write(work, words.row(index)[at], scores.row(index)[at])
            if not is_last:
                self._mask_again(work)

    def log_probabilities(
        self, texts: Sequence[DraftText], filled: Sequence[Filled]
    ) -> list[float]:
        """Mean log p of a draft's words, each given all the rest; 0 if it has none."""
        masks = [
            (number, place)
            for number, own in enumerate(filled)
            for place in range(len(own.written))
        ]
        sums = np.zeros(len(filled))
        for first in range(0, len(masks), _ROWS):
            part = masks[first : first + _ROWS]
            rows = [
                self._row(texts[number], filled[number].draft, filled[number].written)
                for number, _ in part
            ]
            places = [[place] for _, place in part]
            losses = self._forward(_features(rows, places, self._special.mask))[LOSSES]
            for index, (number, place) in enumerate(part):
                sums[number] -= losses.row(index)[rows[index].written[place]]
        sizes = np.array([max(1, len(own.written)) for own in filled])
        return (sums / sizes).tolist()

    def fitting(self, text: DraftText, draft: Draft) -> Draft:
        """The draft without what its row has no room for.

        What is deleted at the row's end is kept if what is written there does not fit
        as a whole.
        """
        if text.has_slots:
            counts = self._counts_in_slots(text, draft.counts)
            return draft._replace(counts=counts, is_whole=counts == [*draft.counts])
        blank = [self._special.mask] * sum(draft.counts)
        row = self._row(text, draft, blank)
        fits = len(row.tokens)
        if fits > len(text.source):
            return draft
        size = len(text.source)
        if draft.counts[fits] or not all(draft.keeps[fits : fits + 1]):
            while fits and not draft.keeps[fits - 1]:
                fits -= 1
        keeps = [*draft.keeps[:fits], *[True] * (size - fits)]
        counts = [*draft.counts[:fits], *[0] * (size + 1 - fits)]
        is_whole = (keeps, counts) == ([*draft.keeps], [*draft.counts])
        return draft._replace(keeps=keeps, counts=counts, is_whole=is_whole)

    def _counts_in_slots(self, text: DraftText, counts: Sequence[int]) -> list[int]:
        """As many tokens in each slot as fit: one at least, the first slots have more.

        counts: of a draft that writes only in slots that its row has room for.
        """
        slots = [place for place, count in enumerate(counts) if count]
        last, size = max(slots, default=0), len(text.source)
        room = room_of(text.context, self._max_length)
        left = room - last - len(slots) - (last < size)
        found = [*counts]
        for slot in slots:
            more = min(counts[slot] - 1, left)
            found[slot], left = 1 + more, left - more
        return found

    def _row(self, text: DraftText, draft: Draft, written: Sequence[int]) -> RewriteRow:
        return layout(
            text.context,
            text.source,
            self._special,
            max_length=self._max_length,
            keeps=draft.keeps,
            counts=draft.counts,
            written=written,
        )

    def _write(self, work: _Work, words: np.ndarray, scores: np.ndarray) -> None:
        """Writes the best tokens; those that continue a word only after one.

        words, scores: the outputs at the masks, [masks, 2].
        """
        for index, place in enumerate(work.masked):
            before = work.before(place)
            follows = before is not None and self._vocabulary.ends_word[before]
            follows &= not work.starts_slot(place)
            choice = 0 if follows else 1  # of all tokens; of those that begin a word
            work.written[place] = int(words[index, choice])
            work.scores[place] = float(scores[index, choice])
        work.masked = []
        work.rounds += 1

    def _mask_again(self, work: _Work) -> None:
        """Masks the least certain words, and the pieces that continue them."""
        size = len(work.written)
        rounds = min(self._rounds, size)
        count = size * (rounds - work.rounds) // rounds if size else 0
        if count <= 0:
            return
        chosen = {*np.argsort(work.scores, kind="stable")[:count].tolist()}
        for place in range(1, size):
            continues = self._vocabulary.continues[work.written[place]]
            if continues and place - 1 in chosen and work.adjoins(place):
                chosen.add(place)
        work.masked = sorted(chosen)
        for place in work.masked:
            work.written[place] = self._special.mask


class _Work:
    """A draft that is being filled."""

    def __init__(self, text: DraftText, draft: Draft, mask: int):
        self.text, self.draft = text, draft
        size = sum(draft.counts)
        self.written = [mask] * size
        self.scores = [0.0] * size  # log p of each when it was written
        self.masked = [*range(size)]  # indices of `written`
        self.rounds = 0
        # For each written token, the token of the source before which it stands.
        self._slots = np.repeat(np.arange(len(draft.counts)), draft.counts).tolist()

    @property
    def filled(self) -> Filled:
        return Filled(self.draft, self.written, rounds=self.rounds)

    def starts_slot(self, place: int) -> bool:
        """Whether it is the first of a slot, which the text's marker parts from words.

        What is written there must not change the word before it.
        """
        slots = self._slots
        first = not place or slots[place] != slots[place - 1]
        return self.text.has_slots and first

    def adjoins(self, place: int) -> bool:
        """Whether no kept token stands between a place and the one before it."""
        first, last = self._slots[place - 1], self._slots[place]
        return not any(self.draft.keeps[first:last])

    def before(self, place: int) -> int | None:
        """The token before a place in the rewritten text; None at the beginning."""
        kept = self._slots[place] - 1
        last = self._slots[place - 1] if place else 0
        while kept >= last and not self.draft.keeps[kept]:
            kept -= 1
        if kept >= last:
            return int(self.text.source[kept])
        return self.written[place - 1] if place else None


def _features(
    rows: Sequence[RewriteRow], masked: Sequence[Sequence[int]], mask: int
) -> Features:
    """Rows with masks at the given written tokens, whose ids are the targets."""
    ids, positions, targets = list[list[int]](), list[list[int]](), list[list[int]]()
    for row, places in zip(rows, masked, strict=True):
        own = [row.written[place] for place in places]
        positions.append(own)
        targets.append([row.input_ids[position] for position in own])
        tokens = [*row.input_ids]
        for position in own:
            tokens[position] = mask
        ids.append(tokens)
    return Features(
        {
            "input_ids": Ragged.from_rows(ids),
            "segment_ids": Ragged.from_rows([row.segment_ids for row in rows]),
        },
        {},
        np.zeros(len(rows), np.int64),
        targets={
            POSITIONS: Ragged.from_rows(positions),
            MASKED_IDS: Ragged.from_rows(targets),
        },
    )
