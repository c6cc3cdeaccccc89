"""Rows that are ranked within their groups, and the scores of the ranking.

A group is the rows to choose from, such as the phrases for the slot of an ad; its right
rows have label 1 of two. Scores that differ by rounding alone are ties, whose rows have
no order: so nothing depends on the order of a file, on batches or on towers.
Letters: R rows of a set, N of them in groups, G groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rows import Features, Ragged

NAMES = ("mrr", "hit_at_1", "hit_at_3", "ndcg")
_COLUMN = "groups"  # of the rows of a set that no model reads
_NONE = -1  # the number of rows that are in no group
# Logits of equal texts differ by less than this, with any padding, packing or batch.
_ROUNDING = 1e-5


class Ranking(NamedTuple):
    """The rows in groups: group by group, and in each the best first."""

    order: np.ndarray  # numbers of rows, int64 [N]
    groups: np.ndarray  # the group of each, from 0, int64 [N]
    starts: np.ndarray  # where each group begins, int64 [G]
    ties: np.ndarray  # numbers that rows of a group share where they tie, int64 [N]


def with_groups(features: Features, keys: Sequence[str | None]) -> dict[str, Ragged]:
    """The unread columns of a set with the numbers of groups, in their first order.

    keys: of each row's group; None: of no group.
    """
    known: dict[str, int] = {}
    numbers = [_NONE if k is None else known.setdefault(k, len(known)) for k in keys]
    column = Ragged(np.array(numbers, np.int32), np.arange(len(numbers) + 1))
    return {**features.unread, _COLUMN: column}


def groups_of(features: Features) -> np.ndarray | None:
    """The group of each row, -1: none, int32 [R]; None where no row can have one."""
    column = features.unread.get(_COLUMN)
    return None if column is None else column.values


def are_groups(groups: np.ndarray) -> bool:
    """Whether any row is in a group. groups: as of `ranked`."""
    return bool((groups != _NONE).any())


def ranked(groups: np.ndarray, scores: np.ndarray) -> Ranking:
    """The rows in groups, best first.

    Args: of each row of a set
      groups: int [R], -1: in none.
      scores: float64 [R], higher ones are better.
    """
    order = np.lexsort((-scores, groups))
    order = order[groups[order] != _NONE]
    own, values = groups[order], scores[order]
    begins = np.diff(own, prepend=_NONE) != 0
    falls = begins | (np.diff(values, prepend=np.inf) < -_ROUNDING)
    return Ranking(
        order,
        groups=np.cumsum(begins) - 1,
        starts=np.flatnonzero(begins),
        ties=np.cumsum(falls) - 1,
    )


def is_compared(ranking: Ranking, truth: np.ndarray) -> np.ndarray:
    """Whether each group has right and wrong rows, bool [G]. truth: 0 or 1, [R]."""
    right = truth[ranking.order] == 1
    if not len(right):
        return np.zeros(0, bool)
    return np.logical_or.reduceat(right, ranking.starts) & np.logical_or.reduceat(
        ~right, ranking.starts
    )


def scores(
    groups: np.ndarray | None, values: np.ndarray, *, truth: np.ndarray
) -> dict[str, float]:
    """The means of NAMES over the groups with right and wrong rows; {} without any.

    mrr: 1 / the place of the first right row; hit_at_k: whether that is k at most. A
    right row stands behind all wrong ones that tie with it: with one right row mrr is
    scikit-learn's label_ranking_average_precision_score. ndcg: gains 1 and 0 with
    discounts 1 / log2(1 + place), by the mean of all orders of what ties, as its
    ndcg_score (McSherry and Najork 2008).

    Args: as of `ranked`; truth: 0 or 1, [R]
    """
    if groups is None:
        return {}
    ranking = ranked(groups, values)
    compared = is_compared(ranking, truth)
    if not compared.any():
        return {}
    right = truth[ranking.order] == 1
    # By group: the place of the first right row.
    best = np.minimum.reduceat(
        np.where(right, ranking.ties, len(right)), ranking.starts
    )
    ahead = ~right & (ranking.ties <= best[ranking.groups])
    place = 1 + np.add.reduceat(ahead, ranking.starts, dtype=np.int64)
    of_groups = (1 / place, place <= 1, place <= 3, _ndcg(ranking, right))
    # fsum: so the digits do not depend on the order of the groups.
    return {
        name: math.fsum(values[compared]) / int(compared.sum())
        for name, values in zip(NAMES, of_groups, strict=True)
    }


def _ndcg(ranking: Ranking, right: np.ndarray) -> np.ndarray:
    """By group, float64 [G]; where there is no right row it has no meaning."""
    # Of the first places, 0 and more of them: the sum of their discounts.
    discounts = np.cumsum([0.0, *1 / np.log2(np.arange(2, len(right) + 2))])
    ties = np.flatnonzero(np.diff(ranking.ties, prepend=-1))  # the first row of each
    sizes = np.diff(ties, append=len(right))
    first = ties - ranking.starts[ranking.groups[ties]]  # its place, from 0
    share = np.add.reduceat(right, ties, dtype=np.int64) / sizes
    gains = share * (discounts[first + sizes] - discounts[first])
    found = np.add.reduceat(gains, ranking.ties[ranking.starts])
    wanted = discounts[np.add.reduceat(right, ranking.starts, dtype=np.int64)]
    return found / np.where(wanted, wanted, 1)


def described(groups: np.ndarray) -> str:
    """The groups of a set in words. groups: as of `ranked`."""
    counts = np.bincount(groups[groups != _NONE])
    without = int((groups == _NONE).sum())
    rest = f"; rows in no group: {without}" if without else ""
    if not len(counts):
        return f"no groups{rest}"
    return f"{len(counts)} groups of {counts.min()} to {counts.max()} rows{rest}"


def compared_in_words(groups: np.ndarray, truth: np.ndarray) -> str:
    """How many groups the scores are of, and how many are left out."""
    compared = is_compared(ranked(groups, np.zeros(len(groups))), truth)
    count = int(compared.sum())
    left_out = len(compared) - count
    return f"groups scored: {count}; left out, with rows of one label: {left_out}"
