"""The places of a text's pieces, with characters that the tokenizer drops."""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"  # zero-width: without one, and with one


def is_mark(char: str) -> bool:
    """Whether a character is a part of the glyph before it.

    Accents and variation selectors (categories M*), joiners, and the tags of flags are;
    a zero-width space or a soft hyphen is not, though the tokenizer drops it, too.
    """
    is_tag = "\U000e0020" <= char <= "\U000e007f"
    return is_tag or char in _JOINERS or unicodedata.category(char)[0] == "M"


def cover_marks(text: str, places: list[list[int]]) -> None:
    """Extends pieces over the marks after them that belong to no piece.

    places: the start and excluded end of each piece, in text order; changed in place.
    """
    starts = [start for start, _ in places[1:]]
    for place, following in zip(places, [*starts, len(text)], strict=False):
        while place[1] < following and is_mark(text[place[1]]):
            place[1] += 1


def bare_end(text: str, start: int, end: int) -> int:
    """The end of a piece without the marks after its first character."""
    while end - 1 > start and is_mark(text[end - 1]):
        end -= 1
    return end


def cover_dropped(text: str, places: list[list[int]]) -> None:
    """Extends pieces over all characters after them that belong to none, but blanks.

    They are kept or deleted with the piece. For the arguments see `cover_marks`.
    """
    starts = [start for start, _ in places[1:]]
    for place, following in zip(places, [*starts, len(text)], strict=False):
        while place[1] < following and not text[place[1]].isspace():
            place[1] += 1
