"""The top of report.html."""

import json
import pathlib

import numpy as np
import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.rows import Features
from bert_mgpu.core.task import Trust
from bert_mgpu.evaluation import verdict
from bert_mgpu.evaluation.verdict import ReportFacts
from tests.evaluation.test_set_report import evaluated


@pytest.fixture
def facts(tmp_path):
    def make(**changed):
        rows = Features({}, {"label_ids": np.zeros(7)}, np.arange(7))
        known = {
            "output_dir": tmp_path, "config": FinetuneConfig(), "task": "mine",
            "metric": "eval_accuracy", "lower_is_better": {"eval_loss"},
            "shown": ["eval_accuracy"],
            "baseline_name": "bayes", "model": "a model", "devices": ["CPU:0"],
            "batch": "8 per step", "sets": {"train": rows}, "padding": {},
            "warnings": [], "doubts": [],
        }  # fmt: skip
        return ReportFacts(**known | changed)

    return make


def test_the_main_score_stands_beside_the_others(facts):
    own = evaluated(
        trust=Trust(
            {"eval_accuracy": (0.25, 0.75)},
            {"eval_accuracy": {'always "a"': 0.4}},
            judged=["eval_accuracy"],
        ),
        baseline={"eval_accuracy": 0.45, "f1": 0.1},
    )
    assert verdict.sentence(own, facts()) == (
        "dev eval_accuracy 0.5000 (95 %: 0.2500 to 0.7500); not clearly better than"
        ' always "a" (0.4000) and bayes (0.4500)'
    )
    floors = {"eval_loss": {"the mean": 2.5}}
    own = own._replace(trust=Trust(floors=floors, judged=["eval_loss"]))
    assert verdict.sentence(own, facts()) == (
        "dev eval_loss 1.2500; for comparison: the mean (2.5000)"
    )


def test_doubts_are_seen(facts):
    good = verdict.html_of(facts(), [evaluated()])
    bad = verdict.html_of(facts(doubts=["it learnt nothing"]), [evaluated()])
    assert 'class="verdict"' in good and "WARNING" not in good
    assert 'class="verdict bad"' in bad and "WARNING: it learnt nothing" in bad
    assert "trained, not evaluated" in verdict.html_of(facts(), [])
    page = verdict.html_of(facts(unevaluated="dev x 0.5 at step 7"), [])
    assert "dev x 0.5 at step 7" in page and "not evaluated" not in page


@pytest.mark.parametrize(
    ("began", "ended", "text"),
    [
        ("2026-11-26T18:03:59+00:00", "2026-11-26T19:05:01+00:00",
         "2026-11-26 18:03 to 19:05, 2.0 minutes of training"),
        ("2026-11-26T23:59:59+08:00", "2026-11-27T00:00:01+08:00",
         "2026-11-26 23:59 to 2026-11-27 00:00, 2.0 minutes of training"),
        ("2026-11-26T18:03:59+00:00", None, "from 2026-11-26 18:03, not finished"),
    ],
)  # fmt: skip
def test_when_it_was_trained(began, ended, text):
    facts = {"began": began, "ended": ended, "seconds": 120.0}
    assert verdict.trained({n: v for n, v in facts.items() if v is not None}) == text


@pytest.mark.parametrize(("lower", "best"), [(False, (0.75, 20)), (True, (0.25, 10))])
def test_what_it_was_made_of(facts, tmp_path, monkeypatch, lower, best):
    lines = [(10, 0.25), (20, 0.75), (30, 0.5)]
    (tmp_path / "evaluations.jsonl").write_text(
        "".join(
            json.dumps({"step": step, "set": name, "eval_accuracy": value}) + "\n"
            for step, value in lines
            for name in ("dev", "other")
        )
    )
    (tmp_path / "metrics.jsonl").write_text('{"step": 1234, "epoch": 2.5}\n')
    training = {"began": "2026-11-26T18:03:59+00:00", "seconds": 1, "host": "box",
                "devices": ["a card", "a card"]}  # fmt: skip
    run = {"training": training, "flags": {"init_checkpoint": "/a/start"}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    page = verdict.html_of(
        facts(lower_is_better={"eval_accuracy"} if lower else ()), [evaluated()]
    )
    for words in ("1,234 (8 per step); 2.5 epochs", "box: a card, a card",
                  "a model, from /a/start",
                  "train 7, dev 3", "of 3 evaluations",
                  f"eval_accuracy {best[0]:.4f} at step {best[1]}"):  # fmt: skip
        assert words in page, words
    training["batch"] = "16 x 2 towers = 32 per step"  # not that of this evaluation
    (tmp_path / "metrics.jsonl").write_text('{"step": 1234, "epoch": 1.0}\n')
    run["flags"]["init_checkpoint"] = str(pathlib.Path.cwd() / "some" / "model")
    (tmp_path / "run.json").write_text(json.dumps(run))
    page = verdict.html_of(
        facts(lower_is_better={"eval_accuracy"} if lower else ()), [evaluated()]
    )
    assert "a model, from some/model<" in page
    assert "1,234 (16 x 2 towers = 32 per step); 1 epoch<" in page
    assert "8 per step" not in page
    monkeypatch.chdir("/")  # as in a container
    page = verdict.html_of(
        facts(lower_is_better={"eval_accuracy"} if lower else ()), [evaluated()]
    )
    assert f"a model, from {run['flags']['init_checkpoint']}<" in page
