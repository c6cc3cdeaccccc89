"""The keys of task.json: their flags, what they may hold, and the types of tasks."""

from __future__ import annotations

import difflib
import pathlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from bert_mgpu.checkpoints import run_folder
from bert_mgpu.config import tagging
from bert_mgpu.config.base import FlagTable
from bert_mgpu.core import encodings
from bert_mgpu.core.errors import UserError, short_repr
from bert_mgpu.data import columns, tables
from bert_mgpu.tasks.files import DEFAULT_TYPE, Columns

_LONGEST_NAME = 1000  # characters of a file's name
_LONGEST_KEY = 100  # characters that are compared with those of known keys


def _listed(text: str) -> list[str]:
    return text.split(",")


class Key(NamedTuple):
    """A key of task.json."""

    flag: str
    types: tuple[type, ...]
    from_flag: Callable[[Any], Any] = lambda value: value
    choices: Collection[str] | None = None
    is_text: bool = False  # must not be only whitespace


class TaskType(NamedTuple):
    """A type of task that task.json may name."""

    module: str  # whose FAMILY handles this type
    flags: type[FlagTable] = FlagTable  # only types with this table have these flags
    names_labels: bool = True  # task.json may have "labels"
    fewest_labels: int = 2  # of "labels"
    keys: tuple[str, ...] = ()  # those of task.json that only such types have
    own_columns: tuple[str, ...] = ()  # likewise, of COLUMNS
    model_keys: tuple[str, ...] = ()  # keys whose values belong to a model, not a file
    takes_files: bool = False  # flags may name other files than a built-in task's
    # Adds defaults to the values of task.json.
    with_defaults: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    # The columns of its files, from those given and its own keys. Raises UserError.
    columns: Callable[[Columns, Mapping[str, Any]], Columns] = lambda given, _: given
    huggingface_problem_type: str | None = None  # "problem_type" of its config.json


COLUMNS = ("text_a", "text_b", "label", "id", "group")  # in the order of a row's cells
FILES = ("train", "dev", "test")
# Names that other programs use for these keys.
_MEANT = {
    **dict.fromkeys(("text", "sentence", "sentence1", "content", "input"), "text_a"),
    **dict.fromkeys(("sentence2", "text2", "text_pair"), "text_b"),
    **dict.fromkeys(("label_column", "class", "target", "y"), "label"),
    **dict.fromkeys(("group_id", "qid", "query_id"), "group"),
    **dict.fromkeys(("validation", "valid", "val", "eval"), "dev"),
}
KEYS = {
    **{name: Key(f"{name}_file", (str,)) for name in FILES},
    **{name: Key(f"{name}_column", (int, str), columns.parsed) for name in COLUMNS},
    "format": Key("file_format", (str,), choices=tables.FORMATS),
    "header": Key("header", (bool,)),
    "encoding": Key("encoding", (str,), choices=encodings.ENCODINGS),
    "labels": Key("labels", (list,), _listed),
    "type": Key("task_type", (str,)),
    "label_separator": Key("label_separator", (str,)),
    "scheme": Key("file_scheme", (str,), choices=tagging.FILE_SCHEMES),
    "token_pattern": Key("token_pattern", (str,)),
    "repair_bio": Key("repair_bio", (str,), choices=tagging.REPAIRS),
    "version_2_with_negative": Key("version_2_with_negative", (bool,)),
    "target": Key("target_column", (int, str), columns.parsed),
    "slot_marker": Key("slot_marker", (str,), is_text=True),
    "units": Key("tag_units", (str,), choices=tagging.UNITS),
}


def is_elsewhere(name: str) -> bool:
    """Whether a file lies outside the folder to which its name is relative."""
    path = pathlib.PurePath(name)
    return path.is_absolute() or ".." in path.parts


