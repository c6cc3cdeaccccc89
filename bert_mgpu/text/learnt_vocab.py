"""The word counts that a vocabulary is learnt from, and the tokens that it starts with.

The tokenizer separates ideographs and punctuation marks from their neighbours
(normalization.py), so each of them is a word and one token. All other characters,
called letters here, may stand within a word: each of them is a token, and with ## in
front another one, so that no word of letters is ever [UNK].
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from bert_mgpu.text import vocab_coverage
from bert_mgpu.text.normalization import Normalizer
from bert_mgpu.text.tokenization import MAX_WORD
from bert_mgpu.text.vocab_coverage import MOST_WORDS, Row, Tally

LONGEST_PIECE = 50  # characters; no pieces are learnt from longer words, as at Google
_FIRST = "[PAD]"
_LAST = "[UNK]", "[CLS]", "[SEP]", "[MASK]"


class WordCounts:
    """Counts the words and the characters of a corpus, block by block."""

    def __init__(self, do_lower_case: bool, most: int = MOST_WORDS) -> None:
        """most: how many different words are kept; see `Tally`."""
        self.rows = 0
        self.characters: collections.Counter[str] = collections.Counter()  # exact
        self.words = Tally(most)  # of letters, up to LONGEST_PIECE
        self._cut = Normalizer(do_lower_case).words

    def add(self, rows: Sequence[Row]) -> None:
        """Counts a block of rows."""
        counts = vocab_coverage.count_words(self._cut(text) for _, text in rows)
        for word, count in counts.items():
            if len(word) <= MAX_WORD:  # a longer one is [UNK] whatever it holds
                for char in word:
                    self.characters[char] += count
        pieced = {
            word: count
            for word, count in counts.items()
            if len(word) <= LONGEST_PIECE and not vocab_coverage.is_standalone(word)
        }
        self.words.add(pieced, ())
        self.rows += len(rows)


@dataclasses.dataclass(frozen=True)
class Alphabet:
    """The characters that are tokens, in the order of their code points."""

    characters: tuple[str, ...]
    letters: frozenset[str]  # those that the tokenizer leaves within words

    def tokens(self) -> Iterator[str]:
        """Each character, then each letter as it continues a word, with ##."""
        yield from self.characters
        yield from (f"##{char}" for char in self.characters if char in self.letters)


def alphabet(counts: Mapping[str, int], min_count: int) -> Alphabet:
    """The characters that occur often enough.

    An ideograph gets no token with ##: since the tokenizer separates it from its
    neighbours, no word has it after another character. Google's Chinese vocabulary
    has 7,322 such tokens, and its tokenizer never gives any of them.
    """
    frequent = sorted(char for char, count in counts.items() if count >= min_count)
    letters = (char for char in frequent if not vocab_coverage.is_standalone(char))
    return Alphabet(tuple(frequent), frozenset(letters))


def special_tokens(unused: int) -> list[str]:
    """The first rows: with 99 `unused` ones, those of Google's Chinese vocabulary."""
    free = (f"[unused{number}]" for number in range(1, unused + 1))
    return [_FIRST, *free, *_LAST]
