"""Notations of entities as tags of units (BIO, IOB1 and BIOES), and entity spans.

BIO (IOB2) begins every entity with B- and continues it with I-. IOB1 (Ramshaw & Marcus
1995) writes B- only where an entity of the same type ends just before. BIOES ends
entities of several units with E- and writes S- for a single unit; BILOU (L-, U-) and
BMES (M-) are the same with other letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.config.tagging import BEGIN, BIO, BIOES, IOB1, LEAVE_OUT
from bert_mgpu.core.errors import short_repr

OUTSIDE = "O"

_SAME = {"M": "I", "L": "E", "U": "S"}  # of BILOU and BMES -> of BIOES
_ONLY_BIOES = "EMLSU"
_LETTERS = {BIO: "BI", IOB1: "BI", BIOES: f"BI{_ONLY_BIOES}"}
_TAG = re.compile(r"([A-Za-z])[-_](.+)", re.DOTALL)
_ALIKE = {"0": "zero", "o": "a small letter"}  # often written instead of O


class Span(NamedTuple):
    """An entity: its place, in units or in characters of the text, and its type."""

    start: int
    end: int  # excluded
    type: str


class TagFault(NamedTuple):
    """A tag that the notation, or the model, does not allow where it stands."""

    unit: int | None  # None: somewhere in the sentence
    message: str
    repairable: bool = True


class ReadTags(NamedTuple):
    """The entities of a sentence, after repair, and the faults of its tags."""

    spans: list[Span]
    faults: list[TagFault]


def is_tag(text: str) -> bool:
    """Whether a text looks like a tag of some notation."""
    match = _TAG.fullmatch(text)
    return text == OUTSIDE or bool(match and match[1] in f"BI{_ONLY_BIOES}")


def scheme_of(tags: Iterable[str]) -> str:
    """BIOES if a file's tags have a letter that only BIOES has, else BIO."""
    letters = {match[1] for match in map(_TAG.fullmatch, set(tags)) if match}
    return BIOES if letters & {*_ONLY_BIOES} else BIO


def read_spans(tags: Sequence[str], scheme: str, repair: str = BEGIN) -> ReadTags:
    """Reads the tags of a sentence in one of `config.tagging.FILE_SCHEMES`.

    repair: where a tag continues no entity, BEGIN starts one, as conlleval does, and
    LEAVE_OUT leaves the unit out. An entity that lacks its E- ends with its last unit.
    """
    spans: list[Span] = []
    faults: list[TagFault] = []
    start, open_type = 0, None  # of the entity not yet closed
    sound = True  # whether it began with a valid tag

    def close(end: int, *, ended: bool) -> None:
        nonlocal open_type
        if open_type is None:
            return
        spans.append(Span(start, end, open_type))
        if scheme == BIOES and sound and not ended:
            why = f"{short_repr(tags[end - 1])} has no E-{open_type} after it"
            single = f": write S-{open_type} for one unit alone"
            faults.append(TagFault(end - 1, why + single * (end - start == 1)))
        open_type = None

    for index, tag in enumerate(tags):
        letter, kind = _parsed(tag, scheme)
        goes_on = letter in ("I", "E")
        if not (goes_on and kind == open_type):
            close(index, ended=goes_on)
            if letter is None:
                if tag != OUTSIDE:
                    faults.append(_not_a_tag(index, tag, scheme))
                continue
            sound = not goes_on or scheme == IOB1
            if not sound:
                faults.append(TagFault(index, _orphan(tags, index, kind)))
                if repair == LEAVE_OUT:
                    continue
            start, open_type = index, kind
        if letter in ("E", "S"):
            close(index + 1, ended=True)
    close(len(tags), ended=False)
    return ReadTags(spans, faults)


