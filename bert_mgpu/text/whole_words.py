"""Word boundaries among tokens, for masks over whole words (`masking.py`).

Google's whole words are those that WordPiece has cut: "##" pieces belong to the token
before them. In Chinese every character is a token, and words are found by a segmenter:
here jieba's algorithm, in Rust (package rjieba, optional).

    starts = ~continuing(tokenizer.tokens)[ids]          # words of "##" pieces
    ids, starts = ChineseWords(tokenizer).ids_and_starts("我来到北京")
    words = numbered(starts, is_text)                    # what masking.apply takes

`starts` says of each token whether a word begins there. It stays valid when rows are
cut, joined and packed; the numbers are made last, for the finished row.

Letters: n tokens of a row or a batch, V vocabulary.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rows import Ragged
from bert_mgpu.text.normalization import Normalizer, needs_context
from bert_mgpu.text.segmenter import UserWord, cutter
from bert_mgpu.text.tokenization import Tokenizer

_MEMO_WORDS = 1 << 17  # remembered words, about 80 MB
_MAX_REMEMBERED = 64  # characters; longer words hardly recur


def continuing(tokens: Sequence[str]) -> np.ndarray:
    """Whether each token continues the word before it ("##"), bool [V]."""
    return np.array([token.startswith("##") for token in tokens], bool)


def numbered(starts: np.ndarray, is_text: np.ndarray) -> np.ndarray:
    """The number of each token's word, int32 [n]: 0, 1, ... along the row.

    Args:
      starts: bool [n], whether a word begins at the token.
      is_text: bool [n], False for tokens that are never masked ([CLS],
        [SEP]), which get -1.

    A word ends where its text ends. So a "##" piece that truncation has left at the
    start of a text begins a word. Google's code does the same after [CLS], but adds
    such a piece after a [SEP] to the last word before the [SEP].
    """
    is_first = is_text & starts
    is_first[:1] = is_text[:1]
    is_first[1:] |= is_text[1:] & ~is_text[:-1]
    words = np.cumsum(is_first, dtype=np.int32) - np.int32(1)
    words[~is_text] = -1
    return words


def single_token_words(is_text: np.ndarray) -> np.ndarray:
    """What `numbered` gives if every token is a word of its own, int32 [n]."""
    return numbered(np.ones_like(is_text), is_text)


class ChineseWords:
    """A tokenizer that also says where jieba's words begin.

    The ids are those of `tokenizer`. A token begins a word if no earlier token
    contains a part of the jieba word of its first character, unless it is a "##" piece,
    which never begins one.

    A word of `user_words` is never cut where it stands alone. In a sentence jieba
    weighs it against other ways to cut, by its frequency, which is raised to where
    jieba keeps the lone word whole. Words that jieba itself cannot keep whole, since it
    cuts at spaces and most punctuation ("Apex Legends", "王者·荣耀"), are never cut,
    wherever they stand.

    Objects can be pickled, for worker processes. Each makes its own jieba, which takes
    0.1 to 0.2 seconds and 30 MB, and twice that with user words. Cutting releases
    Python's global lock; all else holds it.
    """

    def __init__(
        self, tokenizer: Tokenizer, user_words: Sequence[UserWord] = ()
    ) -> None:
        """Raises UserError where the package rjieba is not installed."""
        self._tokenizer = tokenizer
        self._user_words = tuple(user_words)
        self._cut = cutter(self._user_words)
        self._units = _Units(tokenizer)

    def __reduce__(self) -> tuple[type, tuple[Tokenizer, Sequence[UserWord]]]:
        return ChineseWords, (self._tokenizer, self._user_words)

    def ids_and_starts(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """`tokenizer.ids(text)` as int32 [n], and the starts, bool [n]; read-only."""
        ids, starts = self._row(text)
        return np.frombuffer(ids, np.int32), np.frombuffer(starts, bool)

    def batch_ids_and_starts(self, texts: Sequence[str]) -> tuple[Ragged, np.ndarray]:
        """`tokenizer.batch_ids(texts)`, and the starts of its values, bool [n]."""
        rows = [self._row(text) for text in texts]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(starts) for _, starts in rows], out=offsets[1:])
        ids = np.frombuffer(b"".join(ids for ids, _ in rows), np.int32)
        starts = np.frombuffer(b"".join(starts for _, starts in rows), bool)
        return Ragged(ids, offsets), starts

    def _row(self, text: str) -> tuple[bytes, bytes]:
        """Ids, int32 as bytes, and starts, bool as bytes."""
        if not (words := self._cut(text)):
            return b"", b""
        ids, starts, edges = self._joined(words)
        if _NEEDS_CONTEXT in edges:
            ids, starts, _ = self._joined([tuple(words)])
        elif _GLUED in edges:
            ids, starts, _ = self._joined(_glue(words, edges))
        return ids, starts

    def _joined(self, keys: Sequence[_Key]) -> Iterator[bytes]:
        units = map(self._units.__getitem__, keys)
        return map(b"".join, zip(*units, strict=True))


# Words of jieba are tokenized one by one and remembered, and their tokens joined.
# That gives the ids of the text where the tokenizer would separate the words too, as it
# does beside every ideograph. Otherwise ("ＮＢＡ" is three words to jieba and one to
# the tokenizer) the words that belong together form a unit, tokenized as a whole. Texts
# that normalization cannot handle one character at a time are one unit.
#
# The edges of a word say whether it is open to its left and right, so that it joins an
# open neighbour. The edges of a text are those of its words, one after the other.
_OPEN_LEFT, _OPEN_RIGHT, _CLOSED, _NEEDS_CONTEXT = b"(", b")", b".", b"?"
_GLUED = _OPEN_RIGHT + _OPEN_LEFT

_Key = str | tuple[str, ...]  # a word, or words that belong together


class _Unit(NamedTuple):
    ids: bytes  # int32
    starts: bytes  # bool
    edges: bytes  # two, left and right


def _glue(words: Sequence[str], edges: bytes) -> list[_Key]:
    """The words; those that belong together are in one tuple."""
    joints = range(1, 2 * len(words) - 1, 2)
    cuts = [i // 2 + 1 for i in joints if edges[i : i + 2] != _GLUED]
    bounds = itertools.pairwise([0, *cuts, len(words)])
    return [
        words[start] if end - start == 1 else tuple(words[start:end])
        for start, end in bounds
    ]


class _Units(dict[_Key, _Unit]):
    """Key -> its tokens, made when the key is first met."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._continuing = continuing(tokenizer.tokens)
        self._normalizer = Normalizer(tokenizer.do_lower_case)

    def __missing__(self, key: _Key) -> _Unit:
        unit = self._word(key) if isinstance(key, str) else self._joined_unit(key)
        if sum(map(len, key)) <= _MAX_REMEMBERED:
            if len(self) >= _MEMO_WORDS:
                self.clear()
            self[key] = unit
        return unit

    def _word(self, word: str) -> _Unit:
        ids = self._tokenizer.batch_ids([word]).values
        starts = bytes([True] + [False] * (len(ids) - 1)) if len(ids) else b""
        return _Unit(ids.tobytes(), starts, self._edges(word))

    def _edges(self, word: str) -> bytes:
        if any(map(_asks, word)):
            return 2 * _NEEDS_CONTEXT
        # A word that vanishes leaves nothing between the letters: it is open.
        between = self._normalizer.words(f"a{word}a")
        left = _CLOSED if between[0] == "a" else _OPEN_LEFT
        return left + (_CLOSED if between[-1] == "a" else _OPEN_RIGHT)

    def _joined_unit(self, words: tuple[str, ...]) -> _Unit:
        word_of = [i for i, word in enumerate(words) for _ in word]
        ids, starts = [], []
        last_word = -1  # that a token so far contains a part of
        for index, start, end in self._tokenizer.ids_with_offsets("".join(words)):
            ids.append(index)
            begins = word_of[start] > last_word and not self._continuing[index]
            starts.append(begins)
            last_word = max(last_word, word_of[end - 1])
        return _Unit(np.array(ids, np.int32).tobytes(), bytes(starts), b"")


_asks = functools.cache(needs_context)  # one character at a time
