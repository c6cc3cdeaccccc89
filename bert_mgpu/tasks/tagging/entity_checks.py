"""Tables of the entities of sets, and warnings about those that are likely mistakes."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence

import numpy as np

from bert_mgpu.core import terminal
from bert_mgpu.core.errors import listed, short_repr
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.tasks.tagging import bio
from bert_mgpu.tasks.tagging.dataset import ENTITIES, UNITS, in_units, sentences

_NUMBER_WIDTH = 12  # characters of a column
_FEW = 8  # entities of a type: with fewer, it can hardly be learnt
_ONE_ROW = 200  # a file of a single row with more units is suspicious
_NAMES = 5  # maximum number of types, or mentions, in a warning


def tables(sets: Sequence[CheckedSet], tags: Sequence[str]) -> list[str]:
    """Two tables by set: entities of each type; rows and lengths of entities."""
    names = ["", *(checked.split for checked in sets)]
    lines = [["type", *names[1:]]]
    counts = [_counts(checked, tags) for checked in sets]
    for index, kind in enumerate(bio.types_of(tags)):
        lines.append([kind, *(str(count[index]) for count in counts)])
    lines.append(["all", *(str(count.sum()) for count in counts)])
    facts = [names]
    for name, values in (
        ("rows without an entity", [_empty(checked) for checked in sets]),
        ("rows of several windows", [_long(checked) for checked in sets]),
        ("entities that no tokens fit", [_between(checked) for checked in sets]),
    ):
        facts.append([name, *map(str, values)])
    for percent in (50, 90, 100):
        name = f"{percent} % have at most (characters per entity)"
        facts.append([name, *(_length(checked, percent) for checked in sets)])
    widths = [_NUMBER_WIDTH] * len(sets)
    return [terminal.align(table, widths) for table in (lines, facts)]


def warnings(
    checked: CheckedSet, tags: Sequence[str], *, word_lines: bool = False
) -> Iterator[str]:
    """A line for each likely mistake in a labelled set.

    word_lines: whether each word of a sentence has a line of its own.
    """
    if not checked.labelled:
        return
    counts, types = _counts(checked, tags), bio.types_of(tags)
    absent = [kind for kind, count in zip(types, counts, strict=True) if not count]
    if absent:
        yield f"{checked.path}: no entity of the type {listed(absent, _NAMES)}"
    if checked.split == "train":
        rare = [f"{kind} ({count})" for kind, count in zip(types, counts, strict=True)
                if 0 < count < _FEW]  # fmt: skip
        if rare:
            yield f"{checked.path}: types with few entities: {listed(rare, _NAMES)}"
    if between := _between(checked):
        recall = 1 - between / max(1, counts.sum())
        yield (
            f"{checked.path}: {between} of {counts.sum()} entities begin or end inside"
            f" a token, so recall is at most {recall:.2%}"
            + ": are their ends inclusive? write exclusive ends"
            * bool(recall < 0.5)
        )
    units = len(checked.features.unread[UNITS].values)
    if len(checked.features.first_rows) == 1 and units > _ONE_ROW:
        yield (
            f"{checked.path}: one row, of {units} words: are the blank lines between"
            " sentences missing?"
        )
    yield from _in_two_ways(checked, types, word_lines)


def _in_two_ways(
    checked: CheckedSet, types: Sequence[str], word_lines: bool
) -> Iterator[str]:
    """Warns of mentions that have several types, with the first place of each type."""
    lines = checked.features.lines[checked.features.first_rows].tolist()
    seen: dict[tuple[int, ...], dict[int, tuple[str, str]]]
    seen = collections.defaultdict(dict)
    for number, (keys, places, entities) in enumerate(sentences(checked.features)):
        for start, end, kind in in_units(entities.tolist(), places):
            found = seen[tuple(keys[start:end])]
            if kind not in found:
                first, last = int(places[start, 0]), int(places[end - 1, 1])
                where = f"line {lines[number]}, characters {first} to {last}"
                if word_lines:
                    where = f"line {lines[number] + start}"
                found[kind] = where, _text(checked, number, slice(first, last))
    several = [kinds for kinds in seen.values() if len(kinds) > 1]
    if several:
        shown = [
            next(text for _, text in kinds.values())
            + " and ".join(f"{types[kind]} ({at})" for kind, (at, _) in kinds.items())
            for kinds in several[:_NAMES]
        ]
        count = f"{len(several)} mention{'s' * (len(several) > 1)}"
        more = len(several) - len(shown)
        rest = f"; and {more} more" if more else ""
        yield f"{checked.path}: {count} with several types: {'; '.join(shown)}{rest}"


def _text(checked: CheckedSet, number: int, place: slice) -> str:
    """What begins the line of a mention: its text, if the examples are at hand."""
    if not checked.examples:
        return ""
    return f"{short_repr(checked.examples[number].text_a[place])} is "


def _counts(checked: CheckedSet, tags: Sequence[str]) -> np.ndarray:
    kinds = checked.features.unread[ENTITIES].values[:, 2]
    return np.bincount(kinds, minlength=len(bio.types_of(tags)))


def _empty(checked: CheckedSet) -> int:
    features = checked.features
    return int((features.unread[ENTITIES].lengths[features.first_rows] == 0).sum())


def _long(checked: CheckedSet) -> int:
    starts = np.append(checked.features.first_rows, len(checked.features))
    return int((np.diff(starts) > 1).sum())


def _between(checked: CheckedSet) -> int:
    return int(checked.features.notes["between"])


def _length(checked: CheckedSet, percent: int) -> str:
    places = checked.features.unread[ENTITIES].values
    if not len(places):
        return "-"
    return str(int(np.percentile(places[:, 1] - places[:, 0], percent)))
