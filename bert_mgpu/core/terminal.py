"""Text in terminal columns: wide (CJK) characters take two, accents none."""

from __future__ import annotations

import itertools
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

WIDTH = 80  # terminal columns
_LEAST_NAME = 10  # columns that a table's names keep, by default
_MOST_CELL = 32  # columns that any other cell may take
COLOURS = {"red": 31, "green": 32, "yellow": 33}  # ANSI codes
_WIDE = ("W", "F")  # East Asian width: two terminal columns
_NO_WIDTH = ("Mn", "Me", "Cf")  # accents and format characters: none
# Control characters, those without a glyph, and those that end lines or paragraphs.
_HIDDEN = ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")
# Characters that change the direction of the text around them.
_TURNING = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


def visible(text: str, kept: str = "") -> str:
    """The text, with \\uXXXX for characters that control a terminal or turn the text.

    kept: control characters that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(
        f"\\u{ord(char):04x}"
        if char in _TURNING
        or (unicodedata.category(char) in _HIDDEN and char not in kept)
        else char
        for char in text
    )


def width(text: str) -> int:
    """The number of terminal columns that the text takes."""
    return sum(
        0
        if unicodedata.category(char) in _NO_WIDTH
        else 1 + (unicodedata.east_asian_width(char) in _WIDE)
        for char in text
    )


def columns_of(stream: Any) -> int:
    """The number in COLUMNS, or the columns of a stream's terminal; else 80.

    Less the prefix that horovodrun writes before each line of a process.
    """
    rank = os.environ.get("HOROVOD_RANK")
    before = len(f"[{rank}]<stderr>:") if rank else 0
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked):
        return int(asked) - before
    try:
        return os.get_terminal_size(stream.fileno()).columns or WIDTH
    except (OSError, ValueError, AttributeError):
        return WIDTH - before


def narrow(stream: Any) -> int:
    """The columns for aligned text in a stream: 80, or its terminal's if fewer."""
    return min(WIDTH, columns_of(stream))


def coloured(text: str, colour: str, stream: Any) -> str:
    """The text in a colour, where the stream is a terminal that shows colours.

    NO_COLOR: see https://no-color.org.
    """
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or not stream.isatty():
        return text
    return f"\033[{COLOURS[colour]}m{text}\033[0m"


def fit(text: str, columns: int) -> str:
    """Pads, or cuts with "..", to a number of terminal columns."""
    text = visible(text)
    if width(text) > columns:
        widths = itertools.accumulate(map(width, text))
        fitting = itertools.takewhile(lambda used: used <= columns - 2, widths)
        text = text[: sum(1 for _ in fitting)] + ".."[: max(0, columns)]
    return text + " " * (columns - width(text))


def wrap(text: str, columns: int = WIDTH) -> list[str]:
    """The text in lines of whole words; a word that is too long gets its own line."""
    lines: list[str] = []
    for word in text.split():
        if lines and width(lines[-1]) + 1 + width(word) <= columns:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def hanging(text: str, columns: int, indent: int) -> list[str]:
    """The text in lines of whole words, indented from the second one on.

    Spaces at the start and between the words of a line stay as they are. What stands
    between two of them or more, such as "16.2 ex/s", stays in one line where it can,
    and a number with its name or sign: "f1 0.92" at the end of that, "50 %".
    """
    lines = [""]

    def add(gap: str, part: str) -> None:
        if not lines[-1] or width(lines[-1] + gap + part) <= columns:
            lines[-1] += gap + part
        else:
            lines.append(" " * indent + part)

    first, *rest = re.split(r"(?<=[^ ])( {2,})", text)
    for gap, cell in zip(["", *rest[::2]], [first, *rest[1::2]], strict=True):
        if min(width(lines[-1] + gap), indent) + width(cell) <= columns:
            add(gap, cell)
            continue
        start, *words = re.split(r"(?<=[^ ])( (?!%(?:\W|$)|-?[\d.]+$))", cell)
        add(gap, start)
        for space, word in zip(words[::2], words[1::2], strict=True):
            add(space, word)
    return lines


def align(
    lines: Sequence[Sequence[str]],
    widths: Sequence[int],
    columns: int | None = None,
    *,
    least: int = _LEAST_NAME,
) -> str:
    """A table at most `columns` wide: names on the left, numbers on the right.

    columns: None for those of the log (`narrow`).

    Where the numbers leave the names no room, several tables, one below the other.

    lines: a name and one cell for each of `widths`, which grow to fit the longest cell;
    least: columns that the names keep at least.
    """
    columns = narrow(sys.stderr) if columns is None else columns
    lines = [[*map(visible, line)] for line in lines]
    longest, *cells = (max(map(width, column)) for column in zip(*lines, strict=True))
    widths = [
        max(own, min(_MOST_CELL, cell + 1))
        for own, cell in zip(widths, cells, strict=True)
    ]
    name_width = min(columns - sum(widths), longest)
    if name_width < min(least, longest) and len(widths) > 1:
        half = (len(widths) + 1) // 2
        left = [line[: 1 + half] for line in lines]
        right = [[line[0], *line[1 + half :]] for line in lines]
        parts = (left, widths[:half]), (right, widths[half:])
        tables = (align(own, its, columns, least=least) for own, its in parts)
        return "\n\n".join(tables)
    return "\n".join(
        fit(name, name_width) + "".join(map(_to_the_right, cells, widths))
        for name, *cells in lines
    )


def _to_the_right(cell: str, columns: int) -> str:
    cell = cut_front(cell, columns - 1)
    return " " * (columns - width(cell)) + cell


def cut_front(text: str, columns: int) -> str:
    """The text, such as a path; if it is too long, ".." and its end."""
    text = visible(text)
    if width(text) <= columns:
        return text
    start, free = len(text), columns - 2
    while (free := free - width(text[start - 1])) >= 0:
        start -= 1
    return ".." + text[start:]
