"""Tells whether a line to predict is a row of CSV, like those of the task's files."""

from __future__ import annotations

import csv
import os
import pathlib

from bert_mgpu.core.errors import UserError
from bert_mgpu.core.text_files import read_lines
from bert_mgpu.tasks.files import LAST, Columns, TaskFiles


def is_row(columns: Columns, line: str, most: int) -> bool:
    """Whether a line is a row with the task's columns, not just a text with commas.

    most: the number of cells in a row of the task's own files; 0: not known.
    """
    assert columns.table is not None
    names, cells = columns.table.columns, _cells(line)
    texts = {names[key] for key in (columns.text_a, columns.text_b) if key is not None}
    if named := {name for name in texts if isinstance(name, str)}:
        return named <= {*cells}
    needed = texts if columns.id is None else {*texts, names[columns.id]}
    numbers = [number for number in needed if isinstance(number, int)]
    least = max(numbers) + 1 + (LAST in numbers)
    if len(cells) == 1:  # as CSV, texts on later lines would be cut at a comma
        return least == 1 and line.startswith('"')
    too_many = least <= most < len(cells)
    return least <= len(cells) and not too_many


def _cells(line: str) -> list[str]:
    """The cells of a line; a line that is not valid CSV is split at every comma."""
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error:
        return line.split(",")


def width_of(
    task: TaskFiles,
    columns: Columns,
    data_dir: str | os.PathLike[str] | None,
    *,
    encoding: str,
) -> int:
    """The number of cells in a row of the task's own CSV file; 0 if it cannot be read.

    A file to predict may have fewer, since it needs no labels, but not more.
    """
    path = pathlib.Path(data_dir or "", task.test or task.dev or task.train or "")
    is_csv = columns.table is not None and columns.table.form.format == "csv"
    if not is_csv or data_dir is None or not path.is_file():
        return 0
    lines = (f"{line}\n" for _, line in read_lines(path, encoding))
    try:
        return len(next(csv.reader(lines, strict=True), ()))
    except (csv.Error, UserError):
        return 0
