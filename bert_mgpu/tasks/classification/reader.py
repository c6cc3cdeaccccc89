"""Finds and reads the files of a classification task."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Example
from bert_mgpu.core.text_files import read_lines, sample_rows
from bert_mgpu.data import tables
from bert_mgpu.tasks.classification.builtin import MULTI, REGRESSION, Columns, TaskFiles

_MAX_LABELS_SHOWN = 20
_LARGEST = 3.4e38  # of float32


def read_examples(
    task: TaskFiles,
    path: str | os.PathLike[str],
    split: str,
    *,
    with_label: bool,
    keep: int | None = None,
    seed: int = 0,
    random_numbers: str = "counters",
    faults: list[str] | None = None,
) -> list[Example]:
    """Reads a file in its order, with the columns of `split`.

    With labels, as training and evaluation want them, rows are left out where
    the task says so and every label is checked. Without, as prediction wants
    them, the label is never looked at and each line below the header gives one
    example, a blank line one with an empty text, so that predictions can be
    pasted beside the file; xnli's rows of other languages are left out even
    then, and a blank line there has no language. A text in the last column is
    the last column in both, so prediction files may lack the label column.

    Args:
      keep: if given, only a random sample of so many rows, in file order.
      seed, random_numbers: of that sample, see `text_files.sample_rows`.
      faults: gets what is wrong with rows, which are left out, instead of an error.

    Raises:
      UserError: with file:line, for too few columns or an unknown label; or
        there are no rows.
    """
    examples = [*stream(task, path, split, with_label=with_label, faults=faults)]
    if not examples:
        raise UserError(f"{path}: no rows for the task {task.name}")
    if keep is None:
        return examples
    kept = sample_rows(len(examples), keep, seed, random_numbers)
    return [examples[i] for i in kept]


def stream(
    task: TaskFiles,
    path: str | os.PathLike[str],
    split: str,
    *,
    with_label: bool,
    faults: list[str] | None = None,
) -> Iterator[Example]:
    """The same rows as they are read; there may be none."""
    columns = task.columns_of(split)
    if with_label and columns.label is None:
        raise UserError(
            f"{path}: {split} files of the task {task.name} have no labels to"
            f" evaluate with: pass a file with the columns of {task.dev}"
        )
    for number, cells in _rows(columns, path, with_label, faults):
        try:
            if cells is None and with_label:
                raise ValueError("blank line: delete it")
            if isinstance(cells, str):  # of a built-in task
                cells = columns.cells(cells)
            row = _parse(task, columns, cells or [], with_label)
        except ValueError as error:
            fault = f"{path}:{number}: {error}"
            if faults is None:
                raise UserError(fault) from None
            faults.append(fault)
            continue
        if row is not None:
            guid, text_a, text_b, label = row
            guid = guid or f"{split}-{number - 1}"
            yield Example(guid, text_a, text_b, label, number)


def _rows(
    columns: Columns,
    path: str | os.PathLike[str],
    with_label: bool,
    faults: list[str] | None,
) -> Iterator[tuple[int, Any]]:
    """(line, its text or its cells; None where it is blank) of the rows that count."""
    if columns.table is not None:
        form, wanted = columns.table
        asked: list[tables.Column | None] = [*wanted]
        if columns.label is not None and not with_label:
            asked[columns.label] = None
        yield from tables.rows(path, form, asked, faults)
        return
    for number, line in read_lines(path):
        if number == 1 and columns.header:
            continue
        if with_label and columns.strip_lines:
            line = line.lstrip()  # the right end goes with its column
            if not line:
                continue
        if line.strip():
            yield number, line
        elif columns.language is None:
            yield number, None


_Row = tuple[str | None, str, str | None, Any]  # guid, text_a, text_b, label


def _parse(
    task: TaskFiles, columns: Columns, cells: Sequence[Any], with_label: bool
) -> _Row | None:
    """None to leave it out.

    Raises:
      ValueError: what is wrong with the row.
    """
    if not cells:
        return None, "", None, None
    if columns.language not in (None, cells[0]):
        return None
    needed = columns.count(with_label)
    if len(cells) < needed:
        plural = "s" * (len(cells) > 1)
        raise ValueError(
            f"{len(cells)} column{plural}, the task {task.name} needs column"
            f" {needed - 1} (counted from 0, separated by tabs)"
        )
    label = None
    if with_label:
        label = _label(task, columns, cells)
        if label is None:
            return None
    guid = None if columns.id is None else _one(cells[columns.id])
    text_a = _one(cells[columns.text_a])
    if columns.pair is not None:
        return guid, *columns.pair(text_a), label
    text_b = None if columns.text_b is None else _one(cells[columns.text_b])
    clean = columns.clean
    return guid, clean(text_a), None if text_b is None else clean(text_b), label


def _one(cell: Any) -> str:
    if isinstance(cell, list):
        raise ValueError(f"a list, {str(cell)[:40]}, where one value is needed")
    return cell


def _label(task: TaskFiles, columns: Columns, cells: Sequence[Any]) -> Any:
    assert columns.label is not None
    cell = cells[columns.label]
    if task.kind == MULTI:
        names = cell if isinstance(cell, list) else cell.split(task.separator)
        stripped = dict.fromkeys(filter(None, map(str.strip, names)))
        return tuple(_known(task, columns, name) for name in stripped)
    if task.kind == REGRESSION:
        return number(_one(cell))
    return _known(task, columns, _one(cell))


def number(cell: str) -> float:
    """A regression's label. Raises ValueError for what is no finite number."""
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not abs(value) <= _LARGEST:
        raise ValueError(f"label {cell[:40]!r} is not a number")
    return value


def _known(task: TaskFiles, columns: Columns, cell: str) -> str | None:
    cell = columns.clean_label(cell)
    label = columns.relabel.get(cell, cell)
    if label is not None and ("\n" in label or "\r" in label):
        raise ValueError(f"label {label[:40]!r} has a line's end in it")
    if label is None or label in task.labels or not task.labels:
        return label
    known = list(dict.fromkeys([*columns.relabel, *task.labels]))
    if len(known) > _MAX_LABELS_SHOWN:
        known = [*known[:3], "...", known[-1]]
    raise ValueError(f"label {cell[:40]!r} is not one of {', '.join(known)}")
