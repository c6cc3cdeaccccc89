"""The sections of report.html on an evaluated set, and its lines of errors.jsonl."""

from __future__ import annotations

import collections
import heapq
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bert_mgpu.core import run_files
from bert_mgpu.core.report import (
    MOST_IN_MATRIX,
    ConfusionMatrix,
    Mistake,
    Mistakes,
    ReportTable,
    ScoreCurves,
    SetReport,
)
from bert_mgpu.core.rows import Example
from bert_mgpu.core.task import Trust
from bert_mgpu.evaluation import html, plots

_MAX_WORST = 20  # mistakes that are shown
_MAX_PLACES, _MAX_OF_PLACE = 30, 3  # cells of a matrix; mistakes of each
_MAX_PROBABILITIES, _FEW = 50, 10  # of a line of errors.jsonl; of more labels, a few

Sections = list[tuple[str, str]]
Place = tuple[int, int]


class EvaluatedSet(NamedTuple):
    """A labelled set, its scores and what its task shows about it."""

    name: str
    path: pathlib.Path
    examples: Sequence[Example]  # none, or all
    total: int  # of the examples
    scores: Mapping[str, Any]
    trust: Trust
    baseline: Mapping[str, float]  # the baseline's scores
    shown: SetReport
    records: Sequence[Mapping[str, Any]]  # the predictions, as in predictions.jsonl

    @property
    def mistakes(self) -> Sequence[Mistake]:
        """The examples that are wrong, if the task family lists them."""
        return self.shown.mistakes.worst_first if self.shown.mistakes else []


def sections(
    own: EvaluatedSet, folder: pathlib.Path, *, anchor: str, baseline_name: str
) -> Sections:
    """Two sections: the scores, and what is wrong if the task family lists it.

    folder: for pictures; anchor: the beginning of all anchors of this set and no other.
    """
    mistakes = own.mistakes
    places = collections.Counter(place for one in mistakes for place in one.places)
    shown = [place for place, _ in places.most_common(_MAX_PLACES)]
    anchors = {place: f"{anchor}-{place[0]}-{place[1]}" for place in shown}
    content = [html.note(f"{own.total:,} examples of {own.path}")]
    content.append(_scores(own, baseline_name))
    for block in own.shown.blocks:
        if isinstance(block, ScoreCurves):
            path = folder / f"{block.name}_{own.name}.png"
            plots.scores(path, block)
            words = f"{' and '.join(block.scores)} over {block.setting}"
            content.append(html.image(path, words))
        else:
            content.append(_block(block, anchors))
    found = [(own.name, "\n".join(content))]
    if own.shown.mistakes:
        listed = _mistakes(own, own.shown.mistakes, anchors)
        found.append((f"{own.name}: errors", "\n".join(listed)))
    return found


def _scores(own: EvaluatedSet, baseline_name: str) -> str:
    """Each score beside its interval and the baseline's score, if there are any."""
    intervals, baseline = own.trust.intervals, own.baseline
    heads = ["score", "value", *["95 %"] * bool(intervals)]
    rows: list[list[object]] = [[*heads, *[baseline_name] * bool(baseline)]]
    for name, value in own.scores.items():
        row = [name, number(value)]
        if intervals:
            known = intervals.get(name)
            row.append(f"{known[0]:.4f} to {known[1]:.4f}" if known else "")
        if baseline:
            row.append(number(baseline.get(name)))
        rows.append([*row])
    return html.table(rows, "wnnn")


def number(value: object) -> str:
    """A score, as the page shows it."""
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _block(
    block: str | ReportTable | ConfusionMatrix, anchors: Mapping[Place, str]
) -> str:
    if isinstance(block, str):
        return html.note(block)
    if isinstance(block, ReportTable):
        note = html.note(block.note) if block.note else ""
        return note + html.table(block.rows, block.columns)
    return _confusion(block, anchors)


