"""The questions of a set in report.html: scores by length and threshold; mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bert_mgpu.core.report import (
    Block,
    Mistake,
    Mistakes,
    ReportTable,
    ScoreCurves,
    SetReport,
)
from bert_mgpu.tasks.span_qa import metrics
from bert_mgpu.tasks.span_qa.answers import NO_BEST
from bert_mgpu.tasks.span_qa.scored import AnsweredSet

_AROUND = 40  # characters on each side of an answer
_LONGEST = 200  # characters shown of a text
_LENGTHS = (5, 10, 20, 40)  # upper bounds of groups, in characters of the true answer
_WINDOWS = (1, 2, 4)  # upper bounds of groups, in windows of a question
_SETTING = "--null_score_diff_threshold"
_POINTS = 11  # thresholds of the table
_MARGIN = 0.05  # on each side of a plot, as a share of its width
# Below all odds. Where that is best, the scores report 0, as SQuAD's script does.
_NEVER = "never answering"


class Scored:
    """The score of each question by the metrics that a report shows."""

    def __init__(self, scored: AnsweredSet, *, chinese: bool):
        self.truth = [example.label.texts for example in scored.examples]
        self.predicted = scored.said(scored.chosen)
        pair = metrics.exact, metrics.f1
        if chinese:
            pair = metrics.cmrc_exact, metrics.cmrc_f1
        self.exact, self.f1 = (
            metrics.question_scores(self.truth, self.predicted, score) for score in pair
        )
        self.names = ("cmrc_em", "cmrc_f1") if chinese else ("exact", "f1")
        self.pair = pair


def of_set(scored: AnsweredSet, *, chinese: bool) -> SetReport:
    """The report of a labelled set."""
    own = Scored(scored, chinese=chinese)
    blocks: list[Block] = []
    head = "questions", "number", *own.names
    for title, groups in (
        ("by the length of the longest true answer", _by_length(own.truth)),
        ("by the windows of their contexts", _by_windows(scored)),
    ):
        lines = [
            (label, int(mask.sum()), *_means((own.exact, own.f1), mask))
            for label, mask in groups
            if mask.any()
        ]
        blocks.append(ReportTable([head, *lines], "wnnn", note=title))
    if scored.odds is not None:
        blocks += _thresholds(scored, own)
    return SetReport(blocks, _mistakes(scored, own))


def _means(columns: Sequence[np.ndarray], mask: np.ndarray) -> list[str]:
    return [f"{100 * column[mask].mean():.1f}" for column in columns]


def _by_length(truth: Sequence[Sequence[str]]) -> Iterator[tuple[str, np.ndarray]]:
    sizes = np.array([max(map(len, texts), default=0) for texts in truth])
    yield "without an answer", sizes == 0
    low = 1
    for high in _LENGTHS:
        yield f"{low} to {high} characters", (sizes >= low) & (sizes <= high)
        low = high + 1
    yield f"{low} characters and more", sizes >= low


def _by_windows(scored: AnsweredSet) -> Iterator[tuple[str, np.ndarray]]:
    counts, low = scored.windows, 1
    for high in _WINDOWS:
        label = str(high) if low == high else f"{low} to {high}"
        yield label, (counts >= low) & (counts <= high)
        low = high + 1
    yield f"{low} and more", counts >= low


def _thresholds(
    scored: AnsweredSet, own: Scored
) -> Iterator[ScoreCurves | ReportTable]:
    """The scores that other thresholds would give, as a plot and a table."""
    assert scored.odds is not None
    best = scored.said(scored.best)
    with_answer = [
        metrics.question_scores(own.truth, best, score) for score in own.pair
    ]
    none = np.array([float(not texts) for texts in own.truth])
    if scored.odds.min() < NO_BEST:  # some question has an answer
        yield _curves(scored, dict(zip(own.names, with_answer, strict=True)), none=none)
    rows: list[tuple[object, ...]] = [("threshold", "no answer", *own.names)]
    shares = np.linspace(0, 1, _POINTS)
    # Only odds that occur, not between two: NO_BEST is far from all others.
    tried = np.unique(np.quantile(scored.odds, shares, method="lower"))
    for threshold in tried.tolist():
        is_none = scored.odds > threshold
        means = [100 * np.where(is_none, none, each).mean() for each in with_answer]
        rows.append(
            (
                f"{threshold:.3f}",
                f"{is_none.mean():.1%}",
                *(f"{mean:.1f}" for mean in means),
            )
        )
    yield ReportTable(rows, "nnnn", note=f"by {_SETTING}")


def _curves(
    scored: AnsweredSet,
    with_answer: Mapping[str, np.ndarray],
    *,
    none: np.ndarray,
) -> ScoreCurves:
    """The mean scores over all thresholds.

    with_answer, none: the score of each question if an answer is predicted, and if none
    is, float64 [Q].
    """
    assert scored.odds is not None
    means = {}
    for key, each in with_answer.items():
        odds, sums = metrics.at_thresholds(each, none, scored.odds)
        odds = odds[odds < NO_BEST]  # of questions with an answer to predict
        sums = np.array([none.sum(), *sums[: len(odds)], sums[len(odds) - 1]])
        means[key] = 100 * sums / len(none)
    margin = _MARGIN * (odds[-1] - odds[0]) or 1.0
    return ScoreCurves(
        "thresholds",
        _SETTING,
        np.array([odds[0] - margin, *odds, odds[-1] + margin]),
        scores=means,
        chosen=scored.choice.null_score_diff_threshold,
        lowest=_NEVER,
    )


def _mistakes(scored: AnsweredSet, own: Scored) -> Mistakes:
    """The questions with an F1 below 1, the lowest first, then the most certain."""
    wrong = np.flatnonzero(own.f1 < 1)
    certain = np.array([scored.probability(number) for number in wrong.tolist()])
    found = []
    for index in np.lexsort((-certain, own.f1[wrong])).tolist():
        number = int(wrong[index])
        example, answer = scored.examples[number], scored.chosen[number]
        place = None if answer.start < 0 else (answer.start, answer.end)
        cells = (
            f"{100 * own.f1[number]:.1f}",
            f"{certain[index]:.3f}",
            _cut(example.text_a),
            _around(example.text_b or "", example.label.span)
            or " / ".join(own.truth[number])
            or "no answer",
            _around(example.text_b or "", place) or "no answer",
        )
        found.append(Mistake(number, cells, [*own.truth[number]]))
    columns = (own.names[-1], "probability", "question", "true answer", "predicted")
    return Mistakes(columns, "nnttt", f"the lowest {own.names[-1]}", worst_first=found)


def _around(context: str, place: tuple[int, int] | None) -> str:
    """An answer in brackets, with the text around it; "" if there is none."""
    if place is None:
        return ""
    start, end = place
    before = context[max(0, start - _AROUND) : start]
    behind = context[end : end + _AROUND]
    return f"{before}[{_cut(context[start:end])}]{behind}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
