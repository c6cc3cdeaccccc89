"""The format of a file to predict by its first lines, where its name does not tell."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import Any

from bert_mgpu.core.errors import UserError
from bert_mgpu.core.text_files import Lines, read_lines
from bert_mgpu.data import conll, json_lines
from bert_mgpu.data.tables import TableFormat
from bert_mgpu.tasks import csv_rows
from bert_mgpu.tasks.files import LAST, Columns, TaskFiles

TEXT, JSON_LINES, CONLL = "text", "jsonl", "conll"
_OUR_NAMES = "text_a", "text"  # of the text in a JSON object
_OUTSIDE = "O"  # among a model's tags


def first_object(read: list[tuple[int, str]], lines: Lines) -> str | None:
    """The text of the first JSON object; None if the lines do not begin with one.

    read: the lines read so far; further ones, taken from lines, are appended to it.
    """

    def taken() -> Lines:
        yield from [*read]
        for line in lines:
            read.append(line)
            yield line

    found = (text for _, text in json_lines.objects(taken()) if text.strip())
    first = next(found, "")
    return None if object_on(first) is None else first


def are_words(task: TaskFiles, columns: Columns, texts: Sequence[str]) -> bool:
    """Whether the first lines of a file hold one word each, with a known tag."""
    if columns.table is None or columns.table.form.format != CONLL:
        return False
    types = {tag[2:] if _OUTSIDE in task.labels else tag for tag in task.labels}
    label = None if columns.label is None else columns.table.columns[columns.label]
    return conll.are_rows(texts, types, label if isinstance(label, int) else LAST)


def kind_of(columns: Columns, line: str, most: int) -> str | None:
    """The format of a first line; None for a row like those of the task's own files.

    most: the number of cells in a row of those files; 0: not known.
    """
    if line.strip() in ("{", "["):  # of a faulty stream: no texts and no other rows
        form = columns.table.form if columns.table else None
        return None if form and form.format == JSON_LINES else JSON_LINES
    if _is_row(columns, line, most):
        return None
    return TEXT if object_on(line) is None else JSON_LINES


def _is_row(columns: Columns, line: str, most: int) -> bool:
    if not line.strip():
        return True
    if columns.table is None:
        try:
            cells = columns.cells(line)
        except ValueError:
            return False
        if cells == [line] and object_on(line) is not None:
            return False
        return len(cells) >= columns.count(with_label=False)
    form, names = columns.table
    kind = form.format or "tsv"  # the default, as for .txt
    if kind == CONLL:
        return False
    if kind == "csv":
        return object_on(line) is None and csv_rows.is_row(columns, line, most)
    if kind == JSON_LINES:
        record = object_on(line)
        if record is None:
            return False
        return names[columns.text_a] in record or record.keys().isdisjoint(_OUR_NAMES)
    if kind != "tsv" or object_on(line) is not None:
        return False
    if "\t" in line:
        return True
    if columns.text_b is not None:
        return False
    text = names[columns.text_a]
    return line.strip() == text if form.header else text in (0, LAST)


def column_names(path: str, form: TableFormat) -> list[str] | None:
    """The names of a file's columns, those of its first row; None: it cannot tell."""
    kind = form.format_of(path)
    if kind == "parquet":
        return _parquet_names(path)
    if kind != JSON_LINES and not (kind in ("tsv", "csv") and form.header):
        return None
    try:
        lines = read_lines(path, form.encoding)
        if kind == JSON_LINES:
            lines = json_lines.objects(lines)
        line = next((text for _, text in lines if text.strip()), "")
    except UserError:
        return None  # whoever reads all rows tells why
    if kind == JSON_LINES:
        record = object_on(line)
        return None if record is None else [*record]
    return line.split("\t") if kind == "tsv" else next(csv.reader([line]), None)


def _parquet_names(path: str) -> list[str] | None:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        return None  # as above
    try:
        return list(parquet.read_schema(path).names)
    except (OSError, ArrowException):
        return None


def object_on(line: str) -> dict[str, Any] | None:
    """The JSON object on a line; None if there is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
