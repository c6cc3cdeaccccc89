"""Coverage of a domain's texts by a vocabulary, and words to add to it.

A word is what the tokenizer's first step gives (normalization.py): a CJK
character, a punctuation mark, or letters between spaces. WordPiece then looks at
one word at a time. So a new token can be such a word, and never several CJK
characters, however often they stand together.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from bert_mgpu.text.normalization import Normalizer
from bert_mgpu.text.tokenization import Tokenizer

MOST_WORDS = 1 << 19  # counted at once, about 150 MB
_LONGEST_TOKEN = 40  # characters: anything longer is a key or an address
_UNUSED = re.compile(r"\[unused\d+\]")  # Google's names of free rows
_CASED = Normalizer(lower_case=False)
# Typographic signs, and the plain ones that keyboards have for them.
_PLAIN = dict(
    zip("“”„‟‘’‚‛–—−…", [*['"'] * 4, *["'"] * 4, *["-"] * 3, "..."], strict=True)
)
Row = tuple[str, str]  # location (file:line), text
Segment = Callable[[str], Sequence[str]]


@dataclasses.dataclass
class CoverageTotals:
    """Counts over a corpus."""

    rows: int = 0
    words: int = 0
    characters: int = 0  # of those words: without whitespace and what is dropped
    tokens: int = 0
    unknown: int = 0  # words that become [UNK], one token each
    cut: int = 0  # words that become several pieces
    pieces: int = 0  # of those words

    def add(
        self, words: Mapping[str, int], lengths: np.ndarray, unknown: np.ndarray
    ) -> None:
        """Adds n words: count by word, number of pieces int [n], is [UNK] bool [n]."""
        counts = np.fromiter(words.values(), np.int64, len(words))
        sizes = np.fromiter(map(len, words), np.int64, len(words))
        cut = lengths > 1
        self.words += int(counts.sum())
        self.characters += int(counts @ sizes)
        self.tokens += int(counts @ lengths)
        self.unknown += int(counts[unknown].sum())
        self.cut += int(counts[cut].sum())
        self.pieces += int(counts[cut] @ lengths[cut])


@dataclasses.dataclass(frozen=True)
class CandidateWord:
    """A word of the corpus that is not a token of the vocabulary."""

    word: str
    count: int
    location: str  # of one occurrence
    pieces: tuple[str, ...] = ()  # none: it becomes [UNK]

    @property
    def saved(self) -> int:
        """How many pieces a token for the word would save.

        The pieces of an [UNK] are unknown: each of its characters counts as one.
        """
        return self.count * (len(self.pieces) - 1 if self.pieces else len(self.word))

    @property
    def rank(self) -> tuple[int, bool, str]:
        """A sort key: the most useful token comes first."""
        return -self.saved, bool(self.pieces), self.word


class Tally:
    """Counts words in bounded memory, as lossy counting does.

    When there are more than `most`, the rarer half is dropped and `missed` grows. No
    count is too low by more than `missed`, not even the 0 of a dropped word (Manku and
    Motwani 2002).
    """

    def __init__(self, most: int = MOST_WORDS) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.locations: dict[str, str] = {}
        self.missed = 0
        self._most = most

    def add(
        self, counts: Mapping[str, int], rows: Iterable[tuple[str, Sequence[str]]]
    ) -> None:
        """Adds counts. rows: (location, words), to locate new words; may be empty."""
        unlocated = set(counts) - self.counts.keys()
        self.counts.update(counts)
        for location, words in rows:
            if not unlocated:
                break
            for word in unlocated.intersection(words):
                self.locations[word] = location
                unlocated.remove(word)
        if len(self.counts) > self._most:
            self._drop_rare()

    def _drop_rare(self) -> None:
        limit = sorted(self.counts.values())[len(self.counts) // 2]
        self.missed += limit
        kept = {word: n for word, n in self.counts.items() if n > limit}
        self.counts = collections.Counter(kept)
        self.locations = {
            word: place for word, place in self.locations.items() if word in kept
        }


@functools.cache
def is_ideograph(char: str) -> bool:
    """Whether a character is a letter that is a word of its own, as in Chinese."""
    return char.isalpha() and is_standalone(char)


def is_standalone(word: str) -> bool:
    """Whether a word is a character that the tokenizer separates from all others."""
    return len(word) == 1 and len(_CASED.words(word * 2)) == 2


class Census:
    """Counts the words and tokens of a corpus, block by block."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        segment: Segment | None = None,
        most: int = MOST_WORDS,
    ) -> None:
        """segment: cuts a text into the words of its language, as jieba does."""
        self.tokenizer = tokenizer
        self.totals = CoverageTotals()
        self.uncovered = Tally(most)  # words that become [UNK] or several pieces
        self.compounds = Tally(most)  # the segmenter's words of several CJK characters
        self._segment = segment
        self._words = Normalizer(tokenizer.do_lower_case).words

    def add(self, rows: Sequence[Row]) -> None:
        """Counts a block of rows."""
        cut = [(location, self._words(text)) for location, text in rows]
        counts = count_words(words for _, words in cut)
        if counts:
            words = list(counts)
            ids = self.tokenizer.batch_ids(words)
            unknown = ids.values[ids.offsets[:-1]] == self.tokenizer.unk_id
            self.totals.add(counts, ids.lengths, unknown)
            uncovered = np.flatnonzero(unknown | (ids.lengths > 1))
            self.uncovered.add({words[i]: counts[words[i]] for i in uncovered}, cut)
        self.totals.rows += len(rows)
        if self._segment:
            compounds = [(where, self._compounds(text)) for where, text in rows]
            counts = count_words(words for _, words in compounds)
            self.compounds.add(counts, compounds)

    def _compounds(self, text: str) -> list[str]:
        assert self._segment is not None
        words = (word for word in self._segment(text) if len(word) > 1)
        return [word for word in words if all(map(is_ideograph, word))]

    def candidates(self) -> list[CandidateWord]:
        """The words that are not tokens, the most useful ones first."""
        unknown = self.tokenizer.unk_id
        words = list(self.uncovered.counts)
        ids = self.tokenizer.batch_ids(words)
        candidates = []
        for index, word in enumerate(words):
            row = ids.row(index).tolist()
            pieces = () if row == [unknown] else [self.tokenizer.tokens[i] for i in row]
            count, place = self.uncovered.counts[word], self.uncovered.locations[word]
            candidates.append(CandidateWord(word, count, place, pieces=tuple(pieces)))
        return sorted(candidates, key=lambda candidate: candidate.rank)

    def frequent_compounds(self, most: int) -> list[CandidateWord]:
        """The segmenter's most frequent words of several CJK characters."""
        places = self.compounds.locations
        ranked = sorted(
            self.compounds.counts.items(), key=lambda item: (-item[1], item[0])
        )
        return [CandidateWord(word, n, places[word]) for word, n in ranked[:most]]


