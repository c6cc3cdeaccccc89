"""Evaluations while training: which is the best, when a run stops, what it resumes."""

import hashlib
import json
import types

import numpy as np
import pytest

from bert_mgpu.checkpoints import train_state
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.task import TrainState
from bert_mgpu.distributed.collective import SOLO
from bert_mgpu.evaluation import evaluator
from bert_mgpu.evaluation.evaluator import (
    EvaluationSettings,
    Evaluator,
)
from bert_mgpu.evaluation.history import Evaluation, best_of_main
from bert_mgpu.training.events import Events

IDENTITY = {"seed": 42}
MEASURED = {"set": "key", "metric": "f1", "max_eval_examples": None, "threshold": None}
# As best.json of a run of version 0 has it: sha256 of the sorted JSON.
TEXT = json.dumps({"run": IDENTITY, "measured": MEASURED}, sort_keys=True)
OF = hashlib.sha256(TEXT.encode()).hexdigest()[:24]


@pytest.fixture
def make(tmp_path):
    """make(history, best, ...) -> an evaluator that begins at a step."""

    def begin(
        step=0,
        history=(),
        best=None,
        metric="f1",
        patience=None,
        of=OF,
        keeps=None,
        sets=(),
        group=SOLO,
    ):
        scores = {"f1": 0.5, "nan": float("nan")}
        lines = [{"step": at, "set": name, **scores} for at, name in history]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (tmp_path / "evaluations.jsonl").write_text(text)
        if best:
            (tmp_path / "best").mkdir(exist_ok=True)
            state = TrainState({"x": np.zeros(1, "f")}, {}, best[0], identity=IDENTITY)
            train_state.save(tmp_path / "best", state, 1)
            facts = {"step": best[0], "value": best[1], "of": of}
            (tmp_path / "best/best.json").write_text(json.dumps(facts))
        made = Evaluator(
            types.SimpleNamespace(lower_is_better=frozenset({"eval_loss"})),
            dict.fromkeys(sets),
            examples=list,
            settings=EvaluationSettings(
                4, metric, MEASURED, patience, forward=None, keeps=keeps
            ),
            group=group,
            output_dir=tmp_path,
        )
        made.begin(step, IDENTITY, IDENTITY, events=Events(tmp_path))
        return made

    return begin


HISTORY = [(4, "dev"), (4, "other"), (8, "dev"), (8, "other"), (12, "dev")]


@pytest.mark.parametrize(("keeps", "steps"), [("last", [8]), ("best", [4]), (None, [])])
def test_what_is_kept_of_the_evaluations(make, monkeypatch, keeps, steps):
    """The second evaluation of step 4, after a rollback, is not the best one."""
    made = make(keeps=keeps, sets=["dev"])
    monkeypatch.setattr(made, "_keep", lambda towers: None)
    values = iter([(4, 0.9), (4, 0.7), (8, 0.8)])
    for step, value in values:
        found = f"rows of {value}", {"f1": value}
        monkeypatch.setattr(made, "_scores", lambda *_, found=found, **__: found)
        made.evaluate_after(step, None)
    known = {step: made.kept(step) for step in (4, 8)}
    wanted = {"last": {8: "rows of 0.8"}, "best": {4: "rows of 0.9"}, None: {}}[keeps]
    assert known == dict.fromkeys((4, 8)) | wanted and [*wanted] == steps


def test_a_resumed_run_knows_its_best_and_what_it_evaluated(make):
    resumed = make(8, HISTORY, best=(4, 0.75))
    assert resumed._best == Evaluation(4, 0.75)
    assert resumed._evaluated == [4, 8]
    assert not resumed.missed(8, 18) and not resumed.missed(9, 18)
    assert resumed.missed(12, 18) and resumed.missed(18, 18)
    assert not resumed.missed(0, 18)


@pytest.mark.parametrize(
    ("best", "metric", "known"),
    [
        ((4, 0.75, "f1"), "f1", (4, 0.75)),
        ((12, 0.9, "f1"), "f1", (12, 0.9)),  # found before a rollback to step 8
        ((12, 0.4, "f1"), "f1", (12, 0.4)),  # of another dev set
        ((12, 0.9, "accuracy"), "f1", (4, 0.5)),
        (None, "f1", (4, 0.5)),
        (None, "accuracy", None),
    ],
)
def test_the_best_evaluation_is_known_after_a_rollback(
    make, tmp_path, best, metric, known
):
    make(8, HISTORY)
    (tmp_path / "best").mkdir()
    if best:
        facts = dict(zip(("step", "value", "metric"), best, strict=True))
        (tmp_path / "best/best.json").write_text(json.dumps(facts))
    assert best_of_main(tmp_path, metric, lower_is_better=False) == known


