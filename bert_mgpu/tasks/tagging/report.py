"""The sections of report.html on a set of entities, and what its errors are."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_mgpu.core.report import ConfusionMatrix, ReportSection, ReportTable
from bert_mgpu.tasks.tagging import bio, metrics
from bert_mgpu.tasks.tagging.bio import Span
from bert_mgpu.tasks.tagging.decoding import TaggedSet

NOTHING = "nothing"  # in the place of a type
_MAX_SHOWN, _LONGEST_TEXT = 20, 400  # sentences; characters of one
# What may be wrong with an entity; the last two have no counterpart.
_KINDS = ("right", "border", "type", "border and type", "missed", "invented")


def sections(
    name: str, scored: TaggedSet, scores: Mapping[str, Any], *, path: pathlib.Path
) -> list[ReportSection]:
    """The sections of a set, whose texts are read where there are errors."""
    rows: list[tuple[object, ...]] = [("score", "value")]
    rows += [(key, f"{value:.4f}") for key, value in scores.items()]
    pairs = [
        pair
        for true, said in zip(scored.true_entities, scored.entities, strict=True)
        for pair in matched(true, said)
    ]
    types = bio.types_of(scored.tags)
    counts = metrics.count(scored.true_entities, scored.entities)
    blocks: list[Any] = [
        f"{len(scored)} rows of {path}",
        ReportTable(rows, "wn"),
        ReportTable(metrics.cells(counts), "wnnnn"),
        "errors by type: an entity is right where place and type are",
        ReportTable(_kinds(pairs, types), "w" + "n" * len(_KINDS)),
        ConfusionMatrix(
            confusion(pairs, types), [*types, NOTHING], name, counted="entities"
        ),
    ]
    return [
        ReportSection(name, blocks),
        ReportSection(f"{name}: worst sentences", [_worst(scored, path)]),
    ]


def matched(
    true: Sequence[Span], said: Sequence[Span]
) -> Iterator[tuple[Span | None, Span | None]]:
    """Pairs of a true and a predicted entity; None where one has no counterpart.

    Those that overlap go together, from left to right. (Entities of one side do not
    overlap, so one that has its place on the other side overlaps nothing else there.)
    """
    left, right = [*true], [*said]
    for one in true:
        other = next((each for each in right if _overlap(one, each)), None)
        if other is not None:
            left.remove(one)
            right.remove(other)
            yield one, other
    for one in left:
        yield one, None
    for one in right:
        yield None, one


def kind_of(true: Span | None, said: Span | None) -> str:
    """One of _KINDS."""
    if true is None or said is None:
        return "invented" if true is None else "missed"
    same_type = true.type == said.type
    if _same_place(true, said):
        return "right" if same_type else "type"
    return "border" if same_type else "border and type"


def confusion(
    pairs: Sequence[tuple[Span | None, Span | None]], types: Sequence[str]
) -> np.ndarray:
    """Pairs by true type (down) and predicted one (across), with nothing: int [K, K].

    Those of other borders count, too.
    """
    names = [*types, NOTHING]
    counts = np.zeros((len(names), len(names)), np.int64)
    for true, said in pairs:
        row, column = (
            names.index(one.type if one else NOTHING) for one in (true, said)
        )
        counts[row, column] += 1
    return counts


def _same_place(one: Span, other: Span) -> bool:
    return one[:2] == other[:2]


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def _kinds(
    pairs: Sequence[tuple[Span | None, Span | None]], types: Sequence[str]
) -> list[tuple[object, ...]]:
    """A line for each type, the true one where there is one."""
    counts = collections.Counter(
        ((true or said or Span(0, 0, "")).type, kind_of(true, said))
        for true, said in pairs
    )
    lines: list[tuple[object, ...]] = [("type", *_KINDS)]
    lines += [(name, *(counts[name, kind] for kind in _KINDS)) for name in types]
    return lines


def _worst(scored: TaggedSet, path: pathlib.Path) -> str | ReportTable:
    """The wrong sentences with the highest losses, and their entities in brackets."""
    wrong = np.array(
        [
            true != said
            for true, said in zip(scored.true_entities, scored.entities, strict=True)
        ],
        bool,
    )
    numbers = np.flatnonzero(wrong)
    if not len(numbers):
        return "none: every entity is right"
    worst = numbers[np.argsort(-scored.losses[numbers], kind="stable")][:_MAX_SHOWN]
    rows: list[tuple[object, ...]] = [("line", "true entities", "predicted entities")]
    for number in worst.tolist():
        example = scored.examples[number]
        rows.append(
            (
                example.line,
                marked(example.text_a, scored.true_entities[number]),
                marked(example.text_a, scored.entities[number]),
            )
        )
    note = (
        f"the {len(worst)} with the highest loss of {len(numbers)} with a mistake;"
        f" lines of {path}"
    )
    return ReportTable(rows, "ntt", note=note)


def marked(text: str, spans: Sequence[Span]) -> str:
    """A text whose entities stand in brackets, each with its type."""
    parts, end = list[str](), 0
    for span in spans:
        parts += [
            text[end : span.start],
            f"[{text[span.start : span.end]} {span.type}]",
        ]
        end = span.end
    whole = "".join(parts) + text[end:]
    return whole if len(whole) <= _LONGEST_TEXT else f"{whole[:_LONGEST_TEXT]} ..."
