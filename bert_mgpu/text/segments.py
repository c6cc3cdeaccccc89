"""Long texts as rows of several segments, [CLS] .. [SEP] each, one after the other.

Every segment but the last is full, so that token p of a row belongs to segment
p // length, without any further column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Segments(NamedTuple):
    """How a text is cut into segments."""

    length: int  # tokens of a segment, [CLS] and [SEP] included
    most: int = 1  # segments of a row
    doc_stride: int | None = None  # as the flag has it; None: nothing overlaps

    @property
    def room(self) -> int:
        """The number of text tokens that a segment has room for."""
        return self.length - 2

    @property
    def stride(self) -> int:
        """The number of tokens from the start of a segment to that of the next one."""
        return self.doc_stride or self.room

    @property
    def budget(self) -> int:
        """The number of text tokens that a row has room for."""
        return self.room + (self.most - 1) * self.stride

    @property
    def longest(self) -> int:
        """The length of the longest uncut text, with [CLS] and [SEP] counted once."""
        return self.budget + 2

    def row(self, ids: Sequence[int], cls_id: int, sep_id: int) -> list[int]:
        """The row of a text of at most `budget` tokens."""
        beyond = max(0, len(ids) - self.room)  # the first segment
        starts = range(0, beyond + self.stride, self.stride)
        return [
            token
            for start in starts
            for token in (cls_id, *ids[start : start + self.room], sep_id)
        ]
