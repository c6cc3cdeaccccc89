"""What a report says of an evaluated set: scores, and the worst errors."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence

import numpy as np

from bert_mgpu.core.report import ConfusionMatrix, ReportSection, ReportTable
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.classification.problem_type import ProblemType, ScoredRows

_WORST = 20  # rows that are shown of a set
_LONGEST_TEXT = 400  # characters of a text that are shown


def sections(
    kind: ProblemType,
    name: str,
    found: ScoredRows,
    *,
    path: pathlib.Path,
    examples: Callable[[], Sequence[Example]],
) -> list[ReportSection]:
    """Of the set of this name. examples: reads its texts, where they are needed."""
    scores = [("score", "value")]
    scores += [(key, _number(value)) for key, value in kind.score(found).items()]
    blocks: list[str | ReportTable | ConfusionMatrix] = [
        f"{len(found.logits)} rows of {path}",
        ReportTable(scores, "wn"),
    ]
    if cells := kind.cells(found):
        blocks.append(ReportTable(cells, "wnnnn"))
    matrix = kind.confusion(found)
    if matrix is not None:
        blocks.append(ConfusionMatrix(matrix, found.labels, name))
    errors = _errors(kind, found, path, examples=examples)
    return [
        ReportSection(name, blocks),
        ReportSection(f"{name}: worst errors", [errors]),
    ]


def _errors(
    kind: ProblemType,
    found: ScoredRows,
    path: pathlib.Path,
    *,
    examples: Callable[[], Sequence[Example]],
) -> str | ReportTable:
    """The rows with the highest losses that are wrong, and their texts."""
    wrong = np.flatnonzero(kind.wrong(found))
    if not len(wrong):
        return "none: every row is right"
    losses = kind.row_losses(found)
    worst = wrong[np.argsort(-losses[wrong], kind="stable")][:_WORST]
    texts = examples()
    rows: list[tuple[object, ...]] = [
        ("line", "text", "true", "predicted", "probabilities")
    ]
    for row in worst:
        example, words = texts[row], kind.words(found, int(row))
        text = example.text_a + (f"  |  {example.text_b}" if example.text_b else "")
        if len(text) > _LONGEST_TEXT:
            text = f"{text[:_LONGEST_TEXT]} ..."
        rows.append((example.line, text, *words))
    where = f"the {len(worst)} of {len(wrong)} with the highest loss; lines of {path}"
    return ReportTable(rows, "nt", note=where)


def _number(value: float) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
