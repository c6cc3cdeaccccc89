"""A user's own task: the columns of its texts and labels, by task.json or by flags.

    {"train": "train.csv", "dev": "dev.csv", "test": "test.jsonl",
     "text_a": "title", "label": "class", "labels": ["no", "yes"]}

Only "text_a" is always needed. Columns are numbers from 0 (-1 is the last one) or
names; without "labels" those of the training file are taken, sorted. A flag says the
same as its key, and wins over it.
"""

from __future__ import annotations

import difflib
import pathlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from bert_mgpu.checkpoints.run_folder import TrainedTask
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import files, text_files
from bert_mgpu.core.errors import UserError, short_repr
from bert_mgpu.data import tables
from bert_mgpu.data.columns import Column
from bert_mgpu.tasks.files import DEFAULT_TYPE, Columns, TableColumns, TaskFiles

FILE = "task.json"
_LONGEST_NAME = 1000  # characters of a file's name
_SHORT_NAME = 4  # characters: shorter ones look alike
_LONGEST_KEY = 100  # characters that are compared with known ones
_DIGITS = 10  # a longer number is no column's; Python refuses those of thousands


def _column(text: str) -> Column:
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) < _DIGITS else text


def _listed(text: str) -> list[str]:
    return text.split(",")


class _Key(NamedTuple):
    """A key of task.json."""

    flag: str
    types: tuple[type, ...]
    of_flag: Callable[[Any], Any] = lambda value: value
    choices: Collection[str] | None = None


class TaskType(NamedTuple):
    """A type of task.json."""

    module: str  # whose FAMILY has it
    names_labels: bool = True  # task.json may have "labels"
    keys: tuple[str, ...] = ()  # of task.json that only this type has
    huggingface_problem_type: str | None = None  # as in its config.json


_COLUMNS = ("text_a", "text_b", "label", "id")  # in the order of a row's cells
_FILES = ("train", "dev", "test")
# Names that other programs have for these keys.
_MEANT = {
    **dict.fromkeys(("text", "sentence", "sentence1", "content", "input"), "text_a"),
    **dict.fromkeys(("sentence2", "text2", "text_pair"), "text_b"),
    **dict.fromkeys(("label_column", "class", "target", "y"), "label"),
    **dict.fromkeys(("validation", "valid", "val", "eval"), "dev"),
}
_SEPARATOR = ","  # between labels
_KEYS = {
    **{name: _Key(f"{name}_file", (str,)) for name in _FILES},
    **{name: _Key(f"{name}_column", (int, str), _column) for name in _COLUMNS},
    "format": _Key("file_format", (str,), choices=tables.FORMATS),
    "header": _Key("header", (bool,)),
    "encoding": _Key("encoding", (str,), choices=text_files.ENCODINGS),
    "labels": _Key("labels", (list,), _listed),
    "type": _Key("task_type", (str,)),
    "label_separator": _Key("label_separator", (str,)),
}


def read_task_json(
    config: FinetuneConfig,
    builtin: Mapping[str, TaskFiles],
    types: Mapping[str, TaskType],
) -> TaskFiles:
    """The built-in task of the run's name, else the one of task.json and the flags.

    Raises UserError for what is missing, unknown or does not fit together.
    """
    trained = config.trained_task
    name = str(config.task_name or (trained and trained.values.get("name")))
    by_flag = {
        key: row.of_flag(getattr(config, row.flag))
        for key, row in _KEYS.items()
        if getattr(config, row.flag) is not None
    }
    if name.lower() in builtin:
        if by_flag:
            raise UserError(
                f"--{_KEYS[next(iter(by_flag))].flag}: {name} is a built-in task, whose"
                " files are known: for your own, pass another --task_name"
            )
        return builtin[name.lower()]
    path = pathlib.Path(config.data_dir or "", FILE)
    # Even a broken link was meant as task.json.
    if config.data_dir and files.lexists(path):
        values = _known(path, files.read_json(path))
    elif trained and trained.values.get("name") == name.lower():
        path = trained.path
        values = _known(path, {k: v for k, v in trained.values.items() if k != "name"})
    elif by_flag:
        values = {}
    else:
        raise _unknown(name, builtin, trained)
    values = _checked(values | by_flag, path, by_flag, types=types)
    return _task(name.lower(), values)


def values_of(task: TaskFiles) -> dict[str, Any]:
    """The keys of task.json that give these files, with "name" and without labels.

    A built-in task has only its name. Of files elsewhere only the names are kept.
    """
    values: dict[str, Any] = {"name": task.name}
    if task.columns.table is None:
        return values
    form, columns = task.columns.table
    for key in _FILES:
        if name := task.file_of(key):
            values[key] = pathlib.PurePath(name).name if _is_elsewhere(name) else name
    cells = {key: getattr(task.columns, key) for key in _COLUMNS}
    values |= {key: columns[cell] for key, cell in cells.items() if cell is not None}
    values |= {"format": form.format, "header": form.header, "encoding": form.encoding}
    values |= {"type": task.task_type}
    if task.separator != _SEPARATOR:
        values["label_separator"] = task.separator
    return {key: value for key, value in values.items() if value is not None}


def _unknown(
    name: str, builtin: Collection[str], trained: TrainedTask | None
) -> UserError:
    near = difflib.get_close_matches(name.lower(), builtin)
    near = [known for known in near if len(known) >= _SHORT_NAME]  # no "ad" for "add"
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    if trained:
        hint = f"the model was trained for {short_repr(trained.values.get('name'))}. "
    return UserError(
        f"--task_name={name} is not built in: {hint}{'B' if hint else 'b'}uilt in are"
        f" {', '.join(builtin)}; a task of your own needs a task.json in --data_dir"
    )


