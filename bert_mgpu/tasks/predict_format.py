"""The format of a file to predict: rows as the task's own, bare texts, or JSON objects.

--predict_format names it; otherwise the name of the file does. Where the name leaves it
open, as for `.txt` and standard input, the first line that is not blank, or the first
JSON object, decides. Where a task's own files hold words with their tags, the first
lines decide for all files whose names do not say something else.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
from typing import Any, NamedTuple

from bert_mgpu.core import encodings, text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.files import STANDARD_INPUT
from bert_mgpu.core.text_files import Lines, read_lines
from bert_mgpu.data import tables
from bert_mgpu.tasks import csv_rows, first_lines
from bert_mgpu.tasks.files import Columns, TableColumns, TaskFiles
from bert_mgpu.tasks.first_lines import CONLL, JSON_LINES, TEXT
from bert_mgpu.tasks.task_keys import COLUMNS

_BESIDE = ("id", "group")  # columns besides the texts
_KEYS = ("text_a", "text_b", *_BESIDE)
_RECORDS = (JSON_LINES, "parquet")
_LOOKED_AT = 50  # first lines, which show whether a file has tagged words or texts


class PredictFormat(NamedTuple):
    """The columns of a file to predict, and its lines if some have been read."""

    columns: Columns
    note: str | None = None  # for the log
    lines: Lines | None = None


def find_format(
    task: TaskFiles,
    path: str,
    columns: Columns,
    *,
    asked: str | None,
    encoding: str | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    faults: text_files.Faults | None = None,
) -> PredictFormat:
    """Finds the format of a file to predict.

    columns: those of the task's own files of this kind, which are in data_dir, where
    that is known; asked, encoding: the values of --predict_format and --encoding;
    faults: gets the lines that cannot be read, see `read_lines`.
    Raises UserError if the task cannot have this format.
    """
    streams = path == STANDARD_INPUT
    if streams:  # rows are answered one by one
        columns = _ungrouped(columns)
    if asked is None and not streams:
        asked = _other_records(columns, path)
    if encoding is None:  # new texts may have another source than those of training
        columns = _or_utf_8(columns)
    if asked not in (None, JSON_LINES):
        columns = with_format(task, columns, str(asked))
        return PredictFormat(columns) if streams else _with_known_id(columns, path)
    if asked is None and not streams and _is_named(columns, path):
        return _with_known_id(columns, path)
    lines = read_lines(path, encoding_of(columns), faults)
    read = [*_beginning(lines, 1 if streams else _LOOKED_AT)]
    texts = [text for _, text in read if text.strip()]
    # The object that a line of a stream begins may never end.
    line = None if streams else first_lines.first_object(read, lines)
    line = line or (texts[0] if texts else "")
    lines = itertools.chain(read, lines)
    if asked is not None:
        return PredictFormat(_record_columns(columns, asked, line), lines=lines)
    columns = _with_own_format(task, columns, path, line=line)
    kind, encoding = None, encoding_of(columns)
    if not first_lines.are_words(task, columns, texts):
        most = csv_rows.width_of(task, columns, data_dir, encoding=encoding)
        kind = first_lines.kind_of(columns, line, most)
    what = "rows as the task's own files have them (otherwise pass --predict_format)"
    if kind == TEXT:
        columns, what = _text_columns(columns), "one text per line"
    elif kind == JSON_LINES:
        columns, what = _record_columns(columns, kind, line), "a JSON object per line"
    name = "standard input" if streams else path
    note = f"{name}: {what}" + (f" (--predict_format={kind})" if kind else "")
    return PredictFormat(columns, note if line else None, lines)


def _ungrouped(columns: Columns) -> Columns:
    """The columns without the group column, which is the last one."""
    if columns.group is None or columns.table is None:
        return columns
    table = columns.table._replace(columns=columns.table.columns[: columns.group])
    return dataclasses.replace(columns, group=None, table=table)


def _with_known_id(columns: Columns, path: str) -> PredictFormat:
    """Without the id column if the file lacks it, since ids are only repeated.

    Of JSON objects each may lack it.
    """
    table = columns.table
    if columns.id is None or table is None or _is_squad(columns):
        return PredictFormat(columns)
    name = table.columns[columns.id]
    known = first_lines.column_names(path, table.form)
    if not isinstance(name, str) or known is None or name in known:
        return PredictFormat(columns)
    if table.form.format_of(path) == JSON_LINES:
        return PredictFormat(
            columns, f"{path}: rows without {name!r} are named by line"
        )
    cells = {key: getattr(columns, key) for key in COLUMNS if key != "id"}
    own = {key: cell for key, cell in cells.items() if cell is not None}
    names = tuple(table.columns[cell] for cell in own.values())
    numbers: dict[str, Any] = {key: number for number, key in enumerate(own)}
    table = table._replace(columns=names)
    without = dataclasses.replace(columns, **numbers, id=None, table=table)
    return PredictFormat(without, f"{path}: no column {name!r}: rows have no id")


def _beginning(lines: Lines, most: int) -> Lines:
    """The first lines, up to `most` of them that are not blank."""
    for number, line in lines:
        yield number, line
        most -= bool(line.strip())
        if not most:
            return


def _has_words(columns: Columns) -> bool:
    """Whether the task's own files have one word with its tag per line."""
    return columns.table is not None and columns.table.form.format == CONLL


def _is_named(columns: Columns, path: str) -> bool:
    """Whether the name of a file says that its format is that of the task's own."""
    suffix = _suffix(path)
    if _has_words(columns):
        return suffix == f".{CONLL}"
    # The names of a built-in task's files do not tell the format: the content does.
    of_any_format = (".txt", ".json", ".jsonl") if columns.table is None else (".txt",)
    return suffix not in of_any_format


