"""The sections of report.html on an evaluated set: scores and worst errors."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence

import numpy as np

from bert_mgpu.core.report import ConfusionMatrix, ReportSection, ReportTable
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.classification.problem_type import ProblemType, ScoredRows

_MAX_ERRORS = 20  # rows that are shown of a set
_LONGEST_TEXT = 400  # characters of a text that are shown


def sections(
    problem_type: ProblemType,
    name: str,
    scored: ScoredRows,
    *,
    path: pathlib.Path,
    examples: Callable[[], Sequence[Example]],
) -> list[ReportSection]:
    """The sections of a set. examples: reads its texts, where there are errors."""
    values = problem_type.score(scored).items()
    scores = [("score", "value"), *((key, _number(value)) for key, value in values)]
    blocks: list[str | ReportTable | ConfusionMatrix] = [
        f"{len(scored.logits)} rows of {path}",
        ReportTable(scores, "wn"),
    ]
    if cells := problem_type.cells(scored):
        blocks.append(ReportTable(cells, "wnnnn"))
    matrix = problem_type.confusion(scored)
    if matrix is not None:
        blocks.append(ConfusionMatrix(matrix, scored.labels, name))
    errors = _errors(problem_type, scored, path, examples=examples)
    return [
        ReportSection(name, blocks),
        ReportSection(f"{name}: worst errors", [errors]),
    ]


def _errors(
    problem_type: ProblemType,
    scored: ScoredRows,
    path: pathlib.Path,
    *,
    examples: Callable[[], Sequence[Example]],
) -> str | ReportTable:
    """The wrong rows with the highest losses, and their texts."""
    wrong = np.flatnonzero(problem_type.wrong(scored))
    if not len(wrong):
        return "none: every row is right"
    losses = problem_type.row_losses(scored)
    worst = wrong[np.argsort(-losses[wrong], kind="stable")][:_MAX_ERRORS]
    texts = examples()
    rows: list[tuple[object, ...]] = [
        ("line", "text", "true", "predicted", "their probabilities")
    ]
    for row in worst:
        example, words = texts[row], problem_type.error_row(scored, int(row))
        text = example.text_a + (f"  |  {example.text_b}" if example.text_b else "")
        if len(text) > _LONGEST_TEXT:
            text = f"{text[:_LONGEST_TEXT]} ..."
        rows.append((example.line, text, *words))
    note = (
        f"the {len(worst)} with the highest loss of {len(wrong)} that are wrong; lines"
        f" of {path}"
    )
    return ReportTable(rows, "nt", note=note)


def _number(value: float) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
