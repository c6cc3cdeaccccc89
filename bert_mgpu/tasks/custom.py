"""A user's own task: `task.json` in data_dir says where texts and labels stand.

    {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv",
     "header": false, "label": 0, "text_a": 1, "labels": ["no", "yes"]}

Files are tab-separated; columns count from 0, -1 is the last one. Only "train",
"dev" and "text_a" are needed; without "labels" those of the training file are
taken, sorted.
"""

from __future__ import annotations

import difflib
import pathlib
from typing import Any

from bert_mgpu import files
from bert_mgpu.errors import UserError
from bert_mgpu.tasks.builtin import BUILTIN, Columns, TaskFiles, lookup

FILE = "task.json"
_KEYS: dict[str, type] = {
    "train": str,
    "dev": str,
    "test": str,
    "header": bool,
    "text_a": int,
    "text_b": int,
    "label": int,
    "labels": list,
}
_NEEDED = ("train", "dev", "text_a")


def find(task_name: str, data_dir: str) -> TaskFiles:
    """The built-in task of this name, else the one that task.json describes."""
    path = pathlib.Path(data_dir) / FILE
    if task_name.lower() in BUILTIN or not path.is_file():
        return lookup(task_name)
    values = _read(path)
    columns = Columns(
        text_a=values["text_a"],
        text_b=values.get("text_b"),
        label=values.get("label"),
        header=values.get("header", False),
    )
    return TaskFiles(
        name=task_name.lower(),
        labels=tuple(values.get("labels", ())),
        train=values["train"],
        dev=values["dev"],
        test=values.get("test"),
        columns=columns,
    )


def overlooked(task_name: str, data_dir: str) -> str | None:
    """A remark where a task.json is there but the task's name is a built-in one."""
    path = pathlib.Path(data_dir) / FILE
    if task_name.lower() not in BUILTIN or not path.is_file():
        return None
    return (
        f"{path} is not read: {task_name} is a built-in task: for your own, pass"
        " another --task_name"
    )


def _read(path: pathlib.Path) -> dict[str, Any]:
    values = files.read_json(path)
    for key, value in values.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS)
            meant = f": did you mean {near[0]!r}?" if near else ""
            raise UserError(
                f"{path}: unknown key {key!r}{meant} (known: {', '.join(_KEYS)})"
            )
        kind = _KEYS[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise UserError(
                f"{path}: {key!r} is {value!r}, it must be of type {kind.__name__}"
            )
        if isinstance(value, int) and value < -1:
            raise UserError(
                f"{path}: {key!r} is {value}: columns count from 0, -1 is the last"
            )
    for key in _NEEDED:
        if key not in values:
            raise UserError(f"{path}: {key!r} is missing")
    for key in ("train", "dev", "test"):
        name = pathlib.PurePath(values.get(key, "."))
        if name.is_absolute() or ".." in name.parts:
            raise UserError(
                f"{path}: {key!r} is {str(name)!r}: name a file inside data_dir"
            )
    labels = values.get("labels", [])
    if not all(isinstance(label, str) and label for label in labels):
        raise UserError(f"{path}: 'labels' must be a list of strings, not empty")
    if len(set(labels)) < len(labels):
        raise UserError(f"{path}: 'labels' names a label twice")
    return values
