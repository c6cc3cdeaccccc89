"""The entity spans of a text, as files write them, and checks for mistakes in them.

A span is a list [start, end, type], or an object like those of doccano, spaCy's tools
and this project's predictions; CLUENER groups them as {type: {mention: [[start, last],
...]}}, where the last character is included.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bert_mgpu.core.errors import short_repr
from bert_mgpu.tasks.tagging.bio import Span

_STARTS = ("start", "start_offset")  # alternative keys of an object
_ENDS = ("end", "end_offset")
_TYPES = ("type", "label")
_MENTIONS = ("text", "mention")
_NEAR = 3  # characters by which a place may be off for advice to be given


class Given(NamedTuple):
    """A span as a file has it, with unchecked values."""

    start: Any
    end: Any  # excluded
    type: Any
    mention: Any = None  # its text, if the file has it
    ends: Any = 0  # 1: the file gives the last character, not the end

    @property
    def span(self) -> Span:
        return Span(self.start, self.end, self.type)


def given(label: Any) -> Iterator[Given]:
    """Yields a label's spans. Raises ValueError if it has none of the three forms."""
    if isinstance(label, Mapping):
        for kind, mentions in label.items():
            if not isinstance(mentions, Mapping):
                raise ValueError(_shape(mentions))
            for mention, places in mentions.items():
                for place in places if isinstance(places, list) else [places]:
                    if not (isinstance(place, list) and len(place) == 2):
                        raise ValueError(_shape(place))
                    start, last = place
                    end = last + 1 if _is_int(last) else last
                    yield Given(start, end, kind, mention=mention, ends=1)
        return
    if not isinstance(label, list):
        raise ValueError(_shape(label))
    for span in label:
        if isinstance(span, list) and len(span) == 3:
            yield Given(*span)
        elif isinstance(span, Mapping):
            yield Given(
                *(
                    next((span[key] for key in keys if key in span), None)
                    for keys in (_STARTS, _ENDS, _TYPES, _MENTIONS)
                )
            )
        else:
            raise ValueError(_shape(span))


def _shape(value: Any) -> str:
    return f"{short_repr(value)} is no span: write [start, end, type], end excluded"


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def fault(text: str, given: Given) -> str | None:
    """What is wrong with a span of a text; None if nothing is."""
    start, end, kind, mention, ends = given
    if not (_is_int(start) and _is_int(end)):
        return _shape([start, end, kind])
    if not (isinstance(kind, str) and kind and kind.isprintable()) or " " in kind:
        return f"{short_repr(kind)} is no type: write a name without blanks"
    name = f"the span {start} to {end} ({kind})"
    if start >= end:
        return f"{name} is empty: its end is excluded"
    if start < 0 or end > len(text):
        return f"{name} is outside of the text, which has {len(text)} characters"
    own = text[start:end]
    if mention is not None and own != mention:
        right = _nearby(text, start, end, mention=str(mention), ends=ends)
        return f"{name} is {short_repr(own)}, not {short_repr(mention)}{right}"
    if own != own.strip():
        return f"{name} is {short_repr(own)}, with a blank at an end"
    return None


def _nearby(text: str, start: int, end: int, *, mention: str, ends: int) -> str:
    """By how much a place is off, and the right one; "" if the mention is not near.

    An empty mention is everywhere, and nowhere.
    """
    if not mention:
        return ""
    for off in sorted(range(-_NEAR, _NEAR + 1), key=abs):
        first = start + off
        if first >= 0 and text.startswith(mention, first):
            right = first + len(mention)
            by = abs(off) or abs(right - end)
            return f": off by {by}: write [{first}, {right - ends}]"
    return ""


def apart(spans: Sequence[Span]) -> tuple[list[Span], list[str]]:
    """Drops spans that overlap a longer or earlier one; also returns their faults."""
    kept, faults = list[Span](), list[str]()  # kept: in text order

    def order(span: Span) -> tuple[int, Span]:
        return span.start - span.end, span

    for span in sorted(spans, key=order):
        # None that is kept is shorter, so it overlaps only those beside its place.
        place = bisect.bisect(kept, span)
        near = kept[max(0, place - 1) : place + 1]
        crossed = [
            each for each in near if each.start < span.end and span.start < each.end
        ]
        other = min(crossed, key=order, default=None)
        if other is None:
            kept.insert(place, span)
            continue
        how = (
            "lies in"
            if other.end >= span.end and other.start <= span.start
            else "crosses"
        )
        faults.append(
            f"the span {span.start} to {span.end} ({span.type}) {how} {other.start} to"
            f" {other.end} ({other.type})"
        )
    return kept, faults
