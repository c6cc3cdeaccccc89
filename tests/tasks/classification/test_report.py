"""What report.html and errors.jsonl get of rows that are wrong."""

import numpy as np
import pytest

from bert_mgpu.core.report import ConfusionMatrix
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.classification import report
from bert_mgpu.tasks.classification.problem_type import ScoredRows
from bert_mgpu.tasks.classification.problem_types import PROBLEM_TYPES

LABELS = ("no", "yes")
LOGITS = np.log(np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], "f"))


def shown(truth, texts=None):
    scored = ScoredRows(LOGITS, LABELS, None, truth=np.array(truth))

    def read():
        return [
            Example(f"dev-{n}", a, b, LABELS[label], n)
            for n, ((a, b), label) in enumerate(zip(texts, truth, strict=True), 1)
        ]

    return report.of_set(PROBLEM_TYPES["single"], scored, read)


def test_no_text_is_read_where_all_is_right():
    assert shown([0, 1, 1]).mistakes.worst_first == []


def test_the_highest_loss_comes_first():
    texts = [("sun", None), ("x" * 500, None), ("rain", "or snow")]
    found = shown([0, 0, 0], texts)
    worst, other = found.mistakes.worst_first
    assert (worst.number, other.number) == (2, 1)
    assert worst.cells == ("rain  |  or snow", "no", "yes", "0.20, 0.80")
    assert other.cells[0] == "x" * 400 + " ..."
    assert found.mistakes.columns[1:3] == ("true", "predicted")
    assert worst.truth == "no" and worst.places == ((0, 1),)
    (matrix,) = [b for b in found.blocks if isinstance(b, ConfusionMatrix)]
    assert matrix.counts.tolist() == [[1, 2], [0, 0]]
    *_, confidence = found.blocks
    assert confidence.rows[-1] == ("at least 0.9", "1", "33.3%", "100.0%")


@pytest.mark.parametrize(
    ("kind", "truth", "numbers"),
    [
        ("multi", np.array([[0, 0], [1, 0], [0, 0]], np.uint8), [1]),
        ("regression", np.array([0, 9, 1], "f"), [1, 2, 0]),
    ],
)
def test_other_types_have_no_matrix(kind, truth, numbers):
    logits = LOGITS if kind == "multi" else np.array([[0.0], [1.0], [0.5]], "f")
    scored = ScoredRows(logits, LABELS, None, truth=truth)
    texts = [Example("", "sun", None, "?", n) for n in (1, 2, 3)]
    found = report.of_set(PROBLEM_TYPES[kind], scored, lambda: texts)
    assert not any(isinstance(block, ConfusionMatrix) for block in found.blocks)
    assert not any("probability" in block.rows[0] for block in found.blocks)
    assert [one.number for one in found.mistakes.worst_first][: len(numbers)] == numbers
    assert not any(one.places for one in found.mistakes.worst_first)


@pytest.mark.parametrize(("rows", "shown"), [(15, 15), (150, 20), (300, 30)])
def test_of_a_regression_the_worst_tenth_is_shown(rows, shown):
    logits = np.arange(rows, dtype="f")[:, None]
    scored = ScoredRows(logits, (), None, truth=np.zeros(rows, "f"))
    texts = [Example("", "sun", None, 0.0, n) for n in range(rows)]
    found = report.of_set(PROBLEM_TYPES["regression"], scored, lambda: texts).mistakes
    numbers = [one.number for one in found.worst_first]
    assert numbers == [*range(rows - 1, rows - shown - 1, -1)]
    assert found.order.endswith(f"the worst of all {rows})")
