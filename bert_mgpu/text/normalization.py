"""Words of a text, as google-research/bert's BasicTokenizer cuts them.

Google's code (tokenization.py) drops control characters, sets CJK ideographs
apart, lower-cases, decomposes (Unicode NFD), drops accents and sets punctuation
apart, one character at a time. With two exceptions all of it is a function of the
single code point, so `Normalizer.words` is one `str.translate` with a table
that fills as characters are met, and one `str.split`. The exceptions are a capital
sigma at the end of a word, and combining marks that NFD may reorder. Texts with
such a code point take a slower path, which also fills the table.

The tables are those of the running Python's `unicodedata`, as Google's are.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

# Ideographs and their compatibility forms. Google treats kana and Hangul as
# words between spaces, and its list has no blocks newer than 2018.
_CJK_RANGES = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
# Google counts all of these as punctuation, beside category P* of Unicode.
_ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
# In the table: depends on the neighbours. Cleaning drops every real NUL.
_CONTEXT = "\0"


# Characters of a normalised text, each with the index of its source character in the
# original text.
_Sourced = list[tuple[str, int]]


class Word(NamedTuple):
    """A word, and for each of its characters the index of its source in the text."""

    text: str
    sources: list[int]


class Normalizer:
    """Cuts texts into words: lower-cased without accents, or as they are."""

    def __init__(self, lower_case: bool) -> None:
        self.lower_case = lower_case
        self._table = _Table(lower_case)

    def words(self, text: str) -> list[str]:
        normalized = text.translate(self._table)
        if _CONTEXT in normalized:
            return [word.text for word in self.sourced_words(text)]
        return normalized.split()

    def sourced_words(self, text: str) -> list[Word]:
        """The same words with their sources; this takes eight times as long."""
        pieces = list(map(self._table.__getitem__, map(ord, text)))
        if _CONTEXT in "".join(pieces):
            return _grouped(_normalize(text, self.lower_case))
        return _grouped(
            (char, source) for source, piece in enumerate(pieces) for char in piece
        )


def _grouped(characters: Iterable[tuple[str, int]]) -> list[Word]:
    """The words of a normalised text, which whitespace separates."""
    words, chars, sources = list[Word](), list[str](), list[int]()
    for char, source in characters:
        if char.isspace():
            if chars:
                words.append(Word("".join(chars), sources))
                chars, sources = [], []
        else:
            chars.append(char)
            sources.append(source)
    if chars:
        words.append(Word("".join(chars), sources))
    return words


class _Table(dict[int, str]):
    """Code point -> its normalised text, filled when a code point is met."""

    def __init__(self, lower_case: bool) -> None:
        super().__init__()
        self.lower_case = lower_case

    def __missing__(self, code_point: int) -> str:
        char = chr(code_point)
        if self.lower_case and needs_context(char):
            text = _CONTEXT
        else:
            text = normalized(char, self.lower_case)
        self[code_point] = text
        return text


def normalized(text: str, lower_case: bool) -> str:
    """The normalised text, whose words are separated by whitespace."""
    return "".join(char for char, _ in _normalize(text, lower_case))


def _normalize(text: str, lower_case: bool) -> _Sourced:
    """The normalised text, words separated by whitespace, with its sources."""
    chars = [
        (char, source)
        for source, original in enumerate(text)
        for char in _clean(original)
    ]
    if lower_case:
        chars = _strip_accents(_lower(chars))
    return [
        (char, source)
        for original, source in chars
        for char in (f" {original} " if _is_punctuation(original) else original)
    ]


def _clean(char: str) -> str:
    """The character: "" for a control character, between spaces if an ideograph."""
    if char in "\t\n\r":  # control characters too, but words end there
        return " "
    if char == "\ufffd" or unicodedata.category(char) in ("Cc", "Cf"):
        return ""
    if any(low <= ord(char) <= high for low, high in _CJK_RANGES):
        return f" {char} "
    return char


def _lower(chars: _Sourced) -> _Sourced:
    """`str.lower` of the whole text: a sigma's form depends on its neighbours."""
    sources = [source for char, source in chars for _ in char.lower()]
    lowered = "".join(char for char, _ in chars).lower()
    return list(zip(lowered, sources, strict=True))


def _strip_accents(chars: _Sourced) -> _Sourced:
    """NFD without nonspacing marks (category Mn).

    NFD is the decomposition of each character, then a stable sort of the marks
    between two starters by combining class (Unicode Standard, section 3.11).
    """
    decomposed = [
        (part, source)
        for char, source in chars
        for part in unicodedata.normalize("NFD", char)
    ]
    classes = [unicodedata.combining(char) for char, _ in decomposed]
    starters = itertools.accumulate(rank == 0 for rank in classes)
    ordered = sorted(
        zip(starters, classes, decomposed, strict=True),
        key=lambda item: item[:2],
    )
    return [
        (char, source)
        for _, _, (char, source) in ordered
        if unicodedata.category(char) != "Mn"
    ]


def _is_punctuation(char: str) -> bool:
    return char in _ASCII_PUNCTUATION or unicodedata.category(char).startswith("P")


def needs_context(char: str) -> bool:
    """Whether lower-casing or NFD of `char` may depend on its neighbours."""
    lowered = char.lower()
    # After a letter, and before the end, a capital sigma becomes a final one.
    return ("a" + char).lower() != "a" + lowered or any(
        unicodedata.combining(part) and unicodedata.category(part) != "Mn"
        for part in unicodedata.normalize("NFD", lowered)
    )
