"""How many places are changed at each --keep_bias, and how many rightly.

Letters: n places whose tags are known, C tags.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bert_mgpu.core import terminal

BIASES = (-4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0)
_WIDTH = 10  # characters of a column


class Point(NamedTuple):
    """The places that are changed at one bias."""

    bias: float
    changed: int
    precision: float  # the share of these whose tag is right
    recall: float  # the share of the places to change that get the right tag
    f05: float  # F0.5: precision counts twice as much as recall


def matters(truth: np.ndarray) -> bool:
    """Whether any place is to be left as it is, which slots never are."""
    return bool((truth == 0).any())


def points(scores: np.ndarray, truth: np.ndarray) -> list[Point]:
    """A point for each bias. A place is changed if its tag is not 0.

    scores: log p of the tags, float [n, C]; truth: int [n].
    """
    others = scores[:, 1:].max(1, initial=-np.inf)
    best = 1 + scores[:, 1:].argmax(1) if len(scores) else truth
    found = []
    for bias in BIASES:
        changed = others > scores[:, 0] + bias
        hits = int((changed & (best == truth)).sum())
        precision = hits / max(1, int(changed.sum()))
        recall = hits / max(1, int((truth > 0).sum()))
        bottom = 0.25 * precision + recall
        f05 = 1.25 * precision * recall / bottom if bottom else 0.0
        found.append(Point(bias, int(changed.sum()), precision, recall=recall, f05=f05))
    return found


def table(scores: np.ndarray, truth: np.ndarray) -> str:
    """The points as a table for the log."""
    rows = [["--keep_bias", "places", "precision", "recall", "f0.5"]]
    for point in points(scores, truth):
        shares = (f"{value:.4f}" for value in point[2:])
        rows.append([f"{point.bias:g}", str(point.changed), *shares])
    return terminal.align(rows, [_WIDTH] * 4)
