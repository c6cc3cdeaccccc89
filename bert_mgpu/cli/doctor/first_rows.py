"""The first row of each set, as it was read: swapped columns are seen at a glance."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from bert_mgpu.cli.doctor.task_sets import ReadSet
from bert_mgpu.core import terminal
from bert_mgpu.core.rows import Example

_NAME = len("  text_a  ")  # terminal columns


def shown(sets: Sequence[ReadSet], columns: int) -> str:
    """Lines of so many terminal columns at most; texts are cut."""
    return "\n".join(
        line
        for read in sets
        for row in read.examples[:1]
        for line in (f"first row of {read.split}", *_lines(row, columns))
    )


def _lines(row: Example, columns: int) -> Iterator[str]:
    values = {"label": _label(row.label), "text_a": row.text_a, "text_b": row.text_b}
    for name, value in values.items():
        if value is not None:
            # Spaces and line ends are all one blank.
            text = terminal.fit(" ".join(value.split()), columns - _NAME).rstrip()
            yield f"  {name:8}{text}".rstrip()


def _label(label: Any) -> str | None:
    """A class, a number, or several of them; None for entities and answers."""
    if isinstance(label, str):
        return label
    if isinstance(label, int | float):
        return str(label)
    if isinstance(label, Collection) and all(isinstance(one, str) for one in label):
        return ", ".join(label) or "(none)"
    return None
