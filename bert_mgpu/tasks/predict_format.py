"""The format of a file to predict: rows as the task's own, bare texts, or JSON objects.

--predict_format names it; otherwise the name of the file does. The first line decides
where that may be either: a file `.txt`, and standard input.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
from typing import NamedTuple

from bert_mgpu.core import text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.files import STANDARD_INPUT
from bert_mgpu.core.text_files import Lines, read_lines
from bert_mgpu.data import tables
from bert_mgpu.tasks.files import Columns, TableColumns, TaskFiles

TEXT, JSON_LINES = "text", "jsonl"
_KEYS = ("text_a", "text_b", "id")
_RECORDS = (JSON_LINES, "parquet")
_DELIMITERS = {"tsv": "\t", "csv": ","}


class PredictFormat(NamedTuple):
    """The columns of a file to predict, and its lines where the first was read."""

    columns: Columns
    note: str | None = None  # for the log
    lines: Lines | None = None


def find_format(
    task: TaskFiles,
    path: str,
    columns: Columns,
    *,
    asked: str | None,
    faults: text_files.Faults | None = None,
) -> PredictFormat:
    """The format of a file to predict.

    columns: of the task's own files of this kind; asked: --predict_format; faults: of
    lines that are read, see `read_lines`. Raises UserError where the task cannot have
    this format.
    """
    streams = path == STANDARD_INPUT
    if asked is not None:
        return PredictFormat(with_format(task, columns, asked))
    if not streams and _suffix(path) != ".txt":
        return PredictFormat(columns)
    if streams and columns.table:
        columns = _of_stream(task, columns, columns.table)
    lines = read_lines(path, encoding_of(columns), faults)
    first = next(lines, None)
    if first is None:
        return PredictFormat(columns)
    kind = _kind(columns, first[1])
    note = None
    if kind is not None:
        columns = with_format(task, columns, kind)
        what = {TEXT: "one text per line", JSON_LINES: "a JSON object per line"}[kind]
        name = "standard input" if streams else path
        note = f"{name}: {what} (--predict_format={kind})"
    return PredictFormat(columns, note, itertools.chain([first], lines))


def encoding_of(columns: Columns) -> str:
    return columns.table.form.encoding if columns.table else columns.encoding


def with_format(task: TaskFiles, columns: Columns, kind: str) -> Columns:
    """The columns of a file of this format. Raises UserError: the task has none."""
    if kind == TEXT:
        return _of_texts(columns)
    if kind in _RECORDS:
        return _of_records(columns, kind)
    if columns.table is not None:
        form = columns.table.form._replace(format=kind)
        return dataclasses.replace(columns, table=columns.table._replace(form=form))
    if kind == "tsv":
        return columns
    raise UserError(
        f"--predict_format={kind}: {task.name} is a built-in task, whose rows are"
        f" separated by tabs: pass tsv, {TEXT} or {JSON_LINES}"
    )


def _of_texts(columns: Columns) -> Columns:
    pair = columns.text_b is not None
    return dataclasses.replace(
        _without_others(columns),
        text_b=1 if pair else None,
        cells=_two_texts if pair else _one_text,
        encoding=encoding_of(columns),
    )


def _of_records(columns: Columns, kind: str) -> Columns:
    """Those of files that name their columns: by number they are text_a, text_b."""
    own = columns.table.columns if columns.table else ()
    names: dict[str, str] = {}
    for key in _KEYS:
        number = getattr(columns, key)
        name = own[number] if own and number is not None else None
        if isinstance(name, str):
            names[key] = name
        elif number is not None and key != "id":
            names[key] = key
    form = tables.TableFormat(kind, encoding=encoding_of(columns))
    return dataclasses.replace(
        _without_others(columns),
        **{key: index for index, key in enumerate(names)},  # type: ignore[arg-type]
        table=TableColumns(form, tuple(names.values())),
    )


def _without_others(columns: Columns) -> Columns:
    """One column, of the text. How texts are cleaned stays."""
    first = Columns(text_a=0, clean=columns.clean, pair=columns.pair)
    return dataclasses.replace(first, encoding=columns.encoding)


def _suffix(path: str | os.PathLike[str]) -> str:
    suffixes = pathlib.Path(path).suffixes
    if suffixes and suffixes[-1] in text_files.UNPACK:
        suffixes.pop()
    return suffixes[-1].lower() if suffixes else ""


def _of_stream(task: TaskFiles, columns: Columns, table: TableColumns) -> Columns:
    """The columns of standard input, which has no name: those of the task's files."""
    name = task.test or task.dev or task.train or ""
    form = table.form._replace(format=table.form.format_of(name))
    return dataclasses.replace(columns, table=table._replace(form=form))


def _kind(columns: Columns, line: str) -> str | None:
    """The format of a first line; None: a row as the task's own files have them."""
    if _is_row(columns, line):
        return None
    return JSON_LINES if _is_object(line) else TEXT


def _is_row(columns: Columns, line: str) -> bool:
    if not line.strip():
        return True
    if columns.table is None:
        try:
            return len(columns.cells(line)) >= columns.count(with_label=False)
        except ValueError:
            return False
    form, names = columns.table
    kind = form.format or "tsv"  # of a .txt
    if kind not in _DELIMITERS:
        return kind == JSON_LINES and _is_object(line)
    if _DELIMITERS[kind] in line:
        return not _is_object(line)
    if columns.text_b is not None:
        return False
    text = names[columns.text_a]
    return line.strip() == text if form.header else text in (0, -1)


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _one_text(line: str) -> list[str]:
    return [line]


def _two_texts(line: str) -> list[str]:
    """A pair, separated by the first tab."""
    return [*line.split("\t", 1), ""][:2]
