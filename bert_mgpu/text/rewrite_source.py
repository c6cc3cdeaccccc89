"""A text to rewrite: its tokens, and the slots that its markers stand for."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from bert_mgpu.text.pieces import cover_dropped
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.words import is_unspaced_script

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


def parted_at_slots(source: RewriteSource, target: str) -> str:
    """The target with spaces around what stands in the slots, as the source is read.

    Only in scripts without spaces, such as kana, since in others a slot stands for
    whole words. A slot ends as early as possible; adjacent slots are one. Unchanged if
    the target is not the source with something written in each slot, but for case and
    for blanks at slots and ends.
    """
    borders = [0, *itertools.chain(*source.slots), len(source.text)]
    ends = zip(borders[::2], borders[1::2], strict=True)
    first, *rest = (_folded(source.text[a:b].strip()) for a, b in ends)
    text = target.strip()
    folded = _folded(text)
    if not folded.startswith(first):
        return target
    made, place = text[: len(first)], len(first)
    for number, part in enumerate(rest, 1):
        is_last = number == len(rest)
        if not part and not is_last:
            continue
        end = folded.find(part, place + 1)
        if is_last:
            end = len(text) - len(part) if folded.endswith(part) else -1
        if end <= place:
            return target
        made += _gap(text, place) + text[place:end] + _gap(text, end)
        place = end + len(part)
        made += text[end:place]
    return made


def _folded(text: str) -> str:
    """The text in lower case, if it then has as many characters."""
    return lower if len(lower := text.lower()) == len(text) else text


def _gap(text: str, place: int) -> str:
    """A space where a character beside the place belongs to a script without spaces."""
    return " " * any(map(is_unspaced_script, text[max(0, place - 1) : place + 1]))


def blanked(text: str, slots: Sequence[Place]) -> str:
    """The text with spaces for the slot markers; all places stay the same."""
    parts, done = list[str](), 0
    for start, end in slots:
        parts += [text[done:start], " " * (end - start)]
        done = end
    return "".join([*parts, text[done:]])
