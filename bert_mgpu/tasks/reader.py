"""Reads the examples in the files of a task."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import say
from bert_mgpu.core.rows import Example
from bert_mgpu.core.text_files import (
    Faults,
    Lines,
    RowFaults,
    read_lines,
    report_faults,
)
from bert_mgpu.data import tables
from bert_mgpu.data.columns import Column
from bert_mgpu.tasks import row_names
from bert_mgpu.tasks.files import Columns, TaskFiles
from bert_mgpu.text import words

# (task, columns, cells of a row) -> its label, or None to skip the row. Raises
# ValueError if the cell holds no valid label.
LabelReader = Callable[[TaskFiles, Columns, Sequence[Any]], Any]
# `Family.complete` with its `files` bound.
Completion = Callable[..., list[Example]]
_MOST_SHOWN, _MOST_FAULTS = 20, 1000  # of a file; reading stops after the latter


def read_examples(
    task: TaskFiles,
    path: str | os.PathLike[str],
    split: str,
    *,
    label: LabelReader,
    with_label: bool,
    columns: Columns | None = None,
    faults: Faults | None = None,
    complete: Completion | None = None,
) -> list[Example]:
    """Reads a file in its order, with the columns of `split` unless others are given.

    With labels, as training and evaluation need them, rows are skipped where the task
    says so, and every label is checked. Without labels, as for prediction, the label
    is never read and each line below the header gives one example, a blank line one
    with an empty text, so that predictions can be pasted beside the file. Only xnli's
    rows in other languages are left out even then, and its blank lines, which have no
    language. A text in the last column is counted from the end, so prediction files
    may lack the label column.

    Args:
      label: reads the label of a row; complete: finishes a file, see `Family.complete`.
      faults: gets each fault of a row, which is skipped, instead of an error.

    Raises:
      UserError: with file:line, for the first row with too few columns or an unknown
        label, after later ones are logged; or there are no rows.
    """
    found: list[str] = []

    def collect(line: int, fault: str) -> None:
        found.append(fault)
        if len(found) > _MOST_FAULTS:
            _refuse(found)

    take = faults or collect
    read = stream(
        task,
        path,
        split,
        label=label,
        with_label=with_label,
        columns=columns,
        faults=take,
    )
    examples = row_names.named([*read], split if with_label else None)
    if complete is not None:
        examples = complete(path, examples, faults=take)
    if found:
        _refuse(found)
    if not examples:
        raise UserError(f"{path}: no rows for the task {task.name}")
    return examples


def labelled(
    examples: list[Example], read: Callable[..., list[Example]]
) -> list[Example]:
    """The examples with the labels of their file. read: `read_examples` of the file."""
    first: dict[str, str] = {}
    try:
        found = read(with_label=True, faults=lambda _, own: first.setdefault("is", own))
    except UserError:  # there are none, or none that can be read
        found = []
    known = {one.line: one.label for one in found}
    if known and first:
        say(f"no labels beside predictions, as some rows have none: {first['is']}")
    return [dataclasses.replace(one, label=known.get(one.line)) for one in examples]


def _refuse(faults: Sequence[str]) -> NoReturn:
    """Logs the next faults, then raises UserError for the first one."""
    first, *others = faults
    for fault in others[: _MOST_SHOWN - 1]:
        say(fault)
    if len(faults) > _MOST_SHOWN:
        say(f"and {len(faults) - _MOST_SHOWN} more")
    are_more = len(faults) > _MOST_FAULTS
    count = f"more than {_MOST_FAULTS}" if are_more else f"{len(faults)}"
    more = f" (the first of {count} faults, see above)" if others else ""
    raise UserError(f"{first}{more}")


def stream(
    task: TaskFiles,
    path: str | os.PathLike[str],
    split: str,
    *,
    label: LabelReader,
    with_label: bool,
    columns: Columns | None = None,
    lines: Lines | None = None,
    faults: Faults | None = None,
) -> Iterator[Example]:
    """Yields what `read_examples` returns, as it is read; there may be no rows.

    A row that has no id has the guid "": see `row_names`. lines: see `tables.rows`.
    """
    columns = columns or task.columns_of(split)
    if with_label and columns.label is None:
        raise UserError(
            f"{path}: {split} files of the task {task.name} have no labels to"
            f" evaluate with: pass a file with the columns of {task.dev}"
        )
    for number, cells in _rows(columns, path, with_label, lines=lines, faults=faults):
        try:
            if cells is None and with_label:
                raise ValueError("blank line: delete it")
            if isinstance(cells, str):  # of a built-in task
                cells = columns.cells(cells)
            row = _parse(
                task, columns, cells or [], label=label if with_label else None
            )
        except ValueError as error:
            on_lines = columns.table and columns.table.form.word_lines(path)
            report_faults(path, number, error, faults=faults, word_lines=bool(on_lines))
            continue
        if row is not None:
            yield Example(
                "" if row.guid is None else row.guid,
                row.text_a,
                row.text_b,
                label=row.label,
                line=number,
                words=row.words,
                group=row.group,
            )


def _rows(
    columns: Columns,
    path: str | os.PathLike[str],
    with_label: bool,
    *,
    lines: Lines | None,
    faults: Faults | None,
) -> Iterator[tuple[int, Any]]:
    """Yields (line number, text or cells of the line, None if blank) of each row."""
    if columns.table is not None:
        form, names = columns.table
        wanted: list[Column | None] = [*names]
        if columns.label is not None and not with_label:
            wanted[columns.label] = None
        yield from tables.rows(
            path,
            form,
            wanted,
            id_at=columns.id,
            id_may_lack=not with_label,  # ids are only repeated
            nested_at=columns.label if columns.nested else None,
            lines=lines,
            faults=faults,
        )
        return
    for number, line in lines or read_lines(path, columns.encoding, faults):
        if number == 1 and columns.header:
            continue
        if with_label and columns.strip_lines:
            line = line.lstrip()  # the right end is cleaned with its column
            if not line:
                continue
        if line.strip():
            yield number, line
        elif columns.language is None:
            yield number, None


class RowFields(NamedTuple):
    """The fields of an `Example` that a row gives; see there."""

    guid: str | int | None
    text_a: str
    text_b: str | None = None
    label: Any = None
    words: Sequence[tuple[int, int]] | None = None
    group: str | None = None


def _parse(
    task: TaskFiles,
    columns: Columns,
    cells: Sequence[Any],
    *,
    label: LabelReader | None,
) -> RowFields | None:
    """The fields of an example, or None to skip the row.

    Raises:
      ValueError: the row is faulty.
    """
    if not cells:
        return RowFields(None, "")
    if columns.language not in (None, cells[0]):
        return None
    if len(cells) < (needed := columns.count(label is not None)):
        plural = "s" * (len(cells) > 1)
        raise ValueError(
            f"{len(cells)} column{plural}, but the task {task.name} needs column"
            f" {needed - 1} (counted from 0, separated by tabs)"
        )
    row_label = None
    if label is not None:
        row_label = label(task, columns, cells)
        if row_label is None:
            return None
    guid = None if columns.id is None else one_value(cells[columns.id])
    text_a, second = cells[columns.text_a], columns.text_b
    if columns.nested and second is None and isinstance(text_a, list):
        text, places = words.joined(_cleaned(columns, text_a))
        return RowFields(guid, text, label=row_label, words=places)
    text_b = None if second is None else columns.one_text(cells, second)
    texts = clean(columns, columns.one_text(cells, columns.text_a), text_b)
    group = None if columns.group is None else one_value(cells[columns.group])
    return RowFields(guid, *texts, label=row_label, group=group or None)


def _cleaned(columns: Columns, given: Sequence[str]) -> list[str]:
    """The cleaned words of a row. Raises RowFaults for those that are not words."""
    cleaned, faults = list[str](), list[tuple[int, str]]()
    for index, word in enumerate(given):
        try:
            cleaned.append(columns.clean(word))
            if (empty := not word.strip(" \t")) or not {*word}.isdisjoint("\n\r"):
                raise ValueError(
                    f"the word {'is empty' if empty else 'has a line break'}"
                )
        except ValueError as error:
            faults.append((index, str(error)))
    if faults:
        raise RowFaults(faults)
    return cleaned


def clean(
    columns: Columns, text_a: str, text_b: str | None = None
) -> tuple[str, str | None]:
    """The texts of an example, cleaned like those of the task's own files."""
    if columns.pair is not None:
        return columns.pair(text_a)
    if columns.nested:  # there only words are cleaned
        return text_a, text_b
    return columns.clean(text_a), None if text_b is None else columns.clean(text_b)


def one_value(cell: Any) -> str:
    """The cell as a text. Raises ValueError for a list."""
    if isinstance(cell, list):
        raise ValueError(f"a list, {str(cell)[:40]}, where one value is needed")
    return cell
