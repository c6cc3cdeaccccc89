"""Whether a space belongs between two words, judging by the text around them.

The text itself counts first: how often it has spaces between neighbours of these kinds.
Where it has no such neighbours, the rules of European print decide; scripts without
spaces get none.
"""

from __future__ import annotations

import collections
import re
import unicodedata
from collections.abc import Sequence

from bert_mgpu.text.words import is_unspaced_script

# Kinds of neighbours: letters and digits; those of scripts without spaces. Any other
# character, and any run of one, is a kind of its own.
_WORD, _DENSE = "a", "一"
_WORDS = {_WORD, _DENSE}
_STRAIGHT = ('"', "''")  # quotation marks that open and close in turn ...
_OPENS, _CLOSES = "“", "”"  # ... and are then of these kinds
_OPENING = frozenset("([{<¿¡#@$£€„‚")
_CLOSING = frozenset(")]}>.,;:!?%…°")
_STOPS = frozenset(".,;!?")
_ENDS = _STOPS | {":"}
_JOINING = frozenset("'’-‐‑–—/\\_~")
_IN_NUMBER = re.compile(r"(?<=\d)([.:](?=\d)|(?<!\d{4}),(?=\d{3}(?!\d)))")
# The stops of "U.S.", "J. Smith" and "bert.com" are parts of a word.
_IN_WORD = re.compile(r"(?<=[^\W_])\.(?=[^\W_])|(?<=\b[^\W\d_])\.")
_UNSEEN = ("Mn", "Me", "Cf", "Cc")
_MOST = 1000  # tokens of a text that are looked at


class Spacing:
    """The spaces of a text."""

    def __init__(
        self,
        text: str,
        places: Sequence[tuple[int, int]],
        slots: Sequence[tuple[int, int]] = (),
    ) -> None:
        """places, slots: the start and the excluded end of each token and marker."""
        self._text, places = text, places[:_MOST]
        self._marked = {place for start, end in slots for place in (start, end - 1)}
        self._apart: collections.Counter[tuple[str, str]] = collections.Counter()
        inner = {
            place
            for pattern in (_IN_NUMBER, _IN_WORD)
            for match in pattern.finditer(text)
            for place in match.span()
        }
        ends = (end for _, end in places)
        for end, (start, _) in zip(ends, places[1:], strict=False):
            gap = text[end:start]  # a gap with a slot in it shows nothing
            if start >= end and start not in inner and not gap.strip():
                left, right = _left(text, end), _right(text, start, text[:end])
                if left and right:  # not a combining mark without a letter
                    self._apart[left, right] += 1 if gap else -1
        # Tokenized corpora have spaces where print has none.
        shown = (
            seen
            for (left, right), seen in self._apart.items()
            if not {left, right} <= _WORDS and not _in_print(left, right)
        )
        self._is_loose = sum(shown) > 0

    def between(
        self, before: str, after: str, *, in_number: bool = True
    ) -> bool | None:
        """Whether a space must (True) or must not (False) separate two texts.

        None: there may be one, but none has to be written. Whitespace at the end of the
        first text does not matter; the second one starts without any. in_number:
        whether a mark at the end of the first text may be inside of a number (3.5).
        """
        left, right = _left(before, len(before)), _right(after, 0, before)
        if not left or not right:
            return None
        tail = before.rstrip()[-5:]
        if in_number and _IN_NUMBER.match(tail + after[:4], len(tail) - 1):
            return False
        seen = self._apart[left, right]
        if {left, right} <= _WORDS:
            return True if left == right == _WORD or seen > 0 else None
        if seen:
            return seen > 0
        ends = _WORD in (left, right) or right in _STOPS
        return _in_print(left, right) or (self._is_loose and ends and left != "'")

    def fitting(
        self, wanted: bool | None, beside: int, gone: int, *, new: str
    ) -> bool | None:
        """None, which keeps the gap beside a text that replaces another, if it fits.

        Otherwise `wanted`. beside, gone: places of the neighbour and, next to it, of
        the end of the old text; new: the character that is there now.
        """
        if not 0 <= beside < len(self._text):
            return wanted
        neighbour, old = self._text[beside], self._text[gone]
        if gone in self._marked:  # a slot is written like the word that it stands for
            if _kind(new) not in _WORDS or (beside < gone and neighbour in _ENDS):
                return wanted
            old = new
        pairs = [(neighbour, char) for char in (old, new)]
        if beside > gone:
            pairs = [(char, neighbour) for char in (old, new)]
        return None if _alike(*pairs) else wanted


def _alike(old: tuple[str, str], new: tuple[str, str]) -> bool:
    """Whether a space belongs between these neighbours as between the old ones.

    Between two words the text and its script decide, whatever was there.
    """
    kinds = [tuple(map(_kind, pair)) for pair in (old, new)]
    if kinds[0] == kinds[1]:
        return not {*kinds[1]} <= _WORDS
    changed = {
        kind for pair in zip(*kinds, strict=True) if len({*pair}) > 1 for kind in pair
    }
    if changed & {*_WORDS, '"'}:
        return False
    return _in_print(*kinds[0]) == _in_print(*kinds[1])


def has_blank(text: str) -> bool:
    return any(map(str.isspace, text))


def _in_print(left: str, right: str) -> bool:
    """Whether print has a space between these; one is punctuation or a symbol."""
    if left[-1] in _JOINING or right[0] in _JOINING or left[-1] == right[0]:
        return False
    opens = left[-1] in _OPENING or unicodedata.category(left[-1]) == "Pi"
    closes = right[0] in _CLOSING or unicodedata.category(right[0]) == "Pf"
    return not (
        opens or closes or is_unspaced_script(left[-1]) or is_unspaced_script(right[0])
    )


def _left(text: str, end: int) -> str:
    """The kind of the neighbour that ends at `end` of a text; "" if there is none."""
    while end and (text[end - 1].isspace() or _is_unseen(text[end - 1])):
        end -= 1
    start = max(0, end - 1)
    while start and text[start - 1] == text[end - 1]:
        start -= 1
    run = text[start:end]
    return (_CLOSES, _OPENS)[_is_open(text, end)] if run in _STRAIGHT else _kind(run)


def _right(text: str, start: int, before: str) -> str:
    """The kind of the neighbour that starts at `start` of a text, after `before`."""
    end = start
    while end < len(text) and text[end] == text[start]:
        end += 1
    run = text[start:end]
    if run in _STRAIGHT:
        return (_OPENS, _CLOSES)[_is_open(before, len(before))]
    return _kind(run)


def _kind(run: str) -> str:
    """The kind of a run: the same character, once or more often."""
    char = run[:1]
    if char and unicodedata.category(char)[0] in "LNM":
        return _DENSE if is_unspaced_script(char) else _WORD
    return run


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in _UNSEEN


def _is_open(text: str, end: int) -> bool:
    """Whether a straight quotation mark is open at `end`."""
    return sum(text.count(mark, 0, end) for mark in _STRAIGHT) % 2 == 1
