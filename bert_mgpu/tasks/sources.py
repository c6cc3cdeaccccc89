"""Finds the files of a task's sets."""

from __future__ import annotations

import os
import pathlib
import re
from typing import NamedTuple

from bert_mgpu.core.errors import UserError
from bert_mgpu.core.files import STANDARD_INPUT
from bert_mgpu.core.text_files import check_file, read_lines
from bert_mgpu.tasks.files import Columns, TaskFiles
from bert_mgpu.tasks.predict_format import find_format

SPLITS = ("train", "dev", "test")
_PREDICTED = "test:"  # prefix of the name of a set from --predict_file
_NAME = re.compile(r"[\w-]{1,40}")


class Source(NamedTuple):
    """A file to read, its columns and split, and a remark for the log."""

    path: pathlib.Path
    split: str
    columns: Columns
    note: str | None = None
    labelled: bool = True  # whether its labels are read
    share: float | None = None  # of the training file: see dev_share.py

    @property
    def has_header(self) -> bool:
        if self.columns.table is None:
            return self.columns.header
        form = self.columns.table.form
        return form.header and form.format_of(self.path) in ("tsv", "csv")


def predicted(predict_file: str | None) -> dict[str, str | None]:
    """The sets to predict and their files; None is the task's own file.

    predict_file: the value of the flag: a file, or several, separated by commas. Raises
    UserError if two have the same name, or one of several is empty or standard input.
    """
    if predict_file is None or os.path.exists(predict_file) or "," not in predict_file:
        return {"test": predict_file}
    paths = predict_file.split(",")
    if {"", STANDARD_INPUT} & {*paths}:
        raise UserError(
            f"--predict_file={predict_file}: an empty name, or standard input (-) among"
            " files: pass names alone, or - alone"
        )
    sets = {f"{_PREDICTED}{pathlib.Path(path).name}": path for path in paths}
    if len(sets) < len(paths):
        raise UserError(
            f"--predict_file={predict_file}: two files have the same name: the"
            " predictions of each go to a folder named after it: rename one"
        )
    return {**sets}


def source(
    task: TaskFiles,
    split: str,
    *,
    data_dir: str | os.PathLike[str] | None,
    eval_files: str | None,
    predict_file: str | None,
    predict_format: str | None = None,
    encoding: str | None = None,
    dev_share: float | None = None,
) -> Source:
    """Finds the file of a set: a split, or one of --eval_files or --predict_file.

    Raises:
      UserError: there is no such file; the message names the closest ones.
    """
    others = named_files(eval_files)
    if split in others:
        check_file(others[split])
        return Source(others[split], "dev", task.columns_of("dev"))
    files = predicted(predict_file)
    path = files.get(split)
    if path is not None:
        check_file(path)
        kind = predict_file_split(task, path)
        columns = task.columns_of(kind)
        found = find_format(
            task,
            path,
            columns,
            asked=predict_format,
            encoding=encoding,
            data_dir=data_dir,
        )
        own = Source(pathlib.Path(path), kind, found.columns)
        return own._replace(note=found.note, labelled=False)
    if dev_share and task.dev:
        raise UserError(
            f"--dev_share={dev_share:g}: the task has a dev file: leave the flag out"
        )
    if dev_share and split in ("train", "dev"):
        return split_path(task, data_dir, "train")._replace(share=dev_share)
    own = split_path(task, data_dir, split)
    return own._replace(labelled=split not in files)


def split_path(
    task: TaskFiles, data_dir: str | os.PathLike[str] | None, split: str
) -> Source:
    """Finds the file of a split: "train", "dev" or "test".

    The dev file stands in for a test file if the task has none, or if that of a
    built-in task is absent.

    Raises:
      UserError: there is no such file; the message names the closest ones.
    """
    if data_dir is None:
        raise UserError(
            f"--data_dir is missing: pass the folder with the {split} file of the task"
            f" {task.name}"
        )
    directory, asked = pathlib.Path(data_dir), split
    name = task.file_of(split)
    note = None
    if split == "test" and task.built_in and name and not (directory / name).exists():
        note = f"{directory / name} is absent: {task.dev} is read instead"
        name = None
    if name is None and split == "test":
        split, name = "dev", task.dev
    if name is None:
        raise UserError(
            f"the task {task.name} has no {asked} file: pass --{asked}_file, or"
            f' "{asked}" in task.json' + ", or --dev_share=0.1" * (asked == "dev")
        )
    check_file(directory / name)
    return Source(directory / name, split, task.columns_of(split), note=note)


def predict_file_split(task: TaskFiles, path: str | os.PathLike[str]) -> str:
    """The split whose columns a `--predict_file` has: "test" or "dev".

    They differ only in cola, whose test files have a header and no label
    column: a file whose first line has dev's text column is read as dev.
    """
    if task.test is None:
        return "dev"
    dev, test = task.columns_of("dev"), task.columns_of("test")
    if dev == test:
        return "test"
    _, first_line = next(read_lines(path), (0, ""))
    width = len(dev.cells(first_line))
    return "dev" if width >= dev.count(with_label=False) else "test"


def named_files(eval_files: str | None) -> dict[str, pathlib.Path]:
    """Parses --eval_files as NAME -> FILE. Raises UserError if it cannot."""
    files: dict[str, pathlib.Path] = {}
    for part in eval_files.split(",") if eval_files else ():
        name, separator, path = part.partition("=")
        if not (separator and path and _NAME.fullmatch(name)):
            raise UserError(
                f"--eval_files: {part[:80]!r}: write NAME=FILE, separated by commas;"
                " a name is letters, digits, - and _"
            )
        if name in SPLITS or name in files:
            raise UserError(f"--eval_files: the name {name!r} is taken: pass another")
        files[name] = pathlib.Path(path)
    return files
