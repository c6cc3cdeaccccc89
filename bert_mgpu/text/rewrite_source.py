"""A text to rewrite: its tokens, and the slots that its markers stand for."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from typing import NamedTuple

from bert_mgpu.text.pieces import cover_dropped
from bert_mgpu.text.tokenization import Tokenizer

Place = tuple[int, int]  # the start and the excluded end, in characters


class RewriteSource(NamedTuple):
    """A text to rewrite. Letters: N tokens."""

    text: str  # with its slot markers
    slots: list[Place]  # places of the markers, which are not tokens
    ids: list[int]  # of the tokens [N]
    places: list[Place]  # of the tokens [N], in order, with dropped accents

    def word(self, token: int) -> str:
        """The characters of a token."""
        start, end = self.places[token]
        return self.text[start:end]

    @property
    def slot_tokens(self) -> list[int]:
        """For each slot the token before which it stands; N at the end of the text."""
        starts = [start for start, _ in self.places]
        return [bisect.bisect_left(starts, slot) for slot, _ in self.slots]


def source_of(text: str, tokenizer: Tokenizer, slot_marker: str = "") -> RewriteSource:
    """A text with its tokens and slots; slot markers separate words, as spaces do."""
    slots = []
    if slot_marker:
        slots = [match.span() for match in re.finditer(re.escape(slot_marker), text)]
    blank = blanked(text, slots)
    located = tokenizer.ids_with_offsets(blank)
    places = [[start, end] for _, start, end in located]
    cover_dropped(blank, places)
    return RewriteSource(
        text,
        slots,
        ids=[index for index, _, _ in located],
        places=[(start, end) for start, end in places],
    )


def blanked(text: str, slots: Sequence[Place]) -> str:
    """The text with spaces for the slot markers; all places stay the same."""
    parts, done = list[str](), 0
    for start, end in slots:
        parts += [text[done:start], " " * (end - start)]
        done = end
    return "".join([*parts, text[done:]])
