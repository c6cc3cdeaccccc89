"""The rows of tokens from which rewriting is learnt, and by which it is done.

A row is [CLS] context [SEP] source [SEP], or [CLS] source [SEP] without a context.
Tokens of segment 1 are in the rewritten text; those of segment 0 are only read: the
context, and deleted tokens of the source, which stay in place. In the row that is
tagged, nothing is deleted or written yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bert_mgpu.text.tokenization import Tokenizer


class RewriteRow(NamedTuple):
    """A row of tokens; positions are those in the row."""

    input_ids: list[int]
    segment_ids: list[int]
    tokens: list[int]  # positions of the source's tokens that fit, and of its end
    written: list[int]  # positions of what is written


class Special(NamedTuple):
    """Ids of tokens that stand for no text."""

    cls: int
    sep: int
    mask: int
    unk: int


def special_of(tokenizer: Tokenizer) -> Special:
    """The special tokens' ids. Raises UserError if the vocabulary has no [MASK]."""
    return Special(
        cls=tokenizer.cls_id,
        sep=tokenizer.sep_id,
        mask=tokenizer.mask_id,
        unk=tokenizer.unk_id,
    )


def room_of(context: Sequence[int] | None, max_length: int) -> int:
    """The most tokens that a row has for its source and for what is written."""
    return max_length - (2 if context is None else 3)


def slots_with_room(slots: Sequence[int], *, size: int, room: int) -> list[int]:
    """The slots that a row has room for: each gets one token at least.

    All tokens up to the last of them are in the row, and the one behind it.

    Args:
      slots: tokens before which slots stand, in order; `size` at the end of the text.
      size: tokens of the source.
      room: that of the row, see `room_of`.
    """
    return [
        slot
        for before, slot in enumerate(slots)
        if slot + before + 1 + (slot < size) <= room
    ]


def layout(
    context: Sequence[int] | None,
    source: Sequence[int],
    special: Special,
    *,
    max_length: int,
    keeps: Sequence[bool] = (),
    counts: Sequence[int] = (),
    written: Sequence[int] = (),
) -> RewriteRow:
    """The row of a source, with what is deleted and written.

    If it exceeds max_length, the beginning of the context is left out first, then
    tokens from the end of the source, with what is written there.

    Args:
      context: tokens that are only read; None: there is no such text.
      keeps: whether each token of the source is kept; empty: all are.
      counts: tokens written before each token and at the end; empty: none.
      written: all written tokens, in their order.
    """
    keeps = keeps or [True] * len(source)
    counts = counts or [0] * (len(source) + 1)
    room = room_of(context, max_length)
    ids, segments = list[int](), list[int]()
    tokens, places, used, fits = list[int](), list[int](), 0, True
    for number, count in enumerate(counts):
        is_end = number == len(source)
        if len(ids) + count + (not is_end) > room:
            fits = False
            break
        places += range(len(ids), len(ids) + count)
        ids += written[used : used + count]
        segments += [1] * count
        used += count
        if not is_end:
            tokens.append(len(ids))
            ids.append(source[number])
            segments.append(int(keeps[number]))
    before = [special.cls]
    if context is not None:
        left = room - len(ids)
        before += [*context[max(0, len(context) - left) :], special.sep]
    shift = len(before)
    end = [shift + len(ids)] if fits else []
    return RewriteRow(
        input_ids=[*before, *ids, special.sep],
        segment_ids=[*[0] * shift, *segments, 1],
        tokens=[*(shift + token for token in tokens), *end],
        written=[shift + place for place in places],
    )
