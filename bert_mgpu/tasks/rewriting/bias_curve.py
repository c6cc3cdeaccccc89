"""How many places are changed at each --keep_bias, and how many rightly.

Letters: n places whose tags are known, C tags; tag 0 leaves a place as it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bert_mgpu.core import terminal

BIASES = (-4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0)
_WIDTH = 10  # characters of a column


class Places(NamedTuple):
    """Places of texts without slots, and what the model would change there.

    Their tags are known. In texts with slots, --keep_bias decides nothing.
    """

    leads: np.ndarray  # log p of the likeliest change less that of no change, float [n]
    is_right: np.ndarray  # whether that change is the true one, bool [n]
    is_change: np.ndarray  # whether there is a true one, bool [n]


def places_of(scores: np.ndarray, truth: np.ndarray) -> Places:
    """scores: log p of the tags, float [n, C]; truth: the true ones, int [n]."""
    changes = scores[:, 1:]
    best = 1 + changes.argmax(1) if len(scores) else truth
    leads = changes.max(1, initial=-np.inf) - scores[:, 0]
    return Places(leads, best == truth, truth > 0)


class Point(NamedTuple):
    """The places that are changed at one bias."""

    bias: float
    changed: int
    precision: float  # the share of these whose tag is right
    recall: float  # the share of the places to change that get the right tag
    f05: float  # F0.5: precision counts twice as much as recall


def matters(places: Places) -> bool:
    """Whether any place is to be left as it is."""
    return not places.is_change.all()


def points(places: Places) -> list[Point]:
    """A point for each bias."""
    found = []
    for bias in BIASES:
        changed = places.leads > bias
        hits = int((changed & places.is_right).sum())
        precision = hits / max(1, int(changed.sum()))
        recall = hits / max(1, int(places.is_change.sum()))
        bottom = 0.25 * precision + recall
        f05 = 1.25 * precision * recall / bottom if bottom else 0.0
        found.append(Point(bias, int(changed.sum()), precision, recall=recall, f05=f05))
    return found


def table(places: Places) -> str:
    """The points as a table for the log."""
    rows = [["--keep_bias", "places", "precision", "recall", "f0.5"]]
    for point in points(places):
        shares = (f"{value:.4f}" for value in point[2:])
        rows.append([f"{point.bias:g}", str(point.changed), *shares])
    return terminal.align(rows, [_WIDTH] * 4)
