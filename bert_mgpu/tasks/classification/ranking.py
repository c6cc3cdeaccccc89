"""Rows that are ranked within their groups, and the scores of the ranking.

A group consists of the rows to choose from, such as the phrases for the slot of an ad;
right rows have the second of two labels, 1. Scores that differ only by rounding are
ties, whose rows have no order: so nothing depends on the order of the rows in a file,
on batches or on towers.
Letters: R rows of a set, N of them in groups, G groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rows import Features, Ragged

NAMES = ("mrr", "hit_at_1", "hit_at_3", "ndcg")
_COLUMN = "groups"  # a column of `Features.unread`, which no model reads
_NONE = -1  # the group number of rows in no group
# Logits of equal texts differ by less than this, with any padding, packing or batch.
_ROUNDING = 1e-5


class Ranking(NamedTuple):
    """The rows that are in groups: group by group, and in each the best first."""

    order: np.ndarray  # numbers of rows, int64 [N]
    groups: np.ndarray  # the group of each, from 0, int64 [N]
    starts: np.ndarray  # where each group begins, int64 [G]
    ties: np.ndarray  # a number for each row, equal for rows that tie, int64 [N]


def with_groups(features: Features, keys: Sequence[str | None]) -> dict[str, Ragged]:
    """The unread columns of a set with group numbers, in the order of first occurrence.

    keys: equal for rows of a group; None for a row in no group.
    """
    known: dict[str, int] = {}
    numbers = [_NONE if k is None else known.setdefault(k, len(known)) for k in keys]
    column = Ragged(np.array(numbers, np.int32), np.arange(len(numbers) + 1))
    return {**features.unread, _COLUMN: column}


def groups_of(features: Features) -> np.ndarray | None:
    """The group of each row, -1 for none: int32 [R]; None if the set has no groups."""
    column = features.unread.get(_COLUMN)
    return None if column is None else column.values


def are_groups(groups: np.ndarray) -> bool:
    """Whether any row is in a group. groups: see `ranked`."""
    return bool((groups != _NONE).any())


def ranked(groups: np.ndarray, scores: np.ndarray) -> Ranking:
    """The rows in groups, best first.

    Args: for each row of a set
      groups: int [R], -1 for a row in no group.
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


def has_right_and_wrong(ranking: Ranking, truth: np.ndarray) -> np.ndarray:
    """Whether a group has both right and wrong rows: bool [G]. truth: 0 or 1, [R]."""
    right = truth[ranking.order] == 1
    if not len(right):
        return np.zeros(0, bool)
    return np.logical_or.reduceat(right, ranking.starts) & np.logical_or.reduceat(
        ~right, ranking.starts
    )


def scores(
    groups: np.ndarray | None, values: np.ndarray, *, truth: np.ndarray
) -> dict[str, float]:
    """The means of `group_scores`; {} without any."""
    if groups is None:
        return {}
    # fsum, so that the digits do not depend on the order of the groups.
    return {
        name: math.fsum(each) / len(each)
        for name, each in group_scores(groups, values, truth=truth).items()
    }


def group_scores(
    groups: np.ndarray, values: np.ndarray, *, truth: np.ndarray
) -> dict[str, np.ndarray]:
    """NAMES of each group with right and wrong rows, float [groups]; {} without any.

    mrr: 1 / the rank of the first right row; hit_at_k: whether that rank is at most k.
    A right row ranks below all wrong ones that tie with it: with one right row, mrr is
    scikit-learn's label_ranking_average_precision_score. ndcg: with gains 1 and 0 and
    discounts 1 / log2(1 + rank), the mean over all orders of tied rows, as in
    scikit-learn's ndcg_score (McSherry and Najork 2008).

    Args: groups and values (its scores) as for `ranked`; truth: 0 or 1, [R]
    """
    ranking = ranked(groups, values)
    compared = has_right_and_wrong(ranking, truth)
    if not compared.any():
        return {}
    right = truth[ranking.order] == 1
    # For each group: the tie of its first right row, and from it that row's rank.
    best = np.minimum.reduceat(
        np.where(right, ranking.ties, len(right)), ranking.starts
    )
    ahead = ~right & (ranking.ties <= best[ranking.groups])
    place = 1 + np.add.reduceat(ahead, ranking.starts, dtype=np.int64)
    found = (1 / place, place <= 1, place <= 3, _ndcg(ranking, right))
    return {
        name: each[compared].astype(np.float64)
        for name, each in zip(NAMES, found, strict=True)
    }


