"""The sets of a task as the doctor reads them: with all faults of their rows."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks import reader, row_names, sources
from bert_mgpu.tasks.base import Family
from bert_mgpu.tasks.files import Columns, TaskFiles

_MOST_FAULTS = 20  # that are shown for a file


class FoundFaults:
    """The faults of a file: their number, and the messages of those that are shown."""

    def __init__(self) -> None:
        self._first, self._last, self._count = list[str](), "", 0

    def add(self, line: int, fault: str) -> None:
        if self._count < _MOST_FAULTS:
            self._first.append(fault)
        self._last = fault
        self._count += 1

    def __len__(self) -> int:
        return self._count

    @property
    def lines(self) -> list[str]:
        """The first faults, and the last, which may say why reading has ended."""
        hidden = self._count - _MOST_FAULTS
        if hidden <= 0:
            return [*self._first]
        more = f"and {hidden} more that cannot be read, before this one:"
        return [*self._first[:-1], more, self._last]


class ReadSet(NamedTuple):
    """The rows of a file, and the faults of those that cannot be read.

    label_faults: faults in labels that predictions would only show; they end no run.
    """

    split: str
    path: pathlib.Path
    examples: list[Example]
    faults: FoundFaults
    labelled: bool
    columns: Columns
    label_faults: FoundFaults

    @property
    def problems(self) -> list[str]:
        """Lines on the faults of both kinds."""
        if not self.label_faults:
            return self.faults.lines
        return [
            *self.label_faults.lines,
            f"{self.path}: predictions have no labels beside them, as some rows have"
            " none that can be read",
        ]


def is_read(config: FinetuneConfig, task: TaskFiles, split: str) -> bool:
    """Whether a set is read: if a flag names it, or the task's own file exists."""
    if split not in sources.SPLITS or (split == "test" and config.predict_file):
        return True
    if getattr(config, f"{split}_file"):
        return True
    name = task.file_of(split)
    return bool(name) and pathlib.Path(str(config.data_dir), str(name)).exists()


def missing(config: FinetuneConfig, task: TaskFiles) -> Iterator[str]:
    """A line for each file that the user's own task names but does not have."""
    for split in sources.SPLITS:
        name = task.file_of(split)
        named = name and not (task.built_in or is_read(config, task, split))
        if named and not getattr(config, f"{split}_file", None):
            path = pathlib.Path(str(config.data_dir), str(name))
            yield f"{path}: the task names this file as {split}, but it does not exist"


def read(
    config: FinetuneConfig, task: TaskFiles, family: Family, *, split: str
) -> ReadSet:
    """The set of a split. Raises UserError for a file that is missing or empty.

    Labels of a file to predict, if it has any, are read if predictions show them. Then
    rows in which only the label is faulty can still be predicted.
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
        if found.examples and found.faults:
            texts = _read(source, task, family, labelled=False)
            if not texts.faults:
                found = texts._replace(label_faults=found.faults)
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
    faults = FoundFaults()
    examples = []
    for example in reader.stream(
        task,
        source.path,
        source.split,
        columns=source.columns,
        label=family.read_label,
        with_label=labelled,
        faults=faults.add,
    ):
        if example.label == "":
            fault = f"{source.path}:{example.line}: the label is empty"
            faults.add(example.line, fault)
        else:
            examples.append(example)
    examples = row_names.named(examples, source.split if labelled else None)
    examples = family.complete(task, source.path, examples, faults=faults.add)
    return ReadSet(
        source.split,
        source.path,
        examples,
        faults=faults,
        labelled=labelled,
        columns=source.columns,
        label_faults=FoundFaults(),
    )
