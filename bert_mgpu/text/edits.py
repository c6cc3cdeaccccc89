"""The edits that turn one text into another: tokens are kept, deleted and written.

The edit script of a pair keeps as many tokens as possible (a longest common
subsequence); of such scripts it is one that writes at the fewest places, and of those
the one that deletes as early as possible. What is written in place of deleted tokens
stands before the first of them, which Malmi et al. 2019 (LaserTagger) found to be
learnt better.

Letters: B pairs, N places of a source, M of a target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

Tokens = Sequence[int]  # ids, none below 0
Pair = tuple[Tokens, Tokens]  # the source and the target
_CELLS = 1 << 19  # of the table for pairs that are processed together; 8 bytes each
_MOST_CELLS = 1 << 24  # of a pair: some 4,000 tokens on both sides
_AS_LISTS = 1 << 20  # up to so many cells, a table is read as lists
_NEVER = -(2**30)


class Edits(NamedTuple):
    """An edit script: what becomes of each source token, and what is written."""

    keeps: list[bool]  # of each token of the source
    counts: list[int]  # of the tokens written before each one and, last, at the end
    written: list[int]  # all written tokens, in order


class TokenEdit(NamedTuple):
    """The tokens source[start:end] become `new`."""

    start: int
    end: int
    new: tuple[int, ...]


def token_edits(edits: Edits) -> list[TokenEdit]:
    """A script as edits, each between two kept tokens or the ends of the text."""
    found, new = list[TokenEdit](), list[int]()
    start = used = 0
    for token, (count, keep) in enumerate(
        zip(edits.counts, [*edits.keeps, True], strict=True)
    ):
        new += edits.written[used : used + count]
        used += count
        if keep:
            if new or start < token:
                found.append(TokenEdit(start, token, tuple(new)))
            start, new = token + 1, []
    return found


def edits_of(pairs: Sequence[Pair]) -> Iterator[Edits]:
    """The script that turns the source of each pair into its target, in order."""
    for block in _blocks(pairs):
        source, target = block[0]  # the only one, if it is long
        if (len(source) + 1) * (len(target) + 1) > _MOST_CELLS:
            yield _replaced(source, target)
            continue
        values = _values(block)
        for (source, target), own in zip(block, values, strict=True):
            yield _script(source, target, own)


def _blocks(pairs: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    """The pairs in blocks, as many as a table has room for, or a long one alone."""
    first, height, width = 0, 1, 1
    for number, (source, target) in enumerate(pairs):
        height, width = max(height, len(source) + 1), max(width, len(target) + 1)
        if number > first and (number - first + 1) * height * width > _CELLS:
            yield pairs[first:number]
            first, height, width = number, len(source) + 1, len(target) + 1
    if pairs:
        yield pairs[first:]


def _replaced(source: Tokens, target: Tokens) -> Edits:
    """The script of a pair whose table would take gigabytes: one replacement.

    All but their common beginning and end is deleted and written anew.
    """
    most = min(len(source), len(target))
    pairs = zip(source, target, strict=False)
    front = next((n for n, (one, other) in enumerate(pairs) if one != other), most)
    pairs = zip(reversed(source), reversed(target), strict=False)
    end = next((n for n, (one, other) in enumerate(pairs) if one != other), most)
    end = min(end, most - front)
    gone, new = len(source) - front - end, [*target[front : len(target) - end]]
    keeps = [*[True] * front, *[False] * gone, *[True] * end]
    counts = [0] * (len(source) + 1)
    counts[front] = len(new)
    return Edits(keeps, counts, new)


def _script(source: Tokens, target: Tokens, values: np.ndarray) -> Edits:
    """The best script of a pair. values: what `_values` gives for this pair."""
    size, goal = len(source), len(target)
    own: Any = values[:, -size - 1 :, -goal - 1 :]
    if own.size <= _AS_LISTS:
        own = own.tolist()  # faster, and in a large table most is never looked at
    keeps, counts, written = [False] * size, [0] * (size + 1), list[int]()
    at = place = slot = opened = 0  # slot: where written tokens go now
    while at < size or place < goal:
        value = own[opened][at][place]
        if at < size and own[opened][at + 1][place] == value:
            at += 1  # deleted
        elif place < goal and own[1][at][place + 1] - (1 - opened) == value:
            counts[slot] += 1
            written.append(target[place])
            place, opened = place + 1, 1
        else:
            keeps[at] = True
            at, place, opened = at + 1, place + 1, 0
            slot = at
    return Edits(keeps, counts, written)


def realised(source: Tokens, edits: Edits) -> list[int]:
    """The target that a script makes of its source."""
    made, used = list[int](), 0
    for number, count in enumerate(edits.counts):
        made += edits.written[used : used + count]
        used += count
        if number < len(source) and edits.keeps[number]:
            made.append(source[number])
    return made


def _values(pairs: Sequence[Pair]) -> np.ndarray:
    """The value of the best script for every pair of suffixes: int32 [B, 2, N, M].

    N, M: 1 + the tokens of the longest source and target. All texts end at the last
    index. Each kept token adds `bonus` to a value, which is more than all places
    together cost; each place at which something is written costs 1. The second index is
    1 where a token has been written since the last kept one: writing another one then
    costs nothing.
    """
    sources, targets = (_at_the_end(texts) for texts in zip(*pairs, strict=True))
    count, size, goal = len(pairs), sources.shape[1], targets.shape[1]
    bonus = goal + 2
    values = np.zeros((count, 2, size + 1, goal + 1), np.int32)
    values[:, 0, size, :goal] = -1
    for at in range(size - 1, -1, -1):
        new, opened = values[:, 0, at], values[:, 1, at]  # views, [B, M]
        new[:], opened[:] = values[:, 0, at + 1], values[:, 1, at + 1]
        equal = targets == sources[:, at, None]
        kept = np.where(equal, values[:, 0, at + 1, 1:] + bonus, _NEVER)
        np.maximum(opened[:, :-1], kept, out=opened[:, :-1])
        # Writing is free now: the best of all suffixes of the target.
        opened[:] = np.maximum.accumulate(opened[:, ::-1], 1)[:, ::-1]
        np.maximum(new[:, :-1], kept, out=new[:, :-1])
        np.maximum(new[:, :-1], opened[:, 1:] - 1, out=new[:, :-1])
    return values


def _at_the_end(texts: Sequence[Tokens]) -> np.ndarray:
    """The texts as int64 [B, most tokens], with -1 in front of the shorter ones."""
    filled = np.full((len(texts), max(map(len, texts))), -1, np.int64)
    for row, tokens in zip(filled, texts, strict=True):
        row[len(row) - len(tokens) :] = tokens
    return filled
