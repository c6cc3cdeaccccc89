"""Tags of tokens: whether one is kept, and how many tokens are written before it.

With at most max_insert tokens written at one place, tag n keeps a token and tag
max_insert + 1 + n deletes it, both with n tokens written before it. So there are
C = 2 (max_insert + 1) tags; ids in a column are 1 + the tag, 0 where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bert_mgpu.text.edits import Edits


def count(max_insert: int) -> int:
    """The number of tags, C."""
    return 2 * (max_insert + 1)


def of_edits(edits: Edits, max_insert: int) -> list[int] | None:
    """The tag of each token and of the end; None if a place gets too many tokens.

    The end is always kept.
    """
    if max(edits.counts) > max_insert:
        return None
    keeps = [*edits.keeps, True]
    return [
        before + (0 if kept else max_insert + 1)
        for before, kept in zip(edits.counts, keeps, strict=True)
    ]


def read(tags: np.ndarray, max_insert: int) -> tuple[list[bool], list[int]]:
    """Whether each token is kept, and how many tokens are written before it."""
    deletes, counts = np.divmod(tags, max_insert + 1)
    return (deletes == 0).tolist(), counts.tolist()


def slot_edits(
    source: Sequence[int], slots: Sequence[int], target: Sequence[int]
) -> Edits | None:
    """The script that writes only at the slots; each ends as early as possible.

    None if the target is not the source with something written in each slot.
    """
    borders = [0, *slots, len(source)]
    parts = [[*source[a:b]] for a, b in zip(borders, borders[1:], strict=False)]
    counts, written, place = [0] * (len(source) + 1), list[int](), len(parts[0])
    if [*target[:place]] != parts[0]:
        return None
    for number, (slot, part) in enumerate(zip(slots, parts[1:], strict=True)):
        last = number == len(slots) - 1
        end = _found(target, part, place + 1, at_end=last)
        if end is None:
            return None
        counts[slot] = end - place
        written += target[place:end]
        place = end + len(part)
    return Edits([True] * len(source), counts, written)


def _found(
    target: Sequence[int], part: Sequence[int], start: int, *, at_end: bool
) -> int | None:
    """Where the part first occurs in the target from start on; at_end: only there."""
    last = len(target) - len(part)
    places = range(max(start, last), last + 1) if at_end else range(start, last + 1)
    return next((p for p in places if [*target[p : p + len(part)]] == [*part]), None)
