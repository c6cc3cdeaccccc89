"""The frame of a set in report.html, and its lines of errors.jsonl."""

import dataclasses
import json
import pathlib
import re

import numpy as np
import pytest
from scipy import sparse

from bert_mgpu.core.report import (
    ConfusionMatrix,
    Mistake,
    Mistakes,
    ReportTable,
    SetReport,
)
from bert_mgpu.core.rows import Example
from bert_mgpu.core.task import Trust
from bert_mgpu.evaluation import set_report
from bert_mgpu.evaluation.set_report import EvaluatedSet


def evaluated(count=2, labels=2, places=((0, 1),), trust=None, baseline=None):
    """A set of two labels or more, the last `count` examples of which are wrong."""
    truth = np.zeros((labels, labels), np.int64)
    truth[0, 1] = count
    found = [
        Mistake(n, (f"text {n}", "a", "b"), "a", places) for n in range(count, 0, -1)
    ]
    matrix = ConfusionMatrix(truth, [f"L{n}" for n in range(labels)])
    mistakes = Mistakes(("text", "true", "said"), "tww", "the highest loss", found)
    examples = [
        Example(f"id{n}", f"text {n}", "b" if n == 1 else None, "a", line=n + 10)
        for n in range(count + 1)
    ]
    return EvaluatedSet(
        "dev",
        pathlib.Path("a/dev.tsv"),
        examples=examples,
        total=count + 1,
        scores={"eval_accuracy": 0.5, "eval_loss": 1.25, "right": 3},
        trust=trust or Trust(judged=["eval_accuracy"]),
        baseline=baseline or {},
        shown=SetReport([ReportTable([("x",), ("y",)]), matrix], mistakes),
        records=[{"label": f"said {n}"} for n in range(count + 1)],
    )


def written(own, tmp_path):
    return set_report.sections(own, tmp_path, anchor="s0", baseline_name="bayes")


