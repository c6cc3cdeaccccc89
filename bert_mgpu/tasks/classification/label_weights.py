"""The weights of labels in the loss, and thresholds for their probabilities."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np

from bert_mgpu.core.errors import UserError, listed, short_repr, shortened
from bert_mgpu.core.text_files import read_lines
from bert_mgpu.tasks.classification.problem_type import ProblemType
from bert_mgpu.tasks.classification.problem_types import MULTI, SINGLE

BALANCED = "balanced"


def weights(
    class_weights: str | None,
    problem_type: ProblemType,
    labels: Sequence[str],
    *,
    truth: np.ndarray | None,
) -> np.ndarray | None:
    """The weights that --class_weights gives, float32 [L]; None: all are equal.

    truth: label_ids of the training rows; None: nothing is trained.
    """
    if class_weights is None:
        return None
    if not problem_type.has_labels:
        raise UserError(
            f"--class_weights={class_weights}: the type {problem_type.name!r} has no"
            " labels"
        )
    if class_weights == BALANCED:
        return None if truth is None else problem_type.balanced(truth, labels)
    numbers = _label_numbers(
        class_weights, labels, "class_weights", least=1e-6, most=1e6
    )
    return numbers.astype(np.float32)


def thresholds(
    threshold: str | None, problem_type: ProblemType, labels: Sequence[str]
) -> np.ndarray | None:
    """The thresholds from --threshold, float64 [L]; None: the problem type's own."""
    if threshold is None:
        return None
    two = problem_type is SINGLE and len(labels) == 2
    if problem_type is not MULTI and not two:
        raise UserError(
            f"--threshold={threshold}: is for two labels, or for the type 'multi': the"
            f" task has {len(labels)} and is {problem_type.name!r}"
        )
    try:
        value = float(threshold)
    except ValueError:
        return _label_numbers(threshold, labels, "threshold", least=0, most=1)
    if not 0 <= value <= 1:
        raise UserError(
            f"--threshold={threshold}: pass a probability, 0 to 1, or a file"
        )
    return np.full(len(labels), value)


def inline(threshold: str, problem_type: ProblemType, labels: Sequence[str]) -> str:
    """--threshold without its file: a number, or a JSON object label -> number."""
    values = thresholds(threshold, problem_type, labels)
    assert values is not None
    if len({*values.tolist()}) == 1:
        return str(values[0])
    return json.dumps(dict(zip(labels, values.tolist(), strict=True)))


def _label_numbers(
    text: str, labels: Sequence[str], flag: str, *, least: float, most: float
) -> np.ndarray:
    """The numbers [L] in a file, or in a JSON object, that has one for each label."""
    if text.startswith("{"):
        numbers = _in_json(text, flag, least=least, most=most)
        if others := [label for label in numbers if label not in labels]:
            raise UserError(
                f"--{flag}: {listed(others)}: no such label: there are {listed(labels)}"
            )
    else:
        numbers = _in_file(text, labels, least=least, most=most)
    if missing := [label for label in labels if label not in numbers]:
        raise UserError(f"--{flag}={text}: has no line for {listed(missing)}")
    return np.array([numbers[label] for label in labels])


def _in_json(text: str, flag: str, *, least: float, most: float) -> dict[str, float]:
    try:
        numbers = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"--{flag}={shortened(text)}: not a JSON object: {error}"
        ) from None
    for label, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            value = math.nan
        if not least <= value <= most:
            raise UserError(
                f"--{flag}={shortened(text)}: {short_repr(label)}: pass a number,"
                f" {least:g} to {most:g}"
            )
    return {**numbers}


def _in_file(
    path: str, labels: Sequence[str], *, least: float, most: float
) -> dict[str, float]:
    """The numbers in a file of lines `label TAB number`, with each label once."""
    numbers: dict[str, float] = {}
    for number, line in read_lines(path):
        if not line.strip():
            continue
        label, _, text = line.rpartition("\t")
        location = f"{path}:{number}"
        if label not in labels:
            raise UserError(
                f"{location}: {line[:40]!r}: write a label, a tab and a number; labels"
                f" are {listed(labels)}"
            )
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise UserError(
                f"{location}: {text!r}: pass a number, {least:g} to {most:g}"
            )
        if label in numbers:
            raise UserError(f"{location}: {label!r} appears twice")
        numbers[label] = value
    return numbers
