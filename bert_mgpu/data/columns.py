"""The requested columns, given by number or name, in the rows of a file."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, NamedTuple

from bert_mgpu.core.errors import UserError, listed, shortened

Column = int | str  # a number from 0 (-1 is the last one), or a name
_DIGITS = 10  # no column number is longer; int() refuses thousands of digits
_NAMES_COMPARED = 1000  # to suggest a name: a line may hold a million


def parsed(text: str) -> Column:
    """The column that a flag names."""
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) < _DIGITS else text


def numbers(columns: Sequence[Column | None]) -> list[int | None]:
    """The columns that are numbers, None for names, which need a header."""
    return [column if isinstance(column, int) else None for column in columns]


def names(path: Any, columns: Sequence[Column | None]) -> list[str | None]:
    for column in columns:
        if isinstance(column, int):
            raise UserError(
                f"{path}: column {column}: its columns have names: pass one of those"
            )
    return [column if isinstance(column, str) else None for column in columns]


def absent(name: str, known: Sequence[str]) -> str:
    shown = [shortened(other) for other in known]
    near = difflib.get_close_matches(shortened(name), shown[:_NAMES_COMPARED], n=2)
    meant = f": did you mean {' or '.join(map(repr, near))}?" if near else ""
    existing = listed(shown, quoted=True)
    return f"no column {shortened(name)!r}{meant} (there are {existing})"


def repeated(name: str, known: Sequence[str]) -> str:
    return f"{known.count(name)} columns are called {shortened(name)!r}"


def header_numbers(
    path: Any, header: list[str], columns: Sequence[Column | None]
) -> list[int | None]:
    """The numbers of the columns; names are looked up in the header line."""
    for column in columns:
        if isinstance(column, str) and header.count(column) != 1:
            why = absent(column, header)
            if column in header:
                why = repeated(column, header)
            elif len(header) == 1 and ";" in header[0]:
                why += ": separate them by commas, or by tabs, instead of semicolons"
            raise UserError(f"{path}:1: {why}")
    return [header.index(c) if isinstance(c, str) else c for c in columns]


class Width(NamedTuple):
    """How many cells a row has: those of the header, or of the first row."""

    cells: int
    of: str
    advice: str  # for a row with more


def pick(
    cells: list[str], numbers: Sequence[int | None], width: Width | None = None
) -> list[str | None] | ValueError:
    """The cells of these columns; an error for a row of another width.

    A row may lack cells at its end, unless a column is counted from there; cells beyond
    the width may be blank.
    """
    if width is not None and any(map(str.strip, cells[width.cells :])):
        return ValueError(
            f"{len(cells)} cells, {width.of} has {width.cells}: {width.advice}"
        )
    wanted = [number for number in numbers if number is not None]
    most, least = max(wanted, default=0), min(wanted, default=0)
    if least < 0 <= most:  # the one counted from the end is a different column
        most += 1
    if len(cells) <= most or len(cells) < -least:
        is_short = len(cells) <= most
        needed = f"{most} (counted from 0)" if is_short else f"{least} (from the end)"
        plural = "s" * (len(cells) > 1)
        return ValueError(f"{len(cells)} column{plural}, but column {needed} is needed")
    if width is not None and least < 0 and len(cells) < width.cells:
        return ValueError(
            f"{len(cells)} cells, {width.of} has {width.cells}: so column {least}, from"
            " the end, is another one"
        )
    return [None if number is None else cells[number] for number in numbers]
