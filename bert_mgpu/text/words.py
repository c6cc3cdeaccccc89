"""A text made of words, for files with one word on each line."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

# Scripts and punctuation that are written without spaces between words.
_WIDE = ("W", "F")  # East Asian widths: those of ideographs, kana and their punctuation
_KANA = ("HIRAGANA", "KATAKANA")
_HANGUL = "HANGUL"  # is wide, too, but has spaces
_PICTURES = ("So", "Sk")  # emoji among them, which are wide in all scripts
# The colour of the emoji before them.
_SKIN_TONES = frozenset("\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")


def joined(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """The words as one text, and the start and excluded end of each in it.

    A space stands between two words unless a character where they meet belongs to a
    script without spaces, or the second word begins with an emoji's skin tone.
    """
    parts: list[str] = []
    places: list[tuple[int, int]] = []
    end, before = 0, ""
    for word in words:
        first = word[:1]
        is_joined = is_unspaced_script(before[-1:]) or is_unspaced_script(first)
        if parts and not is_joined and first not in _SKIN_TONES:
            parts.append(" ")
            end += 1
        parts.append(word)
        places.append((end, end + len(word)))
        end, before = end + len(word), word
    return "".join(parts), places


def is_unspaced_script(char: str) -> bool:
    """Whether a character belongs to a script without spaces; "" does not."""
    wide = bool(char) and unicodedata.east_asian_width(char) in _WIDE
    if not wide or unicodedata.category(char) in _PICTURES:
        return False
    return not unicodedata.name(char, "").startswith(_HANGUL)


def is_kana(char: str) -> bool:
    """Whether a character is written in Japanese alone."""
    return unicodedata.name(char, "").startswith(_KANA)
