"""The kinds of tasks: which family has which type of task.json, and built-in tasks.

The one module that knows all families. A family is loaded when it is asked for: its
model needs TensorFlow.
"""

from __future__ import annotations

import importlib

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.tasks import task_json
from bert_mgpu.tasks.base import Family
from bert_mgpu.tasks.classification import builtin
from bert_mgpu.tasks.files import TaskFiles
from bert_mgpu.tasks.task_json import TaskType

_CLASSIFICATION = "bert_mgpu.tasks.classification.family"
TYPES = {
    "single": TaskType(_CLASSIFICATION, problem_type="single_label_classification"),
    "multi": TaskType(
        _CLASSIFICATION,
        keys=("label_separator",),
        problem_type="multi_label_classification",
    ),
    "regression": TaskType(
        _CLASSIFICATION, names_labels=False, problem_type="regression"
    ),
}
BUILTIN = builtin.BUILTIN


def find_task_files(config: FinetuneConfig) -> TaskFiles:
    """The task that the flags ask for. Raises UserError: `read_task_json`."""
    return task_json.read_task_json(config, BUILTIN, TYPES)


def remarks(config: FinetuneConfig, files: TaskFiles) -> list[str]:
    """What a user may not expect of the files of a task."""
    found = [task_json.overlooked(config, BUILTIN)]
    if config.truncation != "head" and files.columns.text_b is not None:
        found.append(
            f"--truncation={config.truncation}: pairs of texts lose their ends even so"
        )
    return [*filter(None, found)]


def family_of(files: TaskFiles) -> Family:
    """What can read, train and score a task."""
    return importlib.import_module(TYPES[files.task_type].module).FAMILY
