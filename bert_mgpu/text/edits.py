"""The edits that make one text of another: tokens are kept, deleted and written.

The script of a pair keeps as many tokens as can be kept (a longest common subsequence);
among those it writes at the fewest places, then it deletes as early as it can. What is
written in place of deleted tokens stands before the first of them, which Malmi et al.
2019 (LaserTagger) found to be learnt better.

Letters: B pairs, N places of a source, M of a target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

Tokens = Sequence[int]  # ids, none below 0
Pair = tuple[Tokens, Tokens]  # the source and the target
_CELLS = 1 << 19  # of the table of pairs that are worked on together; 8 bytes each
_MOST_CELLS = 1 << 24  # of a pair: some 4,000 tokens on both sides
_AS_LISTS = 1 << 20  # cells of a table that is read as lists
_NEVER = -(2**30)


class Edits(NamedTuple):
    """A script: what becomes of each token of a source, and what is written."""

    keeps: list[bool]  # of each token of the source
    counts: list[int]  # of the tokens written before each, and, last, at the end
    written: list[int]  # all of them, in their order


class TokenEdit(NamedTuple):
    """The tokens source[start:end] become `new`."""

    start: int
    end: int
    new: tuple[int, ...]


def token_edits(edits: Edits) -> list[TokenEdit]:
    """A script as edits, each between two tokens that are kept or the text's ends."""
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
    """The scripts that make the target of each (source, target), in their order."""
    for block in _blocks(pairs):
        source, target = block[0]  # alone, if it is a long one
        if (len(source) + 1) * (len(target) + 1) > _MOST_CELLS:
            yield _replaced(source, target)
            continue
        values = _values(block)
        for (source, target), own in zip(block, values, strict=True):
            yield _script(source, target, own)


def _blocks(pairs: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    """The pairs, as many together as a table has room for, or a long one alone."""
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

    All but what both begin and end with is deleted and written.
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
    """The best script of a pair; values: see `_values`, of this pair."""
    size, goal = len(source), len(target)
    own: Any = values[:, -size - 1 :, -goal - 1 :]
    if own.size <= _AS_LISTS:
        own = own.tolist()  # faster, and in a large table most is never looked at
    keeps, counts, written = [False] * size, [0] * (size + 1), list[int]()
    at = place = slot = opened = 0  # slot: where what is written now stands
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
    """The target of a script."""
    made, used = list[int](), 0
    for number, count in enumerate(edits.counts):
        made += edits.written[used : used + count]
        used += count
        if number < len(source) and edits.keeps[number]:
            made.append(source[number])
    return made


def _values(pairs: Sequence[Pair]) -> np.ndarray:
    """The value of the best script of every rest of both texts: int32 [B, 2, N, M].

    N, M: 1 + the tokens of the longest source and target. Texts end at the last place,
    so that those of all pairs end together. A value is, for each token that is kept,
    more than all places together, less the places at which something is written. The
    second index is 1 where a token was written behind the last one that is kept: the
    next one then takes no further place.
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
        # To write is free now: the best of all rests of the target.
        opened[:] = np.maximum.accumulate(opened[:, ::-1], 1)[:, ::-1]
        np.maximum(new[:, :-1], kept, out=new[:, :-1])
        np.maximum(new[:, :-1], opened[:, 1:] - 1, out=new[:, :-1])
    return values


def _at_the_end(texts: Sequence[Tokens]) -> np.ndarray:
    """int64 [B, most tokens], behind what is no token."""
    filled = np.full((len(texts), max(map(len, texts))), -1, np.int64)
    for row, tokens in zip(filled, texts, strict=True):
        row[len(row) - len(tokens) :] = tokens
    return filled
