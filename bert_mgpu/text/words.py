"""A text made of words, for files with one word on each line."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

# Scripts and punctuation that are written without spaces between words.
_WIDE = ("W", "F")  # East Asian widths: those of ideographs, kana and their punctuation
_HANGUL = "HANGUL"  # is wide, too, but has spaces


def joined(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """The words as one text, and the start and excluded end of each in it.

    A space stands between two words unless a character where they meet belongs to a
    script without spaces.
    """
    parts: list[str] = []
    places: list[tuple[int, int]] = []
    end, before = 0, ""
    for word in words:
        if parts and not (
            is_unspaced_script(before[-1:]) or is_unspaced_script(word[:1])
        ):
            parts.append(" ")
            end += 1
        parts.append(word)
        places.append((end, end + len(word)))
        end, before = end + len(word), word
    return "".join(parts), places


def is_unspaced_script(char: str) -> bool:
    """Whether a character belongs to a script without spaces; "" does not."""
    wide = bool(char) and unicodedata.east_asian_width(char) in _WIDE
    return wide and not unicodedata.name(char, "").startswith(_HANGUL)