def cells(page):
    """The rows of a page's first table."""
    table = page.split("</table>")[0]
    return [re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr>")]


@pytest.mark.parametrize("interval", [False, True])
@pytest.mark.parametrize("baseline", [False, True])
def test_scores_stand_beside_what_is_known(tmp_path, interval, baseline):
    own = evaluated(
        trust=Trust({"eval_accuracy": (0.25, 0.75)}) if interval else None,
        baseline={"eval_loss": 2.0} if baseline else None,
    )
    (title, page), _ = written(own, tmp_path)
    _, head, accuracy, loss, right = cells(page)
    assert title == "dev" and "3 examples of a/dev.tsv" in page
    assert head == ["score", "value"] + ["95 %"] * interval + ["bayes"] * baseline
    assert accuracy == (
        ["eval_accuracy", "0.5000"] + ["0.2500 to 0.7500"] * interval + [""] * baseline
    )
    assert loss == ["eval_loss", "1.2500"] + [""] * interval + ["2.0000"] * baseline
    assert right[:2] == ["right", "3"]


def test_the_worst_come_first_and_cells_lead_to_theirs(tmp_path):
    (_, page), (title, wrong) = written(evaluated(count=25), tmp_path)
    assert title == "dev: errors"
    assert "20 of 25, those with the highest loss; line numbers of a/dev.tsv" in wrong
    assert "all are in errors.jsonl" in wrong
    first = cells(wrong)[2]
    assert first == ["35", "text 25", "a", "b"]
    assert '<a href="#s0-0-1">25</a>' in page
    assert 'id="s0-0-1">L0, taken for L1: 25, 3 of them</h3>' in wrong
    assert wrong.count("<tr>") == 1 + 20 + 1 + 3


def test_ids_name_the_errors_of_a_file_that_is_one_line(tmp_path):
    own = evaluated(count=2)
    examples = [dataclasses.replace(one, line=1) for one in own.examples]
    _, (_, wrong) = written(own._replace(examples=examples), tmp_path)
    assert "2 of 2, those with the highest loss; ids of a/dev.tsv" in wrong
    assert cells(wrong)[1:3] == [
        ["id", "text", "true", "said"],
        ["id2", "text 2", "a", "b"],
    ]


def test_each_mistake_is_listed_where_it_counts(tmp_path):
    own = evaluated(count=2)
    first, second = own.shown.mistakes.worst_first
    found = [first, second._replace(places=[(1, 0)])]
    mistakes = own.shown.mistakes._replace(worst_first=found)
    _, (_, wrong) = written(
        own._replace(shown=own.shown._replace(mistakes=mistakes)), tmp_path
    )
    _, one, other = wrong.split("<h3")
    assert "L0, taken for L1: 1<" in one and "text 2" in one and "text 1" not in one
    assert "L1, taken for L0: 1<" in other and "text 1" in other


def test_many_labels_are_listed_by_name(tmp_path):
    (_, page), _ = written(evaluated(labels=31), tmp_path)
    assert 'class="matrix"' not in page and "confused most often" in page
    assert "<td>L0</td><td>L1</td>" in page and "100.0%" in page
    (_, page), _ = written(evaluated(labels=30), tmp_path)
    assert 'class="matrix"' in page


def test_wrong_borders_are_not_another_label(tmp_path):
    own = evaluated(labels=31, places=((0, 0), (0, 1)))
    (_, page), (_, wrong) = written(own, tmp_path)
    assert "<td>L0</td><td>L1</td>" in page and "<td>L0</td><td>L0</td>" not in page
    assert "L0, with wrong borders: 2" in wrong and "L0, taken for L1: 2" in wrong


def test_a_sparse_matrix_is_listed_like_any_other(tmp_path):
    own = evaluated(labels=31)
    table, matrix = own.shown.blocks
    counts = sparse.csr_array(matrix.counts)
    shown = own.shown._replace(blocks=[table, matrix._replace(counts=counts)])
    assert written(own._replace(shown=shown), tmp_path) == written(own, tmp_path)


def test_a_set_without_a_mistake(tmp_path):
    (_, page), (_, wrong) = written(evaluated(count=0), tmp_path)
    assert wrong == '<p class="note">none: every example is right</p>'
    assert "<a " not in page


def test_a_family_need_not_say_what_is_wrong(tmp_path):
    own = evaluated()._replace(shown=SetReport([]))
    ((title, _),) = written(own, tmp_path)
    assert title == "dev" and not [*set_report.error_lines(own)]


def test_every_mistake_has_a_line():
    assert len([*set_report.error_lines(evaluated(count=25))]) == 25


def test_lines_of_errors():
    own = evaluated(count=2)
    lines = [json.loads(line) for line in set_report.error_lines(own)]
    assert lines == [
        {"set": "dev", "id": "id2", "line": 12, "text_a": "text 2", "truth": "a",
         "predicted": {"label": "said 2"}},
        {"set": "dev", "id": "id1", "line": 11, "text_a": "text 1", "text_b": "b",
         "truth": "a", "predicted": {"label": "said 1"}},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("truth", "said", "kept"),
    [
        ("L3", "L4", ["L50", "L49", "L48", "L47", "L46", "L45", "L44", "L43", "L42",
                      "L41", "L4", "L3"]),
        (("L50", "L7"), [], ["L50", "L49", "L48", "L47", "L46", "L45", "L44", "L43",
                             "L42", "L41", "L7"]),
    ],
)  # fmt: skip
def test_of_many_labels_a_line_has_the_probabilities_that_matter(truth, said, kept):
    shares = {f"L{n}": n / 1000 for n in range(51)}

    def probabilities(known):
        own = evaluated(count=1)
        (one,) = own.shown.mistakes.worst_first
        mistakes = own.shown.mistakes._replace(worst_first=[one._replace(truth=truth)])
        records = [{}, {"label": said, "probabilities": known}]
        own = own._replace(shown=SetReport([], mistakes), records=records)
        (line,) = set_report.error_lines(own)
        return json.loads(line)["predicted"]["probabilities"]

    assert probabilities(shares) == {name: shares[name] for name in kept}
    assert [*probabilities(shares)] == kept
    fewer = {name: share for name, share in shares.items() if name != "L0"}
    assert [*probabilities(fewer)] == [*fewer]
