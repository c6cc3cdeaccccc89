"""The rows of table files (TSV, CSV, JSON, Parquet, CoNLL), as cells of given columns.

A TSV line is split at tabs and quotes are ordinary characters, as in Google's code. CSV
follows RFC 4180: commas, quotes doubled within quotes, line breaks allowed in cells.
"""

from __future__ import annotations

import csv
import math
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from bert_mgpu.core.encodings import UTF_8
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.files import STANDARD_INPUT
from bert_mgpu.core.text_files import (
    LONGEST_LINE,
    UNPACK,
    Faults,
    Lines,
    read_lines,
    report_faults,
)
from bert_mgpu.data import columns as column_lib
from bert_mgpu.data import conll, json_lines, json_records, parquet, squad_json
from bert_mgpu.data.columns import Column, Width
from bert_mgpu.data.csv_lines import LONGEST_ROW, MOST_RETRIES, CsvLines

SQUAD = squad_json.FORMAT
_HEADER, _FIRST = "the header", "the first row"
_NO_TABS = "remove the tabs within a cell"
_QUOTES = "put one with commas into quotes"
Cell = Any  # a text; from JSON and Parquet also a list or a number
Cells = list[Cell | None]  # None for a column that was not requested

_SUFFIXES = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".conll": "conll",
}


class TableFormat(NamedTuple):
    """The format, header and encoding of a task's files."""

    format: str | None = None  # one of FORMATS; None: by the file's suffix
    header: bool = False  # TSV and CSV: the first line holds the column names
    encoding: str = UTF_8

    def format_of(self, path: str | os.PathLike[str]) -> str:
        suffixes = pathlib.Path(path).suffixes
        if suffixes and suffixes[-1] in UNPACK:
            suffixes.pop()
        kind = _SUFFIXES.get("".join(suffixes[-1:]).lower(), "tsv")
        own = None if self.format == SQUAD and kind == "parquet" else self.format
        return own or kind

    def word_lines(self, path: str | os.PathLike[str]) -> bool:
        """Whether each word of a row has a line of its own."""
        return self.format_of(path) == "conll"


def rows(
    path: str | os.PathLike[str],
    form: TableFormat,
    columns: Sequence[Column | None],
    *,
    id_at: int | None = None,
    id_may_lack: bool = False,
    nested_at: int | None = None,
    lines: Lines | None = None,
    faults: Faults | None = None,
) -> Iterator[tuple[int, Cells | None]]:
    """Yields pairs (line from 1, cells of these columns in order), a row at a time.

    The cells of a blank line are None. A row that spans several lines has the number of
    the first one; a Parquet row has its row number.

    Args:
      id_at: the index of a column whose integers stay integers.
      id_may_lack: whether its cell is "" for a JSON object that lacks it.
      nested_at: the index of a column whose lists, objects and nulls stay.
      lines: the lines of the file, if some of them have been read already.
      faults: gets each faulty row, which is then skipped, instead of an error.

    Raises:
      UserError: with file:line, if a row does not fit or a column is missing.
    """
    read = FORMATS[form.format_of(path)]
    if lines is None and read is not _parquet:
        longest = squad_json.LONGEST if read is _squad else LONGEST_LINE
        lines = read_lines(path, form.encoding, faults, longest=longest)
    options = {}
    if id_at is not None and id_may_lack and read in (_jsonl, _squad):
        options["may_lack"] = columns[id_at]
    # The JSON types that cells keep, by the index of their column.
    stay = {id_at: (int,), nested_at: (list, dict, type(None))}
    for number, cells in read(path, form, columns, lines=lines or iter(()), **options):
        try:
            if isinstance(cells, ValueError):
                raise cells
            pairs = zip(cells or (), columns, strict=bool(cells))
            texts = [
                value if type(value) in stay.get(index, ()) else _text(value, column)
                for index, (value, column) in enumerate(pairs)
            ]
            yield number, texts or None
        except ValueError as error:
            report_faults(
                path, number, error, faults=faults, word_lines=form.word_lines(path)
            )


def _text(value: Any, column: Column | None) -> Cell | None:
    """A JSON value as a cell. Raises ValueError if it cannot be one."""
    if isinstance(value, str) and json_lines.has_surrogate(value):
        raise ValueError(f"column {column!r} contains an unpaired surrogate")
    if column is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        if any(isinstance(item, (list, dict)) for item in value):
            raise ValueError(f"column {column!r} is a list of lists: pass strings")
        return [str(_text(item, column)) for item in value]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    shown = "null" if value is None else f"{str(value)[:40]!r}"
    if not isinstance(value, (type(None), float, dict)):  # what JSON has no type for
        shown += f" of type {type(value).__name__}"
    raise ValueError(f"column {column!r} is {shown}: pass a string, a number or a list")


