"""What report.html shows of an evaluated set: scores by label, and mistakes."""

from __future__ import annotations

import numpy as np

from bert_mgpu.core.report import (
    Block,
    ConfusionMatrix,
    Mistake,
    Mistakes,
    ReportTable,
    SetReport,
)
from bert_mgpu.core.task import ReadExamples
from bert_mgpu.tasks.classification.problem_type import ProblemType, ScoredRows

_LONGEST_TEXT = 400  # characters of a text that are shown
_COLUMNS = ("text", "true", "predicted", "their probabilities")
_ORDER = "the highest loss"
_CONFIDENCE = (
    "how far probabilities can be trusted: of the predictions with at least this"
    " probability, how many are right; the others can be left to people"
)


def of_set(
    problem_type: ProblemType, scored: ScoredRows, examples: ReadExamples
) -> SetReport:
    """The report of a labelled set. examples: reads its texts, if there are errors."""
    blocks: list[Block] = []
    if cells := problem_type.cells(scored):
        blocks.append(ReportTable(cells, "wnnnn"))
    matrix = problem_type.confusion(scored)
    if matrix is not None:
        blocks.append(ConfusionMatrix(matrix, scored.labels))
    if cells := problem_type.confidence(scored):
        blocks.append(ReportTable(cells, "wnnn", _CONFIDENCE))
    return SetReport(blocks, _mistakes(problem_type, scored, examples))


def _mistakes(
    problem_type: ProblemType, scored: ScoredRows, examples: ReadExamples
) -> Mistakes:
    wrong = np.flatnonzero(problem_type.wrong(scored))
    losses = problem_type.row_losses(scored)
    order = wrong[np.argsort(-losses[wrong], kind="stable")]
    texts = examples() if len(wrong) else []
    found = []
    for row in order.tolist():
        error, example = problem_type.error_row(scored, row), texts[row]
        text = example.text_a + (f"  |  {example.text_b}" if example.text_b else "")
        if len(text) > _LONGEST_TEXT:
            text = f"{text[:_LONGEST_TEXT]} ..."
        cells = (text, error.truth, error.predicted, error.probabilities)
        places = () if error.place is None else (error.place,)
        found.append(Mistake(row, cells, example.label, places=places))
    if problem_type.has_labels:
        return Mistakes(_COLUMNS, "twww", _ORDER, worst_first=found)
    columns = (*_COLUMNS[:-1], "")
    which = f"{_ORDER} (no number is simply wrong: the worst of all {len(losses):,})"
    return Mistakes(columns, "twww", which, worst_first=found)