def known(path: pathlib.Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """The given values. Raises UserError for unknown keys or files outside data_dir."""
    values = {key: value for key, value in content.items() if value is not None}
    for key in values:
        if key not in KEYS:
            near = difflib.get_close_matches(key[:_LONGEST_KEY], KEYS)
            near = [_MEANT[key]] if key in _MEANT else near
            meant = f": did you mean {near[0]!r}?" if near else ""
            raise UserError(
                f"{path}: unknown key {short_repr(key)}{meant} (known:"
                f" {', '.join(KEYS)})"
            )
    for key in FILES:
        name = values[key] if _is(values, key, str) else ""
        if len(name) > _LONGEST_NAME or is_elsewhere(name):
            raise UserError(
                f"{path}: {key!r} is {short_repr(name)}: name a file inside"
                f" data_dir, or pass it as --{KEYS[key].flag}"
            )
    return values


def _is(values: Mapping[str, Any], key: str, type_: type) -> bool:
    return isinstance(values.get(key), type_)


def checked(
    values: dict[str, Any],
    path: pathlib.Path,
    by_flag: Mapping[str, Any],
    *,
    types: Mapping[str, TaskType],
) -> dict[str, Any]:
    """The values, checked and in lower case where case does not matter.

    by_flag: those that flags gave; an error about one of them names its flag.
    """
    value: Any

    def origin(key: str) -> str:
        return f"--{KEYS[key].flag}" if key in by_flag else f"{path}: {key!r}"

    for key, value in values.items():
        allowed = KEYS[key].types
        wrong_bool = isinstance(value, bool) and bool not in allowed  # a bool is an int
        if wrong_bool or not isinstance(value, allowed):
            names = " or ".join(each.__name__ for each in allowed)
            raise UserError(
                f"{origin(key)} is {short_repr(value)}, but must be of type {names}"
            )
        choices = types if key == "type" else KEYS[key].choices
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
        if value == "" or (KEYS[key].is_text and not str(value).strip()):
            raise UserError(f"{origin(key)} is {'blank' if value else 'empty'}")
    for key in values:
        if key == "type" or KEYS[key].choices is not None:
            values[key] = values[key].lower()
    try:
        values = types[values.get("type", DEFAULT_TYPE)].with_defaults(values)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    if "text_a" not in values:
        raise UserError(f"{path}: 'text_a' is missing: give it, or --text_a_column")
    label = values.get("label")
    if label is not None and label in (values["text_a"], values.get("text_b")):
        raise UserError(
            f"{origin('label')} is {label!r}, a column of the text: pass that of the"
            " label"
        )
    named = [key for key in COLUMNS if _is(values, key, str)]
    if named and values.get("header") is False:
        raise UserError(
            f"{origin(named[0])} is {values[named[0]]!r}: without a header columns have"
            " numbers, from 0"
        )
    labels, task_type = values.get("labels", []), values.get("type", DEFAULT_TYPE)
    if not all(isinstance(label, str) and label for label in labels):
        raise UserError(f"{origin('labels')} must be a list of strings, not empty")
    if 0 < len(labels) < types[task_type].fewest_labels:
        raise UserError(f"{origin('labels')} has one label: give two or more")
    for fault in filter(None, map(run_folder.fault_of_label, labels)):
        raise UserError(f"{origin('labels')}: a label {fault}")
    if outer := [label for label in labels if label != label.strip()]:
        raise UserError(
            f"{origin('labels')}: {outer[0]!r} has blanks around it: leave them out,"
            " here and in the files"
        )
    if len(set(labels)) < len(labels):
        raise UserError(f"{origin('labels')} names a label twice")
    if labels and not types[task_type].names_labels:
        raise UserError(
            f"{origin('labels')}: the type {task_type!r} has no names of labels: leave"
            " it out"
        )
    for key in values:
        owners = [
            name
            for name, each in types.items()
            if key in (*each.keys, *each.own_columns)
        ]
        if owners and task_type not in owners:
            names = " or ".join(map(repr, owners))
            meant = f": did you mean {_MEANT[key]!r}?" if key in _MEANT else ""
            raise UserError(f"{origin(key)} is only for the type {names}{meant}")
    return values
