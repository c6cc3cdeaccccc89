"""Text in terminal columns: wide (CJK) characters take two, accents none."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

WIDTH = 80  # terminal columns
_WIDE = ("W", "F")  # East Asian width: two terminal columns
_NO_WIDTH = ("Mn", "Me", "Cf")  # accents and format characters: none


def width(text: str) -> int:
    """Terminal columns that the text takes."""
    return sum(
        0
        if unicodedata.category(char) in _NO_WIDTH
        else 1 + (unicodedata.east_asian_width(char) in _WIDE)
        for char in text
    )


def fit(text: str, columns: int) -> str:
    """Pads, or cuts with "..", to a number of terminal columns."""
    if width(text) > columns:
        while width(text) > columns - 2:
            text = text[:-1]
        text += ".."
    return text + " " * (columns - width(text))


def wrap(text: str, columns: int = WIDTH) -> list[str]:
    """Lines of whole words; a word that is too long has a line of its own."""
    lines: list[str] = []
    for word in text.split():
        if lines and width(lines[-1]) + 1 + width(word) <= columns:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def align(lines: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    """A table at most 80 columns wide: names to the left, numbers to the right.

    lines: a name and one cell for each of `widths`.
    """
    name_width = min(WIDTH - sum(widths), max(width(line[0]) for line in lines))
    return "\n".join(
        fit(name, name_width) + "".join(map(str.rjust, cells, widths))
        for name, *cells in lines
    )


def cut_front(text: str, columns: int) -> str:
    """The end of a text that is too long, such as a path, behind ".."."""
    if width(text) <= columns:
        return text
    start, free = len(text), columns - 2
    while (free := free - width(text[start - 1])) >= 0:
        start -= 1
    return ".." + text[start:]
