"""Precision, recall and F1 of entities, right if both place and type are the true ones.

Counts as conlleval does and averages as seqeval does; scores are fractions, and 0 where
they would divide by 0. Letters: K types.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core import intervals, terminal
from bert_mgpu.core.task import Trust
from bert_mgpu.tasks.tagging.bio import Span

NAMES = ("precision", "recall", "f1", "macro_f1", "weighted_f1")
_FEWEST, _HARDLY = 20, 0.05  # remark: fewest true entities, highest share found
Cells = list[tuple[str, ...]]  # the lines of a table, its header first


class Counts(NamedTuple):
    """Entities by type: int64 [K] each; types: all true or predicted ones, sorted."""

    types: list[str]
    right: np.ndarray
    predicted: np.ndarray
    true: np.ndarray


def count(
    truth: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]]
) -> Counts:
    """Counts entities by type; both arguments have the sentences in the same order."""
    totals = [collections.Counter[str]() for _ in range(3)]
    for true, said in zip(truth, predicted, strict=True):
        sets = {*true} & {*said}, {*said}, {*true}
        for total, spans in zip(totals, sets, strict=True):
            total.update(span.type for span in spans)
    types = sorted({*totals[1], *totals[2]})
    columns = (np.array([total[t] for t in types], np.int64) for total in totals)
    return Counts(types, *columns)


def scores(counts: Counts) -> dict[str, float]:
    """The scores of a set; "macro_f1" is the mean over the types that occur."""
    right, predicted, true = counts.right, counts.predicted, counts.true
    each, total = (
        _scores(*counts[1:]),
        _scores(right.sum(), predicted.sum(), true.sum()),
    )
    found = dict(zip(("precision", "recall", "f1"), map(float, total), strict=True))
    weights = true / true.sum() if true.sum() else np.zeros(len(true))
    found["macro_f1"] = float(each[2].mean()) if len(true) else 0.0
    found["weighted_f1"] = float(each[2] @ weights)
    return found


def _scores(
    right: np.ndarray, predicted: np.ndarray, true: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Precision, recall and F1, elementwise."""
    precision, recall = _ratio(right, predicted), _ratio(right, true)
    return precision, recall, _ratio(2 * precision * recall, precision + recall)


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    return np.where(denominator, numerator / np.where(denominator, denominator, 1), 0.0)


def trust(
    truth: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]]
) -> Trust:
    """The confidence interval of F1, and a remark if hardly anything is found."""
    sets = [({*true}, {*said}) for true, said in zip(truth, predicted, strict=True)]
    sizes = [(len(true & said), len(said), len(true)) for true, said in sets]
    if not sizes:
        return Trust()
    values = np.array(sizes)
    _, found, there = values.sum(0).tolist()
    line = ""
    if there >= _FEWEST and found < _HARDLY * there:
        line = f"{found} entities are predicted, but the set has {there}"
    return Trust({"f1": intervals.of_rows(values, intervals.f1)}, one_answer=line)


def cells(counts: Counts) -> Cells:
    """The precision, recall and F1 of each type, then of all entities."""
    lines: Cells = [("type", "precision", "recall", "f1", "entities")]
    for name, *values, true in zip(
        counts.types, *_scores(*counts[1:]), counts.true, strict=True
    ):
        lines.append((name, *(f"{value:.4f}" for value in values), str(true)))
    sums = [column.sum() for column in counts[1:]]
    means = (f"{float(value):.4f}" for value in _scores(*sums))
    lines.append(("all", *means, str(sums[2])))
    return lines


def table(counts: Counts) -> str:
    """The table of `cells`, aligned for the terminal."""
    return terminal.align(cells(counts), (11, 9, 9, 9))
