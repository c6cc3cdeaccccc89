"""The segments of an ad, and the ad with one of them replaced by a slot.

An ad is cut at delimiters, as in bert-ad's preprocess/generate_dataset.py. In its rows
a slot is a run of quotation marks, as long as the phrase that the row asks about; in
rows for rewriting it is `SLOT_MARKER`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

DELIMITERS = "。！!？，："  # bert-ad's
SLOT_MARKER = "[SLOT]"
SLOT_CHARACTER = "“"  # the Chinese vocabulary lacks it: it becomes [UNK]


class AdSegment(NamedTuple):
    """A segment: the text between two delimiters, without surrounding whitespace."""

    text: str
    start: int  # in characters of the ad
    end: int
    number: int  # how many delimiters are before it, as bert-ad's reader counts

    @property
    def is_slot(self) -> bool:
        """Whether a run of SLOT_CHARACTER fills it."""
        return not self.text.strip(SLOT_CHARACTER)


def segments(ad: str, delimiters: str = DELIMITERS) -> list[AdSegment]:
    """The segments of an ad that are not blank."""
    cut: list[AdSegment] = []
    at = 0
    for number, piece in enumerate(re.split(f"[{re.escape(delimiters)}]", ad)):
        if text := piece.strip():
            start = at + piece.index(text)
            cut.append(AdSegment(text, start, start + len(text), number=number))
        at += len(piece) + 1
    return cut


def has_slot(ad: str, cut: list[AdSegment]) -> bool:
    """Whether an ad contains anything that would be taken for a slot."""
    return SLOT_MARKER in ad or any(segment.is_slot for segment in cut)


def with_slot(ad: str, segment: AdSegment, phrase: str) -> str:
    """The ad with this segment replaced by a slot as long as the phrase."""
    slot = SLOT_CHARACTER * len(phrase)
    return ad[: segment.start] + slot + ad[segment.end :]


def marked(ad: str, segment: AdSegment) -> str:
    """The ad with this segment replaced by the slot marker."""
    return ad[: segment.start] + SLOT_MARKER + ad[segment.end :]


def without(ad: str, segment: AdSegment, delimiters: str = DELIMITERS) -> str:
    """The ad without this segment and the delimiter after it, or else before it."""
    before, after = ad[: segment.start], ad[segment.end :]
    for end, character in enumerate(after, 1):
        if character in delimiters:
            return before + after[end:].lstrip()
    return before[: max(0, *map(before.rfind, delimiters))]


def beside(ad: str, main: str, delimiters: str = DELIMITERS) -> list[str] | None:
    """The texts before and after the main part; None if the ad does not contain that.

    One delimiter is stripped from each of their ends, as in bert-ad's get_matches.
    """
    start = ad.find(main)
    if start < 0:
        return None
    ends = ad[:start], ad[start + len(main) :]
    return [text for end in ends if (text := _stripped(end.strip(), delimiters))]


def _stripped(text: str, delimiters: str) -> str:
    if text[:1] and text[0] in delimiters:
        text = text[1:]
    if text[-1:] and text[-1] in delimiters:
        text = text[:-1]
    return text.strip()
