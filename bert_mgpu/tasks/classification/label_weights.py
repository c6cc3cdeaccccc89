"""Numbers of labels: weights in the loss, thresholds of probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bert_mgpu.core.errors import UserError, listed
from bert_mgpu.core.text_files import read_lines
from bert_mgpu.tasks.classification.problem_type import ProblemType
from bert_mgpu.tasks.classification.problem_types import MULTI, SINGLE

BALANCED = "balanced"


def weights(
    said: str | None,
    kind: ProblemType,
    labels: Sequence[str],
    *,
    truth: np.ndarray | None,
) -> np.ndarray | None:
    """--class_weights as float32 [L]; None: all are alike.

    truth: label_ids of the training rows; None: nothing is trained.
    """
    if said is None:
        return None
    if not kind.has_labels:
        raise UserError(f"--class_weights={said}: the type {kind.name!r} has no labels")
    if said == BALANCED:
        return None if truth is None else kind.balanced(truth, labels)
    return _read(said, labels, "class_weights", least=1e-6, most=1e6).astype(np.float32)


def thresholds(
    said: str | None, kind: ProblemType, labels: Sequence[str]
) -> np.ndarray | None:
    """--threshold as float64 [L]; None: the kind's own."""
    if said is None:
        return None
    if kind is not MULTI and not (kind is SINGLE and len(labels) == 2):
        raise UserError(
            f"--threshold={said}: is for two labels, or for the type 'multi': the"
            f" task has {len(labels)} and is {kind.name!r}"
        )
    try:
        value = float(said)
    except ValueError:
        return _read(said, labels, "threshold", least=0, most=1)
    if not 0 <= value <= 1:
        raise UserError(f"--threshold={said}: pass a probability, 0 to 1, or a file")
    return np.full(len(labels), value)


def _read(
    path: str, labels: Sequence[str], flag: str, *, least: float, most: float
) -> np.ndarray:
    """A file of lines `label TAB number`, each label once."""
    found: dict[str, float] = {}
    for number, line in read_lines(path):
        if not line.strip():
            continue
        label, _, text = line.rpartition("\t")
        place = f"{path}:{number}"
        if label not in labels:
            raise UserError(
                f"{place}: {line[:40]!r}: write a label, a tab and a number; labels are"
                f" {listed(labels)}"
            )
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise UserError(f"{place}: {text!r}: pass a number, {least:g} to {most:g}")
        if label in found:
            raise UserError(f"{place}: {label!r} stands there twice")
        found[label] = value
    if missing := [label for label in labels if label not in found]:
        raise UserError(f"--{flag}={path}: has no line for {listed(missing)}")
    return np.array([found[label] for label in labels])
