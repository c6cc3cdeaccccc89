"""The labels of a run in the order of its classes."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from bert_mgpu.checkpoints import train_state
from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.core.errors import UserError, listed
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks import reader, sources, task_json
from bert_mgpu.tasks.classification import problem_types
from bert_mgpu.tasks.classification.reader import read_label
from bert_mgpu.tasks.files import TaskFiles


def find_labels(
    files: TaskFiles,
    model: Pretrained,
    output_dir: pathlib.Path,
    *,
    data_dir: str | None,
    trains: bool,
    evaluates: bool,
) -> list[str]:
    """The labels in the order of the classes. Raises UserError on a conflict.

    They are the task's list, else those of a trained model that is continued or
    used, else those of the training file, sorted.
    """
    if files.columns.label is None and (trains or evaluates):
        raise UserError(
            f"{pathlib.Path(data_dir or '', task_json.FILE)}: 'label' is missing:"
            " training and evaluation"
            " need the column of the label"
        )
    if not problem_types.PROBLEM_TYPES[files.task_type].has_labels:
        return []
    trained = model.labels
    continued = bool(train_state.saved_steps(output_dir)) or not trains
    labels = list(files.labels)
    if not labels:
        if trained is not None and continued:
            return trained
        labels = _labels_of_training_file(files, data_dir)
        if trained is not None and set(trained) == set(labels):
            return trained
    if trained is None or trained == labels:
        return labels
    # A run that starts from a model of other labels gets a new head. The same labels in
    # another order are more likely a mistake.
    if continued or set(trained) == set(labels):
        raise UserError(
            f"the task {files.name} has the labels {listed(labels)}, the trained model"
            f" {listed(trained)}: pass the task and data of that model, or its labels"
            " in the same order"
        )
    return labels


def labels_of(files: TaskFiles, sets: Sequence[Sequence[Example]]) -> list[str]:
    """The task's list of labels, else the labels that occur, sorted."""
    if files.labels or not problem_types.PROBLEM_TYPES[files.task_type].has_labels:
        return [*files.labels]
    occurring: set[str] = set()
    for examples in sets:
        for example in examples:
            label = example.label
            occurring.update(label if isinstance(label, tuple) else [str(label)])
    return sorted(occurring)


def _labels_of_training_file(files: TaskFiles, data_dir: str | None) -> list[str]:
    source = sources.split_path(files, data_dir, "train")
    examples = reader.read_examples(
        files, source.path, source.split, label=read_label, with_label=True
    )
    for example in examples:
        if example.label == "":
            raise UserError(f"{source.path}:{example.line}: the label is empty")
    labels = labels_of(files, [examples])
    if len(labels) < 2:
        if files.task_type == problem_types.MULTI.name:
            raise UserError(
                f"{source.path}: {len(labels)} label in all rows: nothing to learn:"
                " check the column of the label, and --label_separator"
            )
        raise UserError(
            f"{source.path}: every row has the label {labels[0]!r}: nothing to learn:"
            " check the column of the label in task.json"
        )
    return labels
