"""A user's own task: where its texts and labels stand, by task.json or by flags.

    {"train": "train.csv", "dev": "dev.csv", "test": "test.jsonl",
     "text_a": "title", "label": "class", "labels": ["no", "yes"]}

Only "text_a" is always needed. Columns are numbers from 0 (-1 is the last one) or
names; without "labels" those of the training file are taken, sorted. A flag says the
same as its key, and comes before it.
"""

from __future__ import annotations

import difflib
import pathlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import files, text_files
from bert_mgpu.core.errors import UserError, short_repr
from bert_mgpu.data import tables
from bert_mgpu.tasks.files import DEFAULT_TYPE, Columns, TableColumns, TaskFiles

FILE = "task.json"
_LONGEST_NAME = 1000  # characters of a file
_LONGEST_KEY = 100  # characters that are compared with known ones
_DIGITS = 10  # a longer number is no column's; Python refuses those of thousands


def _column(text: str) -> tables.Column:
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
    names_labels: bool = True  # may "labels" stand there?
    keys: tuple[str, ...] = ()  # that stand there for it alone
    problem_type: str | None = None  # transformers' name of it


_COLUMNS = ("text_a", "text_b", "label", "id")  # their order in a row, where given
_FILES = ("train", "dev", "test")
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
    """The built-in task of the run's name, else the one that task.json or flags say.

    Raises UserError for what is missing, unknown or does not fit together.
    """
    name, path = str(config.task_name), pathlib.Path(str(config.data_dir), FILE)
    said = {
        key: row.of_flag(getattr(config, row.flag))
        for key, row in _KEYS.items()
        if getattr(config, row.flag) is not None
    }
    if name.lower() in builtin:
        if said:
            raise UserError(
                f"--{_KEYS[next(iter(said))].flag}: {name} is a built-in task, whose"
                " files are known: for your own, pass another --task_name"
            )
        return builtin[name.lower()]
    there = files.is_there(path)  # whatever it is, it was meant
    if not said and not there:
        raise _unknown(name, builtin)
    values = _read(path) if there else {}
    return _task(
        name.lower(), str(path), _checked(values | said, path, said, known=types)
    )


def _unknown(name: str, builtin: Collection[str]) -> UserError:
    near = difflib.get_close_matches(name.lower(), builtin)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return UserError(
        f"--task_name={name} is not built in: {hint}Built in are"
        f" {', '.join(builtin)}; a task of your own needs a task.json in --data_dir"
    )


def overlooked(config: FinetuneConfig, builtin: Collection[str]) -> str | None:
    """A remark where a task.json is there but the task's name is a built-in one."""
    path = pathlib.Path(str(config.data_dir), FILE)
    if str(config.task_name).lower() not in builtin or not path.is_file():
        return None
    return (
        f"{path} is not read: {config.task_name} is a built-in task: for your own, pass"
        " another --task_name"
    )


def _task(name: str, path: str, values: Mapping[str, Any]) -> TaskFiles:
    columns = {key: values[key] for key in _COLUMNS if key in values}
    named = any(isinstance(column, str) for column in columns.values())
    form = tables.TableFormat(
        values.get("format"),
        values.get("header", named),
        values.get("encoding", text_files.UTF_8),
    )
    places = {key: place for place, key in enumerate(columns)}
    return TaskFiles(
        name=name,
        labels=tuple(values.get("labels", ())),
        train=values.get("train"),
        dev=values.get("dev"),
        test=values.get("test"),
        columns=Columns(
            text_a=places["text_a"],
            text_b=places.get("text_b"),
            label=places.get("label"),
            id=places.get("id"),
            table=TableColumns(form, tuple(columns.values())),
        ),
        task_type=values.get("type", DEFAULT_TYPE),
        separator=values.get("label_separator", ","),
    )


def _read(path: pathlib.Path) -> dict[str, Any]:
    said = files.read_json(path)
    values = {key: value for key, value in said.items() if value is not None}
    for key in values:
        if key not in _KEYS:
            near = difflib.get_close_matches(key[:_LONGEST_KEY], _KEYS)
            meant = f": did you mean {near[0]!r}?" if near else ""
            raise UserError(
                f"{path}: unknown key {short_repr(key)}{meant} (known:"
                f" {', '.join(_KEYS)})"
            )
    for key in _FILES:
        name = pathlib.PurePath(values[key]) if _is(values, key, str) else None
        long = name and len(str(name)) > _LONGEST_NAME
        if name and (long or name.is_absolute() or ".." in name.parts):
            raise UserError(
                f"{path}: {key!r} is {short_repr(str(name))}: name a file inside"
                f" data_dir, or pass it as --{_KEYS[key].flag}"
            )
    return values


def _is(values: Mapping[str, Any], key: str, kind: type) -> bool:
    return isinstance(values.get(key), kind)


def _checked(
    values: dict[str, Any],
    path: pathlib.Path,
    said: Mapping[str, Any],
    *,
    known: Mapping[str, TaskType],
) -> dict[str, Any]:
    """said: what flags say, which an error then names."""
    value: Any

    def place(key: str) -> str:
        return f"--{_KEYS[key].flag}" if key in said else f"{path}: {key!r}"

    for key, value in values.items():
        types = _KEYS[key].types
        wrong_bool = isinstance(value, bool) and bool not in types  # it is an int, too
        if wrong_bool or not isinstance(value, types):
            names = " or ".join(one.__name__ for one in types)
            raise UserError(
                f"{place(key)} is {short_repr(value)}, it must be of type {names}"
            )
        choices = known if key == "type" else _KEYS[key].choices
        if choices is not None and str(value).lower() not in choices:
            raise UserError(
                f"{place(key)} is {short_repr(value)}: pass one of {', '.join(choices)}"
            )
        if isinstance(value, int) and value < -1:
            raise UserError(
                f"{place(key)} is {short_repr(value)}: columns count from 0, -1 is the"
                " last"
            )
        if value == "":
            raise UserError(f"{place(key)} is empty")
    for key in values:
        if key == "type" or _KEYS[key].choices is not None:
            values[key] = values[key].lower()
    if "text_a" not in values:
        raise UserError(f"{path}: 'text_a' is missing: give it, or --text_a_column")
    named = [key for key in _COLUMNS if _is(values, key, str)]
    if named and values.get("header") is False:
        raise UserError(
            f"{place(named[0])} is {values[named[0]]!r}: without a header columns have"
            " numbers, from 0"
        )
    labels, kind = values.get("labels", []), values.get("type", DEFAULT_TYPE)
    if not all(isinstance(label, str) and label for label in labels):
        raise UserError(f"{place('labels')} must be a list of strings, not empty")
    if len(labels) == 1:
        raise UserError(f"{place('labels')} has one label: give two or more")
    if any("\n" in label or "\r" in label for label in labels):
        raise UserError(f"{place('labels')}: a label has a line's end in it")
    if len(set(labels)) < len(labels):
        raise UserError(f"{place('labels')} names a label twice")
    if labels and not known[kind].names_labels:
        raise UserError(f"{place('labels')}: the labels of type {kind!r} are numbers")
    for key in values:
        owners = [name for name, one in known.items() if key in one.keys]
        if owners and kind not in owners:
            names = " or ".join(map(repr, owners))
            raise UserError(f"{place(key)} is of the type {names} alone")
    return values
