"""Finds and reads the files of a classification task."""

from __future__ import annotations

import math
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bert_mgpu.data import tables
from bert_mgpu.data.readers import (
    check_file,
    read_lines,
    sample_rows,
)
from bert_mgpu.errors import UserError
from bert_mgpu.run_config import FinetuneConfig
from bert_mgpu.task import Example
from bert_mgpu.tasks.builtin import MULTI, REGRESSION, Columns, TaskFiles

SPLITS = ("train", "dev", "test")
_MAX_LABELS_SHOWN = 20
_PREDICTED = "test:"
_LARGEST = 3.4e38  # of float32
_NAME = re.compile(r"[\w-]{1,40}")


class Source(NamedTuple):
    """A file to read, the split whose columns it has, a remark for the log."""

    path: pathlib.Path
    split: str
    note: str | None = None
    labelled: bool = True  # its labels are read


def predicted(run: FinetuneConfig) -> dict[str, str | None]:
    """The sets to predict, and their files: None is the task's own.

    --predict_file names a file, or several, separated by commas. Raises UserError where
    two of them have the same name.
    """
    said = run.predict_file
    if said is None or os.path.exists(said) or "," not in said:
        return {"test": said}
    paths = said.split(",")
    found = {f"{_PREDICTED}{pathlib.Path(path).name}": path for path in paths}
    if len(found) < len(paths):
        raise UserError(
            f"--predict_file={said}: two files of the same name: what is predicted of"
            " each goes to a folder of its name"
        )
    return {**found}


def source(task: TaskFiles, run: FinetuneConfig, split: str) -> Source:
    """Finds the file of a set: a split, or one of --eval_files or --predict_file.

    Raises:
      UserError: there is no such file; names the nearest ones.
    """
    others = named_files(run.eval_files)
    if split in others:
        check_file(others[split])
        return Source(others[split], "dev")
    files = predicted(run)
    path = files.get(split)
    if path is not None:
        check_file(path)
        columns = predict_file_split(task, path)
        return Source(pathlib.Path(path), columns, labelled=False)
    found = split_path(task, str(run.data_dir), split)
    return found._replace(labelled=split not in files)


def split_path(task: TaskFiles, data_dir: str | os.PathLike[str], split: str) -> Source:
    """Finds the file of a split: "train", "dev" or "test".

    Test is dev where the task has no test file, or has one that is absent.

    Raises:
      UserError: there is no such file; names the nearest ones.
    """
    directory, asked = pathlib.Path(data_dir), split
    name = {"train": task.train, "dev": task.dev, "test": task.test}[split]
    note = None
    built_in = task.columns.table is None
    if split == "test" and built_in and name and not (directory / name).exists():
        note = f"{directory / name} is absent: {task.dev} is read instead"
        name = None
    if name is None and split == "test":
        split, name = "dev", task.dev
    if name is None:
        raise UserError(
            f"the task {task.name} has no {asked} file: pass --{asked}_file, or"
            f' "{asked}" in task.json'
        )
    check_file(directory / name)
    return Source(directory / name, split, note)


def predict_file_split(task: TaskFiles, path: str | os.PathLike[str]) -> str:
    """The split whose columns a `--predict_file` has: "test" or "dev".

    They differ in cola alone, whose test files have no label column and a
    header: a file whose first line reaches dev's text column is read as dev.
    """
    if task.test is None:
        return "dev"
    dev, test = task.columns_of("dev"), task.columns_of("test")
    if dev == test:
        return "test"
    _, first_line = next(read_lines(path), (0, ""))
    width = len(dev.cells(first_line))
    return "dev" if width >= dev.count(with_label=False) else "test"


def named_files(said: str | None) -> dict[str, pathlib.Path]:
    """--eval_files as NAME -> FILE. Raises UserError where it says no such thing."""
    found: dict[str, pathlib.Path] = {}
    for part in said.split(",") if said else ():
        name, separator, path = part.partition("=")
        if not (separator and path and _NAME.fullmatch(name)):
            raise UserError(
                f"--eval_files: {part[:80]!r}: write NAME=FILE, separated by commas;"
                " a name is letters, digits, - and _"
            )
        if name in SPLITS or name in found:
            raise UserError(f"--eval_files: the name {name!r} is taken: pass another")
        found[name] = pathlib.Path(path)
    return found


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
      seed, random_numbers: of that sample, see `readers.sample_rows`.
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