# A line number with cells, None, or a row's fault, after which reading continues.
_Raw = Iterator[tuple[int, list[Any] | ValueError | None]]


def _tsv(
    path: Any, form: TableFormat, columns: Sequence[Column | None], *, lines: Lines
) -> _Raw:
    numbers: list[int | None] = column_lib.numbers(columns)
    width = None
    for number, line in lines:
        cells = line.split("\t")
        if number == 1 and form.header:
            numbers = column_lib.header_numbers(path, cells, columns)
            width = Width(len(cells), _HEADER, _NO_TABS)
        elif not line.strip():
            yield number, None
        else:
            width = width or Width(len(cells), _FIRST, _NO_TABS)
            yield number, column_lib.pick(cells, numbers, width)


def _csv(
    path: Any, form: TableFormat, columns: Sequence[Column | None], *, lines: Lines
) -> _Raw:
    csv.field_size_limit(LONGEST_ROW)
    numbers: list[int | None] = column_lib.numbers(columns)
    # On standard input each line is answered before the next one arrives.
    source, width = CsvLines(lines, spans=path != STANDARD_INPUT), None
    reader = csv.reader(source, strict=True)
    while True:
        source.begin_row()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            goes_on = source.retry()
            why = (
                f"{error}: not a row of CSV: put a cell with commas or quotes into"
                ' quotes, and double those inside, or pass format "tsv"'
            )
            if not goes_on:
                why += f"; more than {MOST_RETRIES} such rows: the rest is not read"
            yield source.number, ValueError(why)
            if not goes_on:
                return
            reader = csv.reader(source, strict=True)
            continue
        number = source.number
        if number == 1 and form.header:
            numbers = column_lib.header_numbers(path, cells, columns)
            width = Width(len(cells), _HEADER, _QUOTES)
        elif not "".join(cells).strip() and len(cells) < 2:
            yield number, None
        else:
            width = width or Width(len(cells), _FIRST, _QUOTES)
            yield number, column_lib.pick(cells, numbers, width)


def _jsonl(
    path: Any,
    form: TableFormat,
    columns: Sequence[Column | None],
    *,
    lines: Lines,
    may_lack: Column | None = None,
) -> _Raw:
    names = column_lib.names(path, columns)
    # On standard input each line is answered before the next one arrives.
    texts = lines if path == STANDARD_INPUT else json_lines.objects(lines)
    for number, text in texts:
        cells = json_records.cells(text, names, may_lack) if text.strip() else None
        yield number, cells


def _squad(
    path: Any,
    form: TableFormat,
    columns: Sequence[Column | None],
    *,
    lines: Lines,
    may_lack: Column | None = None,
) -> _Raw:
    """The questions of one JSON value; a file of JSON objects is read like `_jsonl`."""
    names = column_lib.names(path, columns)
    texts = dict(lines)  # by number; some cannot be read and are absent
    numbers = range(1, max(texts, default=0) + 1)
    text = "\n".join(texts.get(number, "") for number in numbers)
    try:
        found = squad_json.questions(text)
    except ValueError as error:
        yield getattr(error, "lineno", 1), ValueError(f"not a JSON file: {error}")
        return
    if found is None and text.strip():
        again = iter(texts.items())
        yield from _jsonl(path, form, columns, lines=again, may_lack=may_lack)
    if found is None:
        return
    known = squad_json.COLUMNS
    if unknown := [name for name in names if name and name not in known]:
        raise UserError(f"{path}: {column_lib.absent(unknown[0], known)}")
    for line, cells in found:
        if isinstance(cells, ValueError):
            yield line, cells
        else:
            yield line, [name and cells[name] for name in names]


def _parquet(
    path: Any, form: TableFormat, columns: Sequence[Column | None], *, lines: Lines
) -> _Raw:
    yield from parquet.cells(path, columns)


def _conll(
    path: Any, form: TableFormat, columns: Sequence[Column | None], *, lines: Lines
) -> _Raw:
    yield from conll.sentences(path, columns, lines)


FORMATS: dict[str, Callable[..., _Raw]] = {
    "tsv": _tsv,
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
    "conll": _conll,
    SQUAD: _squad,
}