def overlooked(
    task_name: str, data_dir: str | None, builtin: Collection[str]
) -> str | None:
    """A remark where there is a task.json but the task's name is a built-in one."""
    path = pathlib.Path(data_dir or "", FILE)
    if data_dir is None or task_name.lower() not in builtin or not path.is_file():
        return None
    return (
        f"{path} is not read: {task_name} is a built-in task: for your own, pass"
        " another --task_name"
    )


def _task(name: str, values: Mapping[str, Any]) -> TaskFiles:
    columns = {key: values[key] for key in _COLUMNS if key in values}
    named = any(isinstance(column, str) for column in columns.values())
    form = tables.TableFormat(
        values.get("format"),
        values.get("header", named),
        values.get("encoding", text_files.UTF_8),
    )
    cells = {key: number for number, key in enumerate(columns)}
    return TaskFiles(
        name=name,
        labels=tuple(values.get("labels", ())),
        train=values.get("train"),
        dev=values.get("dev"),
        test=values.get("test"),
        columns=Columns(
            text_a=cells["text_a"],
            text_b=cells.get("text_b"),
            label=cells.get("label"),
            id=cells.get("id"),
            table=TableColumns(form, tuple(columns.values())),
        ),
        task_type=values.get("type", DEFAULT_TYPE),
        separator=values.get("label_separator", _SEPARATOR),
    )


def _is_elsewhere(name: str) -> bool:
    """Whether a file lies outside of the folder to which its name is relative."""
    path = pathlib.PurePath(name)
    return path.is_absolute() or ".." in path.parts


def _known(path: pathlib.Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a task. Raises UserError for unknown keys and files elsewhere."""
    values = {key: value for key, value in content.items() if value is not None}
    for key in values:
        if key not in _KEYS:
            near = difflib.get_close_matches(key[:_LONGEST_KEY], _KEYS)
            near = [_MEANT[key]] if key in _MEANT else near
            meant = f": did you mean {near[0]!r}?" if near else ""
            raise UserError(
                f"{path}: unknown key {short_repr(key)}{meant} (known:"
                f" {', '.join(_KEYS)})"
            )
    for key in _FILES:
        name = values[key] if _is(values, key, str) else ""
        if len(name) > _LONGEST_NAME or _is_elsewhere(name):
            raise UserError(
                f"{path}: {key!r} is {short_repr(name)}: name a file inside"
                f" data_dir, or pass it as --{_KEYS[key].flag}"
            )
    return values


def _is(values: Mapping[str, Any], key: str, type_: type) -> bool:
    return isinstance(values.get(key), type_)


def _checked(
    values: dict[str, Any],
    path: pathlib.Path,
    by_flag: Mapping[str, Any],
    *,
    types: Mapping[str, TaskType],
) -> dict[str, Any]:
    """The values, checked and in lower case where case does not matter.

    by_flag: those of flags, which an error then names.
    """
    value: Any

    def origin(key: str) -> str:
        return f"--{_KEYS[key].flag}" if key in by_flag else f"{path}: {key!r}"

    for key, value in values.items():
        allowed = _KEYS[key].types
        wrong_bool = isinstance(value, bool) and bool not in allowed  # it is an int
        if wrong_bool or not isinstance(value, allowed):
            names = " or ".join(each.__name__ for each in allowed)
            raise UserError(
                f"{origin(key)} is {short_repr(value)}, but must be of type {names}"
            )
        choices = types if key == "type" else _KEYS[key].choices
        if choices is not None and str(value).lower() not in choices:
            raise UserError(
                f"{origin(key)} is {short_repr(value)}: pass one of"
                f" {', '.join(choices)}"
            )
        if isinstance(value, int) and value < -1:
            raise UserError(
                f"{origin(key)} is {short_repr(value)}: columns count from 0, -1 is the"
                " last"
            )
        if value == "":
            raise UserError(f"{origin(key)} is empty")
    for key in values:
        if key == "type" or _KEYS[key].choices is not None:
            values[key] = values[key].lower()
    if "text_a" not in values:
        raise UserError(f"{path}: 'text_a' is missing: give it, or --text_a_column")
    named = [key for key in _COLUMNS if _is(values, key, str)]
    if named and values.get("header") is False:
        raise UserError(
            f"{origin(named[0])} is {values[named[0]]!r}: without a header columns have"
            " numbers, from 0"
        )
    labels, task_type = values.get("labels", []), values.get("type", DEFAULT_TYPE)
    if not all(isinstance(label, str) and label for label in labels):
        raise UserError(f"{origin('labels')} must be a list of strings, not empty")
    if len(labels) == 1:
        raise UserError(f"{origin('labels')} has one label: give two or more")
    if any("\n" in label or "\r" in label for label in labels):
        raise UserError(f"{origin('labels')}: a label contains a line break")
    if len(set(labels)) < len(labels):
        raise UserError(f"{origin('labels')} names a label twice")
    if labels and not types[task_type].names_labels:
        raise UserError(
            f"{origin('labels')}: the labels of type {task_type!r} are numbers"
        )
    for key in values:
        owners = [name for name, each in types.items() if key in each.keys]
        if owners and task_type not in owners:
            names = " or ".join(map(repr, owners))
            raise UserError(f"{origin(key)} is only for the type {names}")
    return values
