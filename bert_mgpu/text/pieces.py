"""The places of a text's pieces."""

from __future__ import annotations


def cover_dropped(text: str, places: list[list[int]]) -> None:
    """Extends pieces over the characters after them that belong to none: accents.

    places: the start and excluded end of each piece, in text order; changed in place.
    """
    starts = [start for start, _ in places[1:]]
    for place, following in zip(places, [*starts, len(text)], strict=False):
        while place[1] < following and not text[place[1]].isspace():
            place[1] += 1
