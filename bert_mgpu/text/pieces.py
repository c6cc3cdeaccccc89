"""The places of a text's pieces."""

from __future__ import annotations


def take_dropped(text: str, places: list[list[int]]) -> None:
    """Lets pieces end behind characters that belong to none, such as accents.

    places: the start and the excluded end of each, in the order of the text.
    """
    starts = [start for start, _ in places[1:]]
    for place, following in zip(places, [*starts, len(text)], strict=False):
        while place[1] < following and not text[place[1]].isspace():
            place[1] += 1
