"""A text made of words, as files with a word on each line give it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

# Scripts and punctuation that are written without blanks between words.
_WIDE = ("W", "F")  # East Asian widths: those of ideographs, kana and their punctuation
_HANGUL = "HANGUL"  # is wide, too, but has blanks


def joined(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """The words as one text, and the place of each: its start, its excluded end.

    A blank stands between two words unless one of them touches the other with a
    character of a script without blanks.
    """
    parts: list[str] = []
    places: list[tuple[int, int]] = []
    end, before = 0, ""
    for word in words:
        if parts and not (is_dense(before[-1:]) or is_dense(word[:1])):
            parts.append(" ")
            end += 1
        parts.append(word)
        places.append((end, end + len(word)))
        end, before = end + len(word), word
    return "".join(parts), places


def is_dense(char: str) -> bool:
    """Whether a character is of a script without blanks; "" is not."""
    wide = bool(char) and unicodedata.east_asian_width(char) in _WIDE
    return wide and not unicodedata.name(char, "").startswith(_HANGUL)