def _confusion(block: ConfusionMatrix, anchors: Mapping[Place, str]) -> str:
    """The matrix or, with many labels, a list of what is confused most often."""
    if len(block.labels) <= MOST_IN_MATRIX:
        note = html.note(
            f"numbers of {block.counted}; a stronger colour is a larger share of the"
            f" true label's {block.counted}; underlined numbers link to errors"
        )
        return note + html.matrix(block.counts, block.labels, anchors)
    sums = block.counts.sum(1)
    rows: list[tuple[object, ...]] = [
        ("true", "predicted", block.counted, "share of true")
    ]
    for (true, predicted), anchor in anchors.items():
        if true == predicted:  # wrong borders: it is not confused with another label
            continue
        count = int(block.counts[true, predicted])
        share = f"{count / max(1, sums[true]):.1%}"
        link = html.Link(f"{count:,}", anchor)
        rows.append((block.labels[true], block.labels[predicted], link, share))
    return html.note("confused most often") + html.table(rows, "wwnn")


def _mistakes(
    own: EvaluatedSet, found: Mistakes, anchors: Mapping[Place, str]
) -> Iterator[str]:
    every = found.worst_first
    if not every:
        yield html.note("none: every example is right")
        return
    worst = every[:_MAX_WORST]
    yield html.note(
        f"{len(worst)} of {len(every):,}, those with {found.order};"
        f" {'line numbers' if _by_line(own) else 'ids'} of {own.path}; all are in"
        f" {run_files.ERRORS}"
    )
    yield _table(own, found, worst)
    for (true, predicted), anchor in anchors.items():
        those = [one for one in every if (true, predicted) in one.places]
        labels = next(
            b.labels for b in own.shown.blocks if isinstance(b, ConfusionMatrix)
        )
        shown = f", {_MAX_OF_PLACE} of them" * (len(those) > _MAX_OF_PLACE)
        wrong = f"taken for {labels[predicted]}"
        if true == predicted:
            wrong = "with wrong borders"
        title = f"{labels[true]}, {wrong}: {len(those):,}{shown}"
        yield html.heading(title, anchor)
        yield _table(own, found, those[:_MAX_OF_PLACE])


def _table(own: EvaluatedSet, found: Mistakes, mistakes: Sequence[Mistake]) -> str:
    by_line = _by_line(own)
    rows: list[tuple[object, ...]] = [("line" if by_line else "id", *found.columns)]
    for one in mistakes:
        example = own.examples[one.number]
        rows.append((example.line if by_line else example.guid, *one.cells))
    return html.table(rows, f"{'n' if by_line else 't'}{found.letters}")


def _by_line(own: EvaluatedSet) -> bool:
    """Whether lines name the examples: JSON may have all of them on one line."""
    return len({one.line for one in own.examples}) == len(own.examples)


def error_lines(own: EvaluatedSet) -> Iterator[str]:
    """Each example that is wrong as a line of JSON, the worst first."""
    for one in own.mistakes:
        example = own.examples[one.number]
        record: dict[str, Any] = {
            "set": own.name,
            "id": example.guid,
            "line": example.line,
            "text_a": example.text_a,
        }
        if example.text_b is not None:
            record["text_b"] = example.text_b
        predicted = _few_probabilities(own.records[one.number], one.truth)
        record |= {"truth": one.truth, "predicted": predicted}
        yield json.dumps(record, ensure_ascii=False) + "\n"


def _few_probabilities(record: Mapping[str, Any], truth: Any) -> Mapping[str, Any]:
    """The record; of many labels, only the probabilities that explain the mistake.

    They are those of the true, the predicted and the most probable labels, the highest
    first: all of 5,000 labels would take 100 kB of each line.
    """
    known = record.get("probabilities", {})
    if len(known) <= _MAX_PROBABILITIES:
        return record
    kept = {*heapq.nlargest(_FEW, known, key=known.__getitem__)}
    for labels in (truth, record["label"]):
        kept.update([labels] if isinstance(labels, str) else labels)
    few = sorted(kept, key=lambda label: (-known[label], label))
    return {**record, "probabilities": {label: known[label] for label in few}}