def encoding_of(columns: Columns) -> str:
    return columns.table.form.encoding if columns.table else columns.encoding


def _or_utf_8(columns: Columns) -> Columns:
    encoding = encodings.or_utf_8(encoding_of(columns))
    if columns.table is None:
        return dataclasses.replace(columns, encoding=encoding)
    form = columns.table.form._replace(encoding=encoding)
    return dataclasses.replace(columns, table=columns.table._replace(form=form))


def _other_records(columns: Columns, path: str) -> str | None:
    """The record format that a file's name tells, where the task's own files differ."""
    kind = tables.TableFormat().format_of(path)
    if kind not in _RECORDS or (_is_squad(columns) and _suffix(path) == ".json"):
        return None
    if columns.table is None:
        return kind if kind == "parquet" else None
    form, names = columns.table
    if form.format is None and all(isinstance(name, str) for name in names):
        return None  # the file's name tells the format, and columns have names
    return kind if form.format != kind else None


def _is_squad(columns: Columns) -> bool:
    return columns.table is not None and columns.table.form.format == tables.SQUAD


def with_format(task: TaskFiles, columns: Columns, kind: str) -> Columns:
    """The columns of a file of this format. Raises UserError if it does not fit."""
    if kind == TEXT:
        return _text_columns(columns)
    if kind in _RECORDS:
        return _record_columns(columns, kind)
    if columns.table is not None and kind == CONLL != columns.table.form.format:
        raise UserError(
            f"--predict_format={kind}: the files of {task.name} do not have one"
            " word per line"
        )
    if columns.table is not None:
        form, names = columns.table
        named = kind in ("tsv", "csv") and any(isinstance(n, str) for n in names)
        form = form._replace(format=kind, header=form.header or named)
        return dataclasses.replace(columns, table=columns.table._replace(form=form))
    if kind == "tsv":
        return columns
    raise UserError(
        f"--predict_format={kind}: {task.name} is a built-in task, whose rows are"
        f" separated by tabs: pass tsv, {TEXT} or {JSON_LINES}"
    )


def _text_columns(columns: Columns) -> Columns:
    pair = columns.text_b is not None
    return dataclasses.replace(
        _without_others(columns),
        text_b=1 if pair else None,
        cells=_two_texts if pair else _one_text,
        encoding=encoding_of(columns),
    )


def _record_columns(columns: Columns, kind: str, first: str = "") -> Columns:
    """The columns of a file with named columns; numbered ones are text_a, text_b there.

    first: a line of the file. If its object has text_a but not the task's own name for
    it, the task's columns are treated as numbered ones. A single text may also be named
    `text`, and words `tokens`.
    """
    own = columns.table.columns if columns.table else ()
    names: dict[str, str] = {}
    for key in _KEYS:
        number = getattr(columns, key)
        name = own[number] if own and number is not None else None
        if isinstance(name, str):
            names[key] = name
        elif number is not None and key not in _BESIDE:
            names[key] = key
    record = first_lines.object_on(first) or {}
    if names["text_a"] not in record and "text_a" in record:
        names = {
            key: name if key in _BESIDE else key
            for key, name in names.items()
            if key != "group" or name in record
        }
    if names["text_a"] not in record and "text_b" not in names:
        others = ("text", "tokens")[: 1 + columns.nested]
        names["text_a"] = next(filter(record.__contains__, others), names["text_a"])
    form = tables.TableFormat(kind, encoding=encoding_of(columns))
    return dataclasses.replace(
        _without_others(columns),
        **{key: index for index, key in enumerate(names)},  # type: ignore[arg-type]
        table=TableColumns(form, tuple(names.values())),
    )


def _without_others(columns: Columns) -> Columns:
    """A single column, for the text. Texts are still cleaned, but not words."""
    first = Columns(text_a=0, pair=columns.pair, nested=columns.nested)
    if not columns.nested:
        first = dataclasses.replace(first, clean=columns.clean)
    return dataclasses.replace(first, encoding=columns.encoding)


def _suffix(path: str | os.PathLike[str]) -> str:
    suffixes = pathlib.Path(path).suffixes
    if suffixes and suffixes[-1] in text_files.UNPACK:
        suffixes.pop()
    return suffixes[-1].lower() if suffixes else ""


def _with_own_format(
    task: TaskFiles, columns: Columns, path: str, *, line: str
) -> Columns:
    """The columns of a file whose name does not tell its format: that of the task's.

    line: its first one. Where this is a header with tabs, the file is TSV.
    """
    table, name = columns.table, task.test or task.dev or task.train or ""
    if table is None:
        return columns
    own, cells = table.form.format_of(name), line.split("\t")
    keys = (key for key in (columns.text_a, columns.text_b) if key is not None)
    is_header = len(cells) > 1 and {table.columns[key] for key in keys} <= {*cells}
    is_empty_table = own == "parquet" and not line
    if own == table.form.format_of(path) or is_header or is_empty_table:
        return columns
    form = table.form._replace(format=own)
    return dataclasses.replace(columns, table=table._replace(form=form))


def _one_text(line: str) -> list[str]:
    return [line]


def _two_texts(line: str) -> list[str]:
    """A pair, separated by the first tab. Raises ValueError where there is no tab."""
    if "\t" not in line:
        raise ValueError(
            f"{line[:40]!r} is one text, the task has pairs: pass two texts separated"
            " by a tab"
        )
    return line.split("\t", 1)
