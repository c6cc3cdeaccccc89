"""The entities of a set in report.html: which ones are wrong, and in what way."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from bert_mgpu.core.report import (
    Block,
    ConfusionMatrix,
    Mistake,
    Mistakes,
    ReportTable,
    SetReport,
)
from bert_mgpu.tasks.tagging import bio, metrics
from bert_mgpu.tasks.tagging.bio import Span
from bert_mgpu.tasks.tagging.decoding import TaggedSet

Pair = tuple[Span | None, Span | None]  # the true entity, the predicted one
NOTHING = "nothing"  # in place of the type of a missing counterpart
_LONGEST_TEXT = 400  # characters shown of a sentence
# Verdicts on a pair; the last two are for entities without a counterpart.
_KINDS = ("correct", "boundary", "type", "boundary and type", "missed", "spurious")


def of_set(scored: TaggedSet) -> SetReport:
    """The report of a labelled set."""
    every = [
        [*matched(true, predicted)]
        for true, predicted in zip(scored.true_entities, scored.entities, strict=True)
    ]
    pairs = [*itertools.chain.from_iterable(every)]
    types = bio.types_of(scored.tags)
    counts = metrics.count(scored.true_entities, scored.entities)
    names = [*types, NOTHING]
    blocks: list[Block] = [
        ReportTable(metrics.cells(counts), "wnnnn"),
        "errors by type: an entity is correct if its position and type are",
        ReportTable(_kinds(pairs, types), "w" + "n" * len(_KINDS)),
        ConfusionMatrix(confusion(pairs, names), names, counted="entities"),
    ]
    return SetReport(blocks, _mistakes(scored, every, names))


def matched(true: Sequence[Span], predicted: Sequence[Span]) -> Iterator[Pair]:
    """Pairs true and predicted entities; None stands for a missing counterpart.

    Overlapping ones are paired from left to right. (Entities of one side never overlap,
    so one with the same place on the other side overlaps nothing else there.)
    """
    right = collections.deque(sorted(predicted))
    missed, spurious = list[Span](), list[Span]()
    for one in sorted(true):
        while right and right[0].end <= one.start:
            spurious.append(right.popleft())
        if right and right[0].start < one.end:
            yield one, right.popleft()
        else:
            missed.append(one)
    yield from ((one, None) for one in missed)
    yield from ((None, one) for one in (*spurious, *right))


def kind_of(true: Span | None, predicted: Span | None) -> str:
    """The verdict on a pair: one of _KINDS."""
    if true is None or predicted is None:
        return "spurious" if true is None else "missed"
    same_type = true.type == predicted.type
    if _same_place(true, predicted):
        return "correct" if same_type else "type"
    return "boundary" if same_type else "boundary and type"


def confusion(pairs: Sequence[Pair], names: Sequence[str]) -> np.ndarray:
    """Counts pairs by true type (row) and predicted type (column): int64 [K, K].

    names: the types and NOTHING. Pairs whose borders differ count, too.
    """
    counts = np.zeros((len(names), len(names)), np.int64)
    for true, predicted in pairs:
        counts[_place((true, predicted), names)] += 1
    return counts


def _place(pair: Pair, names: Sequence[str]) -> tuple[int, int]:
    """The row and the column of the confusion matrix for a pair."""
    true, predicted = (names.index(one.type if one else NOTHING) for one in pair)
    return true, predicted


def _same_place(one: Span, other: Span) -> bool:
    return one[:2] == other[:2]


def _kinds(pairs: Sequence[Pair], types: Sequence[str]) -> list[tuple[object, ...]]:
    """The number of pairs of each kind by type: the true one, if there is one."""
    counts = collections.Counter(
        ((true or predicted or Span(0, 0, "")).type, kind_of(true, predicted))
        for true, predicted in pairs
    )
    lines: list[tuple[object, ...]] = [("type", *_KINDS)]
    lines += [(name, *(counts[name, kind] for kind in _KINDS)) for name in types]
    return lines


def _mistakes(
    scored: TaggedSet, pairs: Sequence[Sequence[Pair]], names: Sequence[str]
) -> Mistakes:
    """The wrongly tagged sentences, with their entities in brackets."""
    wrong = [
        true != predicted
        for true, predicted in zip(scored.true_entities, scored.entities, strict=True)
    ]
    numbers = np.flatnonzero(np.array(wrong, bool))
    order = numbers[np.argsort(-scored.losses[numbers], kind="stable")]
    found = []
    for number in order.tolist():
        text, true = scored.examples[number].text_a, scored.true_entities[number]
        cells = marked(text, true), marked(text, scored.entities[number])
        truth = [
            {**span._asdict(), "text": text[span.start : span.end]} for span in true
        ]
        places = {
            _place(pair, names) for pair in pairs[number] if kind_of(*pair) != "correct"
        }
        found.append(Mistake(number, cells, truth, places=sorted(places)))
    columns = ("true entities", "predicted entities")
    return Mistakes(columns, "tt", "the highest loss", worst_first=found)


def marked(text: str, spans: Sequence[Span]) -> str:
    """A text, shortened if long, with its entities and their types in brackets."""
    parts, end = list[str](), 0
    for span in spans:
        parts += [
            text[end : span.start],
            f"[{text[span.start : span.end]} {span.type}]",
        ]
        end = span.end
    whole = "".join(parts) + text[end:]
    return whole if len(whole) <= _LONGEST_TEXT else f"{whole[:_LONGEST_TEXT]} ..."
