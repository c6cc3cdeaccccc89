"""The worst errors of a set, as report.html lists them."""

import pathlib

import numpy as np

from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.classification import report
from bert_mgpu.tasks.classification.problem_type import ScoredRows
from bert_mgpu.tasks.classification.problem_types import PROBLEM_TYPES

LABELS = ("no", "yes")
LOGITS = np.log(np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], "f"))


def worst(truth, texts=None):
    """The last section of a set with this truth."""
    scored = ScoredRows(LOGITS, LABELS, None, truth=np.array(truth))
    *_, errors = report.sections(
        PROBLEM_TYPES["single"],
        "dev",
        scored,
        path=pathlib.Path("dev.tsv"),
        examples=lambda: [
            Example(f"dev-{n}", a, b, "", n) for n, (a, b) in enumerate(texts, 1)
        ],
    )
    assert errors.title == "dev: worst errors"
    (block,) = errors.blocks
    return block


def test_no_text_is_read_where_all_is_right():
    assert worst([0, 1, 1]) == "none: every row is right"


def test_the_highest_loss_comes_first():
    texts = [("sun", None), ("x" * 500, None), ("rain", "or snow")]
    head, *rows = worst([0, 0, 0], texts).rows
    assert [row[0] for row in rows] == [3, 2]  # lines
    assert rows[0][1] == "rain  |  or snow"
    assert rows[1][1] == "x" * 400 + " ..."
    assert rows[0][2:4] == ("no", "yes") and head[2:4] == ("true", "predicted")
