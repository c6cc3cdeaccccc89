"""A user's own task: the columns of its texts and labels, from task.json or flags.

    {"train": "train.csv", "dev": "dev.csv", "test": "test.jsonl",
     "text_a": "title", "label": "class", "labels": ["no", "yes"]}

Only "text_a" is always needed. Columns are numbers from 0 (-1 is the last one) or
names; without "labels" those of the training file are taken, sorted. A flag means the
same as its key, and takes precedence over it.
"""

from __future__ import annotations

import dataclasses
import difflib
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from bert_mgpu.checkpoints.run_folder import TrainedTask
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import encodings, files
from bert_mgpu.core.errors import UserError, short_repr
from bert_mgpu.data import tables
from bert_mgpu.tasks.files import DEFAULT_TYPE, Columns, TableColumns, TaskFiles
from bert_mgpu.tasks.task_keys import (
    COLUMNS,
    FILES,
    KEYS,
    TaskType,
    checked,
    is_elsewhere,
    known,
)

FILE = "task.json"
_SHORT_NAME = 4  # characters: shorter names are all similar
_SEPARATOR = ","  # between labels
_TEXTS = "text_a", "text_b"


def read_task_json(
    config: FinetuneConfig,
    builtin: Mapping[str, TaskFiles],
    types: Mapping[str, TaskType],
) -> TaskFiles:
    """The built-in task that the run names, else the one of task.json and the flags.

    Raises UserError for what is missing, unknown or does not fit together.
    """
    trained = config.trained_task
    name = str(config.task_name or (trained and trained.values.get("name")))
    by_flag = {
        key: row.from_flag(getattr(config, row.flag))
        for key, row in KEYS.items()
        if getattr(config, row.flag) is not None
    }
    model_values = trained.values if trained else {}
    if model_values.get("name") != name.lower():
        model_values = {}
    if task := builtin.get(name.lower()):
        task_type = types[task.task_type]
        names = {key: by_flag.pop(key) for key in FILES if key in by_flag}
        if names and task_type.takes_files:
            task = dataclasses.replace(task, **names)
        else:
            by_flag |= names
        for key, value in by_flag.items():
            is_known = key == "type" and value == task.task_type  # as run.json has it
            if key not in task_type.keys and not is_known:
                raise UserError(
                    f"--{KEYS[key].flag}: {name} is a built-in task, whose files are"
                    " known: for your own, pass another --task_name"
                )
        own = {key: by_flag[key] for key in task_type.keys if key in by_flag}
        if model_values:
            own["type"] = task.task_type
            own = _as_trained(trained, own, task_type.keys, types=types)
        return _with_options(task, own, task_type)
    path = pathlib.Path(config.data_dir or "", FILE)
    # Even a broken link is meant as task.json.
    if config.data_dir and files.lexists(path):
        values = known(path, files.read_json(path))
    elif trained and model_values:
        path = trained.path
        values = known(path, {k: v for k, v in model_values.items() if k != "name"})
        is_labelled = config.do_train or config.do_eval
        values = _of_another_file(values, by_flag, is_labelled=is_labelled)
    elif by_flag:
        values = {}
    else:
        raise _unknown(name, builtin, trained)
    values = checked(values | by_flag, path, by_flag, types=types)
    kind = values.get("type", DEFAULT_TYPE)
    if model_values and kind == model_values.get("type", DEFAULT_TYPE):
        values = _as_trained(trained, values, types[kind].model_keys, types=types)
    task_type = types[kind]
    return _with_options(_task(name.lower(), values), values, task_type)


def _of_another_file(
    values: dict[str, Any], by_flag: Mapping[str, Any], *, is_labelled: bool
) -> dict[str, Any]:
    """The values of run.json, without those that flags for another file contradict.

    A column that is given by name needs a header. A file of which all texts are given
    by number, where the training's had names, has none, and the other columns that have
    names are not read; is_labelled: but for the label, which then needs the header.
    """
    left = {"label"} if "target" in by_flag else set[str]()  # one column, two names
    own = [values.get(key) for key in _TEXTS]
    now = [by_flag.get(key, values.get(key)) for key in _TEXTS]
    given = [by_flag[key] for key in (*COLUMNS, "target") if key in by_flag]
    header = by_flag.get("header")
    if header is None and any(isinstance(column, str) for column in given):
        left.add("header")
    elif (
        not header
        and not is_labelled
        and any(isinstance(column, str) for column in own)
        and not any(isinstance(column, str) for column in now)
    ):
        left.add("header")
        left |= {key for key in COLUMNS if isinstance(values.get(key), str)}
    return {key: value for key, value in values.items() if key not in left}


def _as_trained(
    trained: TrainedTask | None,
    values: dict[str, Any],
    keys: Collection[str],
    *,
    types: Mapping[str, TaskType],
) -> dict[str, Any]:
    """The values, with missing ones of `keys` taken from the trained model."""
    if trained is None:
        return values
    own = {k: v for k, v in trained.values.items() if k in keys and k not in values}
    if not own:
        return values
    # The values have been checked, but run.json may hold anything.
    return checked({**values, **own}, trained.path, {}, types=types)


def _with_options(
    task: TaskFiles, values: Mapping[str, Any], task_type: TaskType
) -> TaskFiles:
    """The files of a task, with the values of the keys that only its type has."""
    options = {key: values[key] for key in task_type.keys if key in values}
    if task.built_in and not options:
        return task
    columns = task_type.columns(task.columns, options)
    return dataclasses.replace(task, columns=columns, options=options)


def values_of(task: TaskFiles) -> dict[str, Any]:
    """The content of a task.json for these files, with "name" and without labels.

    A built-in task needs only its name and its type's own keys. Of files outside
    data_dir only the names are kept.
    """
    values: dict[str, Any] = {"name": task.name, **task.options}
    if task.built_in or task.columns.table is None:
        return values
    form, columns = task.columns.table
    for key in FILES:
        if name := task.file_of(key):
            values[key] = pathlib.PurePath(name).name if is_elsewhere(name) else name
    cells = {key: getattr(task.columns, key) for key in COLUMNS}
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
    """A remark if there is a task.json although the task's name is a built-in one."""
    path = pathlib.Path(data_dir or "", FILE)
    if data_dir is None or task_name.lower() not in builtin or not path.is_file():
        return None
    return (
        f"{path} is not read: {task_name} is a built-in task: for your own, pass"
        " another --task_name"
    )


def _task(name: str, values: Mapping[str, Any]) -> TaskFiles:
    columns = {key: values[key] for key in COLUMNS if key in values}
    named = any(isinstance(column, str) for column in columns.values())
    form = tables.TableFormat(
        values.get("format"),
        values.get("header", named),
        values.get("encoding", encodings.UTF_8),
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
            group=cells.get("group"),
            table=TableColumns(form, tuple(columns.values())),
        ),
        task_type=values.get("type", DEFAULT_TYPE),
        separator=values.get("label_separator", _SEPARATOR),
    )
