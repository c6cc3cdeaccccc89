"""How much is changed, and how much of it rightly, by --keep_bias.

Letters: n places whose tags are known, C tags.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bert_mgpu.core import terminal

BIASES = (-4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0)
_WIDTH = 10  # columns of the terminal


class Point(NamedTuple):
    """The places that are changed with one bias."""

    bias: float
    changed: int
    precision: float  # of these the share whose tag is right
    recall: float  # of the places that are to be changed
    f05: float  # precision counts twice as much


def matters(truth: np.ndarray) -> bool:
    """Whether a place may be left as it is: not where all are slots."""
    return bool((truth == 0).any())


def points(scores: np.ndarray, truth: np.ndarray) -> list[Point]:
    """A point for each bias. A place is changed where its tag is not 0.

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
    """The points as a table of the log."""
    rows = [["--keep_bias", "places", "precision", "recall", "f0.5"]]
    for point in points(scores, truth):
        shares = (f"{value:.4f}" for value in point[2:])
        rows.append([f"{point.bias:g}", str(point.changed), *shares])
    return terminal.align(rows, [_WIDTH] * 4)