def plain_characters(tokenizer: Tokenizer, unknown: Iterable[str]) -> dict[str, str]:
    """Unknown typographic sign -> the plain one, where the vocabulary has that."""
    tokens = {*tokenizer.tokens}
    return {
        sign: _PLAIN[sign]
        for sign in unknown
        if sign in _PLAIN and {*_PLAIN[sign]} <= tokens
    }


def count_words(rows: Iterable[Sequence[str]]) -> collections.Counter[str]:
    """How often each word occurs in rows of words."""
    counts: collections.Counter[str] = collections.Counter()
    for words in rows:
        counts.update(words)
    return counts


def in_blocks(rows: Iterable[Row], characters: int = 1 << 20) -> Iterator[list[Row]]:
    """Blocks of rows with about `characters` characters; no row is divided."""
    block: list[Row] = []
    size = 0
    for row in rows:
        block.append(row)
        size += len(row[1])
        if size >= characters:
            yield block
            block, size = [], 0
    if block:
        yield block


def choose(
    candidates: Iterable[CandidateWord], min_count: int, most: int | None
) -> list[CandidateWord]:
    """The words that become tokens, the most useful first."""
    chosen = [
        candidate
        for candidate in candidates
        if candidate.count >= min_count
        and len(candidate.word) <= _LONGEST_TOKEN
        and not (candidate.word.isdecimal() and candidate.pieces)  # not a number
    ]
    return sorted(chosen, key=lambda candidate: candidate.rank)[:most]


def free_rows(tokens: Sequence[str]) -> list[int]:
    """The rows of Google's [unusedN] tokens, which occur in no text."""
    return [row for row, token in enumerate(tokens) if _UNUSED.fullmatch(token)]


def new_rows(tokens: Sequence[str], new: int, place: str) -> list[int]:
    """The rows for `new` more tokens, or fewer if not as many are free.

    place: "unused" (Google's free rows, in order) or "append".
    """
    free = {
        "unused": free_rows(tokens),
        "append": list(range(len(tokens), len(tokens) + new)),
    }
    return free[place][:new]
