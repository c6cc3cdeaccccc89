"""The best drafts of a text: which tokens are kept, and how many are written where.

Letters: N decided places of a text, C tags, K drafts.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.tasks.rewriting import tags

_NEVER = -np.inf


class Draft(NamedTuple):
    """A rewriting whose tags are chosen, but whose new tokens are not yet written."""

    keeps: list[bool]  # of each token of the source
    counts: list[int]  # of the tokens written before each and, last, at the end
    score: float  # log p of its tags, plus the bias
    bias: float = 0.0  # what --keep_bias added to the score
    is_whole: bool = True  # False: a row had no room for some of it


def allowed(
    scores: np.ndarray,
    slots: Sequence[int] | None,
    *,
    max_insert: int,
    keep_bias: float,
) -> np.ndarray:
    """The scores of the tags that may be chosen, -inf elsewhere: float64 [N, C].

    If slots are given, at least one token is written in each, and nothing else is
    changed; if not, keep_bias is added to the score of leaving a place as it is.

    Args:
      scores: log p of each tag, float [N, C]; the last place is the end of the text,
        or, if that did not fit in the row, a token like the others.
      slots: the places at which something is to be written; None: the text has no
        slots.
    """
    found = scores.astype(np.float64)
    if slots is None:
        found[:, 0] += keep_bias
        return found
    # Places without a choice add nothing to the score of a draft.
    only = np.full_like(found, _NEVER)
    only[:, 0] = 0.0
    only[slots] = _NEVER
    only[slots, 1 : max_insert + 1] = found[slots, 1 : max_insert + 1]
    return only


def best(scores: np.ndarray, most: int) -> list[tuple[np.ndarray, float]]:
    """The K ways to tag all places with the highest sums, the best first; K <= `most`.

    Places are independent, so this is exact: the K best ways differ from the very best
    one only in some of the K - 1 cheapest changes of a single place.

    Args:
      scores: log p of each tag, float64 [N, C], -inf where a tag is not allowed.

    Returns:
      The tags of each way, int64 [N], and their sum.
    """
    first = scores.argmax(1)
    rows = np.arange(len(scores))
    total = float(scores[rows, first].sum())
    if most == 1:
        return [(first, total)]
    costs = scores[rows, first][:, None] - scores
    costs[rows, first] = np.inf
    order = np.argsort(costs, axis=None, kind="stable")[: most - 1].tolist()
    changes: dict[int, list[tuple[float, int]]] = {}
    for index in order:
        place, tag = divmod(index, scores.shape[1])
        if np.isfinite(costs[place, tag]):
            changes.setdefault(place, []).append((float(costs[place, tag]), tag))
    found: list[tuple[float, tuple[tuple[int, int], ...]]] = [(0.0, ())]
    for place in sorted(changes):
        changed = [
            (cost + more, (*made, (place, tag)))
            for cost, made in found
            for more, tag in changes[place]
        ]
        found = heapq.nsmallest(most, found + changed)
    drafts = []
    for cost, made in found:
        own = first.copy()
        for place, tag in made:
            own[place] = tag
        drafts.append((own, total - cost))
    return drafts


def drafts_of(
    scores: np.ndarray,
    slots: Sequence[int] | None,
    *,
    size: int,
    most: int,
    max_insert: int,
    keep_bias: float,
) -> list[Draft]:
    """The drafts of a text, the best first.

    scores: log p of the tags, float [N, C], of the tokens that fit in the row and, if
    all do, of the end, which is always kept; size: tokens of the source. Those that did
    not fit are kept.
    """
    own = allowed(scores, slots, max_insert=max_insert, keep_bias=keep_bias)
    if len(own) > size:
        own[size, max_insert + 1 :] = _NEVER
    found = []
    for chosen, score in best(own, most):
        keeps, counts = tags.read(chosen, max_insert)
        keeps = [*keeps[:size], *[True] * (size - len(keeps))]
        counts = [*counts, *[0] * (size + 1 - len(counts))]
        kept = int((chosen == 0).sum()) if slots is None else 0
        found.append(Draft(keeps, counts, score, bias=keep_bias * kept))
    return found
