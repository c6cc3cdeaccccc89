"""The sentences of CoNLL files: a word and its tags per line, blank lines in between.

A line is split at tabs, and spaces around a cell are dropped, or at spaces if it has no
tab. A -DOCSTART- line (CoNLL-2003)
separates two documents and is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence

from bert_mgpu.core.errors import UserError
from bert_mgpu.core.text_files import Lines, RowFaults

_BLANKS = re.compile(" +")
_DOCUMENT = "-DOCSTART-"
_TAG = re.compile("O|[BIESMLU][-_].+")


def sentences(
    path: str | os.PathLike[str], columns: Sequence[int | str | None], lines: Lines
) -> Iterator[tuple[int, list[list[str] | None] | RowFaults]]:
    """Yields pairs (first line, cells): for each column, its values on all lines.

    For a sentence with lines of too few columns, or not as many as the first line where
    one is counted from the end, their faults replace the cells. Raises UserError for a
    column that is a name.
    """
    for column in columns:
        if isinstance(column, str):
            raise UserError(
                f"{path}: column {column!r}: columns of a CoNLL file have numbers, from"
                " 0; -1 is the last"
            )
    numbers = [column for column in columns if isinstance(column, int)]
    from_end = min(numbers, default=0) < 0
    needed, width = max(numbers, default=0) + (2 if from_end else 1), None
    for first, rows in _blocks(lines):
        if from_end and width is None:  # else the last column would be another one
            width = len(rows[0])
        faults = [
            (index, fault)
            for index, row in enumerate(rows)
            if (fault := _fault(row, needed, width))
        ]
        if faults:
            yield first, RowFaults(faults)
        else:
            yield (
                first,
                [
                    None
                    if not isinstance(column, int)
                    else [row[column] for row in rows]
                    for column in columns
                ],
            )


def are_rows(lines: Sequence[str], types: Collection[str], column: int = -1) -> bool:
    """Whether non-blank lines hold words with their tags rather than texts.

    They do if most have a tag of these types in this column; the rest may be mistakes.
    """
    rows = [cells for cells in map(_cells, lines) if cells[0] != _DOCUMENT]
    tags = [cells[column] for cells in rows if len(cells) > max(1, column)]
    known = [tag for tag in tags if _TAG.fullmatch(tag) and tag[2:] in ("", *types)]
    return not rows or 2 * len(known) > len(rows)


def _fault(row: list[str], needed: int, width: int | None) -> str:
    """What is wrong with a line, or ""; width: the columns that it must have."""
    columns = f"{len(row)} column{'s' * (len(row) > 1)}"
    if len(row) < needed:
        commas = len(row) == 1 and "," in row[0][1:]
        hint = ": separate them by tabs or blanks, not commas" * commas
        return f"{columns}, but {needed} are needed{hint}"
    if width is not None and len(row) != width:
        return f"{columns}, but the first line has {width}"
    return ""


def _cells(line: str) -> list[str]:
    if "\t" in line:  # a cell may hold blanks, but those around it are no part of it
        return [cell.strip(" ") for cell in line.split("\t")]
    return _BLANKS.split(line.rstrip(" "))


def _blocks(lines: Lines) -> Iterator[tuple[int, list[list[str]]]]:
    """Yields pairs (number of the first line, cells of all lines) of each sentence."""
    first, rows = 0, list[list[str]]()
    for number, line in lines:
        cells = _cells(line)
        if not line.strip(" \t") or cells[0] == _DOCUMENT:
            if rows:
                yield first, rows
            rows = []
            continue
        if not rows:
            first = number
        rows.append(cells)
    if rows:
        yield first, rows