def write_tags(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """The tags of a sentence of `length` units in one of `config.tagging.FILE_SCHEMES`.

    spans: in order, without overlaps.
    """
    tags = [OUTSIDE] * length
    before = Span(0, 0, "")
    for start, end, kind in spans:
        tags[start:end] = [f"I-{kind}"] * (end - start)
        follows = (before.end, before.type) == (start, kind)
        if scheme != IOB1 or (follows and before.end > before.start):
            tags[start] = f"B-{kind}"
        if scheme == BIOES:
            tags[end - 1] = f"E-{kind}" if end - start > 1 else f"S-{kind}"
        before = Span(start, end, kind)
    return tags


def tags_of(types: Iterable[str], scheme: str) -> list[str]:
    """The classes of a model: O, then the tags of each type in turn."""
    letters = "BI" if scheme == BIO else "BIES"
    return [OUTSIDE, *(f"{letter}-{kind}" for kind in types for letter in letters)]


def types_of(labels: Sequence[str]) -> list[str]:
    """The entity types of a model's tags, in order; labels that are types are kept.

    O is never a type, whatever other labels there are.
    """
    named = [label for label in labels if label != OUTSIDE]
    if not (all(map(is_tag, named)) and any(tag[0] in "BS" for tag in named)):
        return named
    types = [*dict.fromkeys(tag[2:] for tag in named)]
    # Types may look like tags: "E-commerce" and "S-Bahn".
    return types if len(named) < len(labels) or len(types) < len(named) else named


def is_whole(labels: Sequence[str]) -> bool:
    """Whether the labels are O and every tag of their types in one scheme."""
    return {*labels} == {*tags_of(types_of(labels), scheme_of(labels))}


class Rules(NamedTuple):
    """Which tags may follow one another, begin a sentence or end one."""

    follow: np.ndarray  # bool [L, L]: row: a tag; column: the next one
    first: np.ndarray  # bool [L]
    last: np.ndarray  # bool [L]


def rules_of(tags: Sequence[str]) -> Rules:
    """The rules for the L tags that `tags_of` returned, by their scheme."""
    begins = np.array([tag[0] in "OBS" for tag in tags])
    ends = np.array([tag[0] in "OES" for tag in tags])
    if not any(tag[0] == "E" for tag in tags):  # BIO: an entity may end anywhere
        ends = np.ones(len(tags), bool)
    same_type = np.array([[a[1:] == b[1:] for b in tags] for a in tags])
    is_open = np.array([tag[0] in "BI" for tag in tags])
    goes_on = is_open[:, None] & ~begins[None, :] & same_type
    return Rules((ends[:, None] & begins[None, :]) | goes_on, begins, ends)


def _parsed(tag: str, scheme: str) -> tuple[str | None, str | None]:
    """The letter (B, I, E or S) and the type of a tag; two Nones for O or a non-tag."""
    match = _TAG.fullmatch(tag)
    if match is None or match[1] not in _LETTERS[scheme] or not _is_name(match[2]):
        return None, None
    return _SAME.get(match[1], match[1]), match[2]


def _is_name(kind: str) -> bool:
    """Whether a type can be written to files with whitespace-separated columns."""
    return kind.isprintable() and " " not in kind


def _not_a_tag(index: int, tag: str, scheme: str) -> TagFault:
    name = short_repr(tag)
    match = _TAG.fullmatch(tag)
    if match and not _is_name(match[2]):
        why = f"{short_repr(match[2])} is no type: write a name without blanks"
        return TagFault(index, f"{name}: {why}", repairable=False)
    if tag in _ALIKE:
        return TagFault(index, f"{name} ({_ALIKE[tag]}) where 'O' is meant")
    letters = ", ".join(f"{letter}-TYPE" for letter in _LETTERS[scheme])
    why = f"{name} is not a tag of {scheme.upper()}: write O, {letters}"
    return TagFault(index, why, repairable=False)


def _orphan(tags: Sequence[str], index: int, kind: str | None) -> str:
    tag, before = tags[index], tags[index - 1] if index else None
    match = before and _TAG.fullmatch(before)
    if match and match[2] != kind and match[1] in "BIM":
        return f"{short_repr(tag)} after {short_repr(before)}: the type changes inside"
    return f"{short_repr(tag)} without a B-{kind} before it"
