"""The label of a row, read from its column: one label, several, or a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bert_mgpu.checkpoints import run_folder
from bert_mgpu.tasks.classification.builtin import MULTI, REGRESSION
from bert_mgpu.tasks.files import Columns, TaskFiles
from bert_mgpu.tasks.reader import one_value

_MAX_LABELS_SHOWN = 20
_LARGEST = 3.4e38  # of float32


def read_label(task: TaskFiles, columns: Columns, cells: Sequence[Any]) -> Any:
    """The label of a row (a `tasks.reader.LabelReader`), of any of the three types."""
    assert columns.label is not None
    cell = cells[columns.label]
    if task.task_type == MULTI:
        names = cell if isinstance(cell, list) else cell.split(task.separator)
        stripped = dict.fromkeys(filter(None, map(str.strip, names)))
        return tuple(_known(task, columns, name) for name in stripped)
    if task.task_type == REGRESSION:
        return number(one_value(cell))
    return _known(task, columns, one_value(cell))


def number(cell: str) -> float:
    """The label of a regression. Raises ValueError if it is not a finite number."""
    try:
        value = math.nan if "_" in cell else float(cell)  # Python reads 1_5 as 15
    except ValueError:
        value = math.nan
    if not abs(value) <= _LARGEST:
        raise ValueError(f"label {cell[:40]!r} is not a number")
    return value


def _known(task: TaskFiles, columns: Columns, cell: str) -> str | None:
    cell = columns.clean_label(cell)
    label = columns.relabel.get(cell, cell)
    if label is not None and (fault := run_folder.fault_of_label(label)):
        raise ValueError(f"label {label[:40]!r} {fault}")
    if label is None or label in task.known_labels or not task.labels:
        return label
    known = list(dict.fromkeys([*columns.relabel, *task.labels]))
    if len(known) > _MAX_LABELS_SHOWN:
        known = [*known[:3], "...", known[-1]]
    raise ValueError(f"label {cell[:40]!r} is not one of {', '.join(known)}")
