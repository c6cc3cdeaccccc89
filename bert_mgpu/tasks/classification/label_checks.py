"""What may be wrong with the labels of rows that can all be read. Letters: L labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bert_mgpu.core.errors import listed
from bert_mgpu.tasks.classification.problem_type import ProblemType
from bert_mgpu.tasks.data_checks import CheckedSet

_IMBALANCE = 10  # rows of the most frequent label for each of the rarest
_FEW = 8  # rows of a label from which nothing can be learnt
_NAMES = 5  # labels that are named


def counts(one: CheckedSet, kind: ProblemType, labels: Sequence[str]) -> np.ndarray:
    """How many rows have each label: int64 [L]."""
    return kind.counts(one.features.dense["label_ids"], labels)


def warnings(
    one: CheckedSet, kind: ProblemType, labels: Sequence[str]
) -> Iterator[str]:
    """A line for each thing that is likely a mistake."""
    if not (one.labelled and kind.has_labels):
        return
    found = counts(one, kind, labels)
    absent = [label for label, count in zip(labels, found, strict=True) if not count]
    if absent:
        yield f"{one.path}: no row has the label {listed(absent, _NAMES)}"
    if one.split != "train":
        return
    rare = [f"{label} ({count})" for label, count in zip(labels, found, strict=True)
            if 0 < count < _FEW]  # fmt: skip
    if rare:
        yield f"{one.path}: labels of few rows: {listed(rare, _NAMES)}"
    there = found[found > 0]
    if len(there) > 1 and there.max() >= _IMBALANCE * there.min():
        most = labels[int(found.argmax())]
        least = labels[int(np.where(found, found, found.max()).argmin())]
        yield (
            f"{one.path}: {there.max()} rows of {most!r}, {there.min()} of {least!r}:"
            " look at macro_f1, or pass --class_weights=balanced"
        )
