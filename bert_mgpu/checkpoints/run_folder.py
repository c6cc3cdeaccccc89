"""The folder of a trained model: its labels, and the settings and task in run.json."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from bert_mgpu.config.base import FlagTable, fields
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.config.pretraining import PretrainConfig
from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import UserError, short_repr
from bert_mgpu.core.text_files import read_lines

_FIELDS = {
    field.name: field
    for table in (PretrainConfig, FinetuneConfig)
    for field in fields(table)
}
# Flags that a later run of a trained model need not pass again.
REMEMBERED = tuple(name for name in _FIELDS if _FIELDS[name].metadata["remembered"])
_WITH_TASK = tuple(name for name in _FIELDS if _FIELDS[name].metadata["kept_with_task"])

TASK = "task"  # a key of run.json
PRODUCER = {"producer": "bert_mgpu"}  # in the run.json of an export


class TrainedTask(NamedTuple):
    """The task of a trained model, as run.json stores it: see tasks/task_json.py."""

    path: pathlib.Path  # of run.json
    values: dict[str, Any]  # not checked
    flags: dict[str, Any]  # of its task family in training, for predictions

    @property
    def kept(self) -> dict[str, Any]:
        """The task as run.json stores it, flags included."""
        return self.values | ({"flags": self.flags} if self.flags else {})


def no_model(path: str | os.PathLike[str]) -> UserError:
    """The error for a folder without run.json where a trained model is expected."""
    return UserError(
        f"{path}: no trained model, since it has no {run_files.RUN}: pass an output_dir"
        " of a training, its best/, or an export"
    )


def folder_of(path: str) -> pathlib.Path:
    """The folder of a checkpoint; `path` may be the folder itself."""
    return pathlib.Path(path) if os.path.isdir(path) else pathlib.Path(path).parent


def fault_of_label(label: str) -> str:
    """What keeps a label from being a line that `read_labels` reads; "" if nothing."""
    if "\n" in label or "\r" in label:
        return "contains a line break"
    if "\0" in label:
        return "contains a NUL character"
    return "begins with a byte order mark" if label.startswith("\ufeff") else ""


def read_labels(path: pathlib.Path) -> list[str]:
    """The lines of label_list.txt. Raises UserError where they cannot be labels."""
    labels = [label for _, label in read_lines(path)]
    if "" in labels or len(set(labels)) < max(2, len(labels)):
        raise UserError(
            f"{path}: damaged: it has fewer than two labels, an empty one or one twice:"
            " restore it"
        )
    return labels


def read_settings(path: pathlib.Path) -> dict[str, Any]:
    """The flags in run.json that are needed to use the model; empty if there are none.

    Raises UserError where it is damaged.
    """
    if not files.lexists(path):
        return {}
    try:
        flags = files.read_json(path).get("flags")
        if not isinstance(flags, dict):
            return {}
        kept = {n: flags[n] for n in (*REMEMBERED, "do_lower_case") if n in flags}
        for name, value in kept.items():
            if not _can_be(name, value):
                raise UserError(f"{path}: {name} is {short_repr(value)}")
        return kept
    except UserError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise UserError(
            f"{path}: damaged ({reason}): restore it, or delete it and pass"
            " --do_lower_case and --max_seq_length as in training"
        ) from None


def read_task(path: pathlib.Path) -> TrainedTask | None:
    """The task in run.json; None if there is none, as in files of earlier versions.

    Raises UserError where it is damaged.
    """
    values = files.read_json(path).get(TASK) if files.lexists(path) else None
    if values is None:
        return None
    named = isinstance(values, dict) and isinstance(values.get("name"), str)
    flags = values.pop("flags", {}) if named else None
    if not isinstance(flags, dict) or not all(
        name in _WITH_TASK and _can_be(name, value) and _is_inline(name, value)
        for name, value in flags.items()
    ):
        raise UserError(
            f"{path}: damaged ({TASK!r} is {short_repr(values)}): restore it"
        )
    return TrainedTask(path, values, flags)


def remembered(config: FlagTable) -> dict[str, Any]:
    """The flags that a later run of the model need not pass again."""
    values = {name: getattr(config, name, None) for name in REMEMBERED}
    return {name: v for name, v in values.items() if _says_something(name, v)}


def as_flag(name: str, value: Any) -> str:
    """A setting as a log shows it."""
    return f"no --{name}" if value is None else f"--{name}={value}"


def facts(
    flags: Mapping[str, Any], task: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The run.json of an exported model: what is needed to use it, and its producer.

    task: see `TrainedTask.kept`.
    """
    return {**PRODUCER, "flags": {**flags}, **({TASK: {**task}} if task else {})}


def model_settings(path: pathlib.Path) -> dict[str, Any]:
    """The settings in run.json that are not None, with the type of the model's task.

    The type may be set in task.json alone; then it is not among the flags.
    """
    read = read_settings(path)
    settings = {name: v for name, v in read.items() if _says_something(name, v)}
    if settings:
        identity = files.read_json(path).get("identity")
        task_type = identity.get("task_type") if isinstance(identity, dict) else None
        settings |= {"task_type": task_type} if task_type else {}
    return {name: settings[name] for name in REMEMBERED if name in settings}


def _says_something(name: str, value: Any) -> bool:
    """Whether a later run needs the value: None is what it has, but for doc_stride.

    run_squad_mgpu.py has a number where other scripts have None.
    """
    return value is not None or name == "doc_stride"


def _is_inline(name: str, value: Any) -> bool:
    """Whether a flag's value is complete in itself, and not the name of a file.

    A string that is neither JSON nor one of the flag's choices is a file's name.
    """
    if _FIELDS[name].metadata["choices"]:
        return True
    try:
        return not isinstance(json.loads(value), str)
    except (TypeError, ValueError, RecursionError):
        return not isinstance(value, str)


def _can_be(name: str, value: Any) -> bool:
    """Whether the flag of this name, of either script, may have this value."""
    field = _FIELDS[name]
    if value is None:
        return field.default is None
    type_name = str(field.type).removesuffix(" | None")
    also = "int" if type_name == "float" else type_name
    if type(value).__name__ not in (type_name, also):
        return False
    choices, minimum, maximum = (
        field.metadata[key] for key in ("choices", "minimum", "maximum")
    )
    return (
        (not choices or value in choices)
        and (minimum is None or value >= minimum)
        and (maximum is None or value <= maximum)
    )
