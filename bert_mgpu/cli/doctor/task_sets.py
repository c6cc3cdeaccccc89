"""The sets of a task as the doctor reads them: with all faults of their rows."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks import reader, sources
from bert_mgpu.tasks.base import Family
from bert_mgpu.tasks.files import Columns, TaskFiles


class ReadSet(NamedTuple):
    """The rows of a file, and the faults of those that cannot be read."""

    split: str
    path: pathlib.Path
    examples: list[Example]
    faults: list[str]
    labelled: bool
    columns: Columns


def is_read(config: FinetuneConfig, task: TaskFiles, split: str) -> bool:
    """Whether a set is read: if a flag names it, or the task's own file exists."""
    if split not in sources.SPLITS or (split == "test" and config.predict_file):
        return True
    if getattr(config, f"{split}_file"):
        return True
    name = task.file_of(split)
    return bool(name) and pathlib.Path(str(config.data_dir), str(name)).exists()


def read(
    config: FinetuneConfig, task: TaskFiles, family: Family, *, split: str
) -> ReadSet:
    """The set of a split. Raises UserError for a file that is missing or empty.

    Labels of a file to predict are read where predictions show them, if there are any.
    """
    source = sources.source(
        task,
        split,
        data_dir=str(config.data_dir),
        eval_files=config.eval_files,
        predict_file=config.predict_file,
        predict_format=config.predict_format,
        encoding=config.encoding,
    )
    has_labels = source.columns.label is not None
    if has_labels and family.shows_labels and not source.labelled:
        found = _read(source, task, family, labelled=True)
        if found.examples:
            return found._replace(split=split)
    labelled = has_labels and source.labelled
    found = _read(source, task, family, labelled=labelled)
    if not (found.examples or found.faults):
        raise UserError(f"{source.path}: no rows for the task {task.name}")
    return found._replace(split=split)


def _read(
    source: sources.Source, task: TaskFiles, family: Family, *, labelled: bool
) -> ReadSet:
    faults: list[str] = []

    def take(line: int, fault: str) -> None:
        faults.append(fault)

    examples = []
    for example in reader.stream(
        task,
        source.path,
        source.split,
        columns=source.columns,
        label=family.read_label,
        with_label=labelled,
        faults=take,
    ):
        if example.label == "":
            faults.append(f"{source.path}:{example.line}: the label is empty")
        else:
            examples.append(example)
    if labelled:
        examples = family.complete(task, source.path, examples, faults=take)
    return ReadSet(
        source.split,
        source.path,
        examples,
        faults=faults,
        labelled=labelled,
        columns=source.columns,
    )