def test_the_best_of_another_run_is_no_bar(make, capsys):
    told = "dev set or metric: the search for the best evaluation starts afresh"
    assert make(8, best=(4, 0.75), of="another")._best is None
    assert told in " ".join(capsys.readouterr().err.split())
    make(8, best=(4, 0.75))
    assert told not in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("flags", "stopped"),
    [
        ({"best": (4, 0.75), "of": "another"}, None),
        ({"best": (4, 0.75)}, "no better f1 than 0.7500 (step 4) in 2 evaluations"),
        ({}, "no better f1 in 2 evaluations"),  # best/ was moved: 4 is the best
        ({"metric": "auc"}, "no auc in 3 evaluations"),  # never defined
        ({"metric": "nan"}, "no nan in 3 evaluations"),
    ],
)
def test_a_search_that_starts_afresh_has_its_patience(make, flags, stopped):
    resumed = make(12, HISTORY, patience=2, **flags)
    assert resumed.stop_reason == (stopped and f"stopped early: {stopped}")
    resumed._evaluated += [16, 20]
    assert resumed.stop_reason


@pytest.mark.parametrize("best", [(4, 0.75), None])
def test_every_process_stops_where_the_first_does(make, best):
    """Rank 1 reads no files: it knows of earlier evaluations what rank 0 does."""
    sent = []

    class Rank:
        size = 2

        def __init__(self, rank):
            self.rank = rank

        def all_gather(self, value):
            sent.append(value)
            return [sent[0], value]

    first = make(12, HISTORY, best=best, patience=2, group=Rank(0))
    second = make(12, patience=2, group=Rank(1))
    assert "in 2 evaluations" in first.stop_reason
    assert second.stop_reason == first.stop_reason


def test_best_weights_that_are_not_whole_start_a_new_search(make, tmp_path):
    make(12, HISTORY, best=(4, 0.75), patience=2)
    for path in (tmp_path / "best").glob("model.ckpt-*"):
        path.unlink()
    resumed = make(12, HISTORY, patience=2)
    assert resumed._best is None and resumed.stop_reason is None


def test_best_weights_are_kept_before_the_history_has_them(make, monkeypatch, tmp_path):
    """A run that is killed while it keeps them evaluates that step again."""
    made = make(sets=["dev"])

    def killed(towers):
        raise KeyboardInterrupt

    monkeypatch.setattr(made, "_keep", killed)
    monkeypatch.setattr(made, "_scores", lambda *_, **__: (None, {"f1": 0.9}))
    with pytest.raises(KeyboardInterrupt):
        made.evaluate_after(4, None)
    assert not (tmp_path / "evaluations.jsonl").read_text()


def test_best_json_without_its_weights_is_none(make, tmp_path):
    make(8, best=(4, 0.75))
    for path in (tmp_path / "best").glob("model.ckpt-*"):
        path.unlink()
    again = make(8)
    assert again._best is None


@pytest.mark.parametrize(("patience", "stops"), [(None, 0), (2, 1), (1, 1), (3, 0)])
def test_patience_counts_evaluations_since_the_best(make, patience, stops):
    resumed = make(12, HISTORY, best=(4, 0.75), patience=patience)
    assert bool(resumed.stop_reason) == bool(stops)


@pytest.mark.parametrize(
    ("metric", "value", "better"),
    [
        ("f1", 0.76, True),
        ("f1", 0.75, False),
        ("f1", 0.5, False),
        ("eval_loss", 0.5, True),
        ("eval_loss", 0.76, False),
        ("f1", float("nan"), False),
        ("f1", None, False),
    ],
)
def test_better_is_higher_and_of_a_loss_lower(make, metric, value, better):
    resumed = make(8, best=(4, 0.75), metric=metric)
    assert resumed._is_better(value) is better
    first = make(8, metric=metric, best=(4, 0.75), of="another")
    assert first._is_better(0.0)


def test_a_metric_is_one_that_evaluations_give():
    assert evaluator.choose_metric(None, "f1", []) == "f1"
    assert evaluator.choose_metric("mae", "f1", ["f1", "mae"]) == "mae"
    with pytest.raises(UserError, match="--best_metric=x: evaluations .* give f1, mae"):
        evaluator.choose_metric("x", "f1", ["f1", "mae"])