def random_scores(groups: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """What `scores` would be on average if the rows of each group had a random order.

    The first right row of n, r of which are right, has rank k with the probability
    C(n - k, r - 1) / C(n, r). groups, truth: see `scores`.
    """
    same = np.zeros(len(groups))
    tied = scores(groups, same, truth=truth)  # its ndcg is the mean over all orders
    ranking = ranked(groups, same)
    sizes = np.diff(ranking.starts, append=len(ranking.order))
    right = np.add.reduceat(truth[ranking.order] == 1, ranking.starts, dtype=np.int64)
    kinds, counts = np.unique(
        np.stack([sizes, right], -1)[(right > 0) & (right < sizes)],
        axis=0,
        return_counts=True,
    )
    sums = np.zeros(3)
    for (n, r), count in zip(kinds.tolist(), counts.tolist(), strict=True):
        ranks = np.arange(1, n - r + 2)
        # P(k + 1) = P(k) (n - r + 1 - k) / (n - k): no binomials of long numbers
        later = (n - r + 1 - ranks[:-1]) / (n - ranks[:-1])
        ways = r / n * np.cumprod([1.0, *later])
        mrr = math.fsum(ways / ranks)
        sums += count * np.array([mrr, ways[0], ways[:3].sum()])
    means = sums / counts.sum()
    return dict(zip(NAMES, [*means.tolist(), tied["ndcg"]], strict=True))


def _ndcg(ranking: Ranking, right: np.ndarray) -> np.ndarray:
    """NDCG of each group, float64 [G]; meaningless for groups without a right row."""
    # discounts[n] is the sum of the discounts of the first n ranks.
    discounts = np.cumsum([0.0, *1 / np.log2(np.arange(2, len(right) + 2))])
    ties = np.flatnonzero(np.diff(ranking.ties, prepend=-1))  # the first row of each
    sizes = np.diff(ties, append=len(right))
    first = ties - ranking.starts[ranking.groups[ties]]  # its rank, from 0
    share = np.add.reduceat(right, ties, dtype=np.int64) / sizes
    gains = share * (discounts[first + sizes] - discounts[first])
    found = np.add.reduceat(gains, ranking.ties[ranking.starts])
    wanted = discounts[np.add.reduceat(right, ranking.starts, dtype=np.int64)]
    return found / np.where(wanted, wanted, 1)


def described(groups: np.ndarray) -> str:
    """The groups of a set in words. groups: see `ranked`."""
    counts = np.bincount(groups[groups != _NONE])
    without = int((groups == _NONE).sum())
    rest = f"; rows in no group: {without}" if without else ""
    if not len(counts):
        return f"no groups{rest}"
    least, most = int(counts.min()), int(counts.max())
    sizes = f"{least} to " * (least < most) + f"{most} row{'s' * (most != 1)}"
    return f"{len(counts)} group{'s' * (len(counts) != 1)} of {sizes}{rest}"


def describe_scored_groups(groups: np.ndarray, truth: np.ndarray) -> str:
    """How many groups the scores cover, and how many are left out."""
    compared = has_right_and_wrong(ranked(groups, np.zeros(len(groups))), truth)
    count = int(compared.sum())
    left_out = len(compared) - count
    return f"groups scored: {count}; left out, with rows of one label: {left_out}"
