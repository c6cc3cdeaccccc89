"""The type "qa", questions whose answers are spans of a context; its built-in tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from bert_mgpu.core.errors import UserError
from bert_mgpu.data import squad_json, tables
from bert_mgpu.tasks.files import Columns, TableColumns, TaskFiles

TYPE = "qa"
NEGATIVE = "version_2_with_negative"
KEYS = (NEGATIVE,)
_NAMES = dict(zip(("text_a", "text_b", "label", "id"), squad_json.COLUMNS, strict=True))
_FORMATS = (squad_json.FORMAT, "jsonl", "parquet")  # that can hold answers


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the format and the columns that task.json leaves out to its values."""
    form = values.get("format", squad_json.FORMAT)
    if form not in _FORMATS:
        raise UserError(
            f"format {form!r}: its cells hold no answers: pass {', '.join(_FORMATS)}"
        )
    return {**_NAMES, **values, "format": form}


def columns(given: Columns, options: Mapping[str, Any]) -> Columns:
    """The columns of a task's files, whose answers may be lists or objects."""
    return dataclasses.replace(given, nested=True)


def _builtin(name: str, pattern: str, *parts: str, **options: Any) -> TaskFiles:
    """pattern, parts: make the names of the files for train, dev and test."""
    form = tables.TableFormat(squad_json.FORMAT)
    table = TableColumns(form, squad_json.COLUMNS)
    names = [pattern.format(part) for part in parts]
    return TaskFiles(
        name,
        labels=(),
        train=names[0],
        dev=names[1],
        test=names[2] if names[2:] else None,
        columns=Columns(text_a=0, text_b=1, label=2, id=3, nested=True, table=table),
        task_type=TYPE,
        options=options,
        built_in=True,
    )


_TASKS = (
    _builtin("squad", "{}-v1.1.json", "train", "dev"),
    _builtin("squad2", "{}-v2.0.json", "train", "dev", **{NEGATIVE: True}),
    _builtin("cmrc2018", "cmrc2018_{}.json", "train", "dev", "trial"),
    _builtin("drcd", "DRCD_{}.json", "training", "dev", "test"),
)
BUILTIN = {task.name: task for task in _TASKS}
