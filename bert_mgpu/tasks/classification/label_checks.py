"""Warnings about labels that are likely mistakes. Letters: L labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bert_mgpu.core.errors import listed
from bert_mgpu.tasks.classification.problem_type import ProblemType
from bert_mgpu.tasks.data_checks import CheckedSet

_IMBALANCE = 10  # warn at so many rows of the most frequent label per row of the rarest
_FEW = 8  # rows: nothing can be learnt about a label with fewer
_NAMES = 5  # labels that a warning names


def counts(
    checked: CheckedSet, problem_type: ProblemType, labels: Sequence[str]
) -> np.ndarray:
    """The number of rows that have each label: int64 [L]."""
    return problem_type.counts(checked.features.dense["label_ids"], labels)


def warnings(
    checked: CheckedSet, problem_type: ProblemType, labels: Sequence[str]
) -> Iterator[str]:
    """A line for each likely mistake."""
    if not (checked.labelled and problem_type.has_labels):
        return
    rows = counts(checked, problem_type, labels)
    absent = [label for label, count in zip(labels, rows, strict=True) if not count]
    if absent:
        yield f"{checked.path}: no row has the label {listed(absent, _NAMES)}"
    if checked.split != "train":
        return
    for alike in _alike(labels):
        names = listed(alike, _NAMES, quoted=True)
        yield (
            f"{checked.path}: the labels {names} differ only in case or in spaces"
            " around them: training treats them as different labels"
        )
    rare = [f"{label} ({count})" for label, count in zip(labels, rows, strict=True)
            if 0 < count < _FEW]  # fmt: skip
    if rare:
        yield f"{checked.path}: labels with few rows: {listed(rare, _NAMES)}"
    some = rows[rows > 0]  # of the labels that occur
    if len(labels) == 1:
        yield (
            f"{checked.path}: every row has the label {labels[0]!r}: training"
            " would refuse this file"
        )
    if len(some) > 1 and some.max() >= _IMBALANCE * some.min():
        most = labels[int(rows.argmax())]
        least = labels[int(np.where(rows, rows, rows.max()).argmin())]
        yield (
            f"{checked.path}: {some.max()} rows of {most!r}, {some.min()} of {least!r}:"
            " watch macro_f1, or pass --class_weights=balanced"
        )


def _alike(labels: Sequence[str]) -> Iterator[list[str]]:
    """Labels that differ only in case or in leading or trailing whitespace."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(label.strip().casefold(), []).append(label)
    return (group for group in groups.values() if len(group) > 1)
