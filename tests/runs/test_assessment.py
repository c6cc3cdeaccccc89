"""What a run says of a model that learnt nothing, and of one that did."""

import dataclasses
import json
import re
import types

import numpy as np
import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.evaluation import learning
from bert_mgpu.runs import assessment as assessment_lib
from bert_mgpu.runs import stages
from bert_mgpu.tasks.classification import trust
from bert_mgpu.training.loop import TrainingPlan
from tests.support import ranked

DO = {"do_train": True, "do_eval": True}


@pytest.mark.parametrize(
    ("optimizer", "peak", "steps", "trains_encoder", "warned"),
    [
        ("adamw_google", 1e-4, 75, True, True),
        ("adamw_google", 1e-4, 75, False, False),  # a head learns at such rates
        ("adamw_google", 1e-4, 833, True, False),
        ("adamw_google", 5e-5, 75, True, False),
        ("adamw", 1e-3, 75, True, False),
    ],
)
def test_steps_that_will_be_too_long(optimizer, peak, steps, trains_encoder, warned):
    config = FinetuneConfig(optimizer=optimizer)
    plan = TrainingPlan(steps, steps // 10, peak, save_every=10)
    warning = assessment_lib.rate_warning(config, plan, trains_encoder)
    assert (warning is not None) == warned
    if warned:
        assert "at a learning rate of 5.8e-04; above 5e-04 a training" in warning
        assert warning.startswith("WARNING: ") and "(--warmup_proportion)" in warning


@pytest.fixture
def said(tiny, tmp_path, inside):
    def run(name="out", task="mrpc", **flags):
        code, _, err = inside(tiny.flags(tmp_path / name, task, **DO | flags))
        assert code == 0, err
        return err, tmp_path / name

    return run


def test_a_model_that_learnt_nothing(said, tiny):
    err, out = said(learning_rate=1e-9, num_train_epochs=1, report=True, log_steps=1)
    warnings = [line for line in err.splitlines() if "WARNING" in line]
    assert any("is not better than" in line for line in warnings)
    assert any("to try: " in line for line in warnings)
    assert "95 % intervals: eval_accuracy 0." in err
    assert "baseline  naive Bayes, dev: eval_accuracy" in err
    assert {*json.loads((out / "baseline.json").read_text())} == {"dev"}
    page = (out / "report.html").read_text()
    assert "WARNING: to try: " in page and "is not better than" in page
    # Later its scores are compared with what the training found.
    (out / "eval_results.txt").unlink()
    err, _ = said(do_train=False, report=False)
    assert "is not better than" in err and "baseline  naive" not in err
    # Another set has a baseline of its own.
    before = (out / "baseline.json").read_bytes()
    err, _ = said(do_train=False, report=False, max_eval_examples=5)
    assert "  naive Bayes, dev: eval_accuracy" in err and "are not known yet" in err
    assert (out / "baseline.json").read_bytes() == before


def test_rollbacks_halve_the_rate_that_is_warned_of():
    config = FinetuneConfig(optimizer="adamw_google")
    plan = TrainingPlan(75, 7, 1e-4, save_every=10)
    full, halved = (
        assessment_lib.longest_step(config, one)
        for one in (plan, dataclasses.replace(plan, halvings=(5, 5)))
    )
    assert halved == pytest.approx(full / 4)


def test_best_metric_is_the_score_that_is_judged(said):
    flags = {"learning_rate": 1e-9, "num_train_epochs": 1, "eval_steps": 5}
    err, out = said(**flags, best_metric="f1", report=True)
    words, page = " ".join(err.split()), (out / "report.html").read_text()
    assert "dev f1 0." in page and "always &quot;1&quot; (0." in page
    judged = [line for line in words.split("WARNING") if "no better" in line]
    judged += [line for line in words.split("WARNING") if "not better" in line]
    assert judged and not any("eval_accuracy" in line for line in judged), judged


@pytest.mark.parametrize("metric", ["eval_loss", "auc"])
def test_without_a_floor_or_without_an_interval_no_score_is_judged_alone(said, metric):
    """Naive Bayes's loss is no floor; accuracy shows that nothing was learnt."""
    flags = {"learning_rate": 1e-9, "num_train_epochs": 1, "eval_steps": 5}
    err, _ = said(best_metric=metric, **flags)
    doubts = [line for line in " ".join(err.split()).split("WARNING") if "than" in line]
    assert any(line.startswith(" eval_accuracy 0.") for line in doubts), doubts


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_training_that_is_not_evaluated(said, evaluates):
    """Its loss is looked at, and what it evaluated while it trained."""
    flags = {"learning_rate": 1e-9, "num_train_epochs": 1, "do_eval": False}
    flags |= {"report": True, "log_steps": 1, "eval_steps": 2 if evaluates else None}
    err, out = said(**flags)
    words, page = " ".join(err.split()), (out / "report.html").read_text()
    warned = "is not better than" if evaluates else "the training loss did not fall"
    assert f"WARNING {warned}" in words or (evaluates and warned in words)
    assert "WARNING to try: " in words and "WARNING: to try: " in page
    assert warned in page and ("trained, not evaluated" in page) != evaluates
    assert ("dev eval_accuracy 0." in page and "while training" in page) == evaluates
    # By intervals and floors, as with --do_eval.
    assert ('is not better than always "' in words) == evaluates
    assert ("not clearly better than" in " ".join(page.split())) == evaluates


def test_a_ranking_is_judged_by_its_reciprocal_rank(said, tmp_path):
    parts = {"train": ranked.small(12, 1), "dev": ranked.small(15, 2)}
    ranked.write(tmp_path / "data", parts)
    flags = {"learning_rate": 1e-9, "num_train_epochs": 1, "eval_steps": 2}
    flags |= {"data_dir": tmp_path / "data", "do_eval": False, "report": True}
    err, out = said(task="mine", **flags)
    words, page = " ".join(err.split()), (out / "report.html").read_text()
    assert re.search(r"WARNING mrr 0\.\d+ is not better than rows in a random", words)
    assert re.search(r"dev mrr 0\.\d+ at step \d+, while training", page)


def test_a_training_file_that_nobody_asked_for(said, work):
    """An evaluation reads it for the baseline alone: no fault of it ends the run."""
    folder = work.data("own")
    said(task="own", data_dir=folder, do_eval=False, max_train_steps=1, report=False)
    train, warned = folder / "train.tsv", "none, the training file cannot be read: "
    with train.open("a", encoding="utf-8") as file:
        file.write("maybe\ta text\n")
    later = {"task": "own", "data_dir": folder, "do_train": False}
    err, out = said(**later, do_predict=True, report=True)
    unknown = "the scores of naive Bayes on dev are not known yet"
    line = f"baseline  reading {train}: {unknown}"
    words = " ".join(err.split())
    assert " ".join(line.split()) in words and f"{warned}{train}:25: label" in words
    for name in ("predict.txt", "eval_results.txt", "report.html", "errors.jsonl"):
        assert (out / name).exists()
    train.unlink()
    err, out = said(**later, report=False)
    assert "baseline" not in err


def test_a_training_file_that_goes_while_it_trains(said, work, monkeypatch):
    """The training is not lost: its scores, predictions and report are there."""
    folder, evaluate = work.data("own"), stages.evaluate

    def without_the_file(*args, **named):
        (folder / "train.tsv").unlink()
        return evaluate(*args, **named)

    monkeypatch.setattr(stages, "evaluate", without_the_file)
    flags = {"do_predict": True, "report": True, "num_train_epochs": 1}
    err, out = said(task="own", data_dir=folder, **flags)
    assert "baseline  naive Bayes, dev: eval_accuracy" in err
    for name in ("predict.txt", "eval_results.txt", "report.html"):
        assert (out / name).exists()


def test_a_model_that_did(said, work):
    folder = work.data("own")
    task = json.loads((folder / "task.json").read_text())
    (folder / "task.json").write_text(json.dumps({**task, "dev": task["train"]}))
    flags = {"learning_rate": 2e-3, "num_train_epochs": 60, "optimizer": "adamw"}
    err, _ = said(task="own", data_dir=folder, **flags)
    warned = [line for line in err.splitlines() if "WARNING" in line]
    assert not any("is not better" in line or "to try" in line for line in warned), err
    assert "95 % intervals: eval_accuracy 0." in err
    assert re.search(r"(?m)^dev eval_accuracy \d\.\d+: better than always ", err)
    assert not re.search(r" (\d\.\d{4}) to \1", err)


@pytest.mark.parametrize(("rows", "sure"), [(100, True), (12, False)])
def test_all_rows_right_are_no_less_than_one_wrong(rows, sure):
    """Few rows are of the other class: accuracy's interval includes "always 0"."""
    truth = (np.arange(rows) < max(1, 3 * rows // 100)).astype(int)
    found = trust.of_classes(truth, truth, ["0", "1"])
    scores = dict.fromkeys(found.judged, 1.0)
    family = types.SimpleNamespace(baseline_name="naive Bayes")
    run = types.SimpleNamespace(
        task=types.SimpleNamespace(
            trust=lambda scored: found, scores=lambda scored: scores, lower_is_better=()
        ),
        config=FinetuneConfig(),
        data=types.SimpleNamespace(family=family),
    )
    own = assessment_lib._trust(run, None, rows)
    judged = assessment_lib._judged(run, scores, trust=own, baseline={})
    assert bool(learning.findings(judged, None)) != sure, judged


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_training_that_goes_on_from_a_trained_model(said, monkeypatch, evaluates):
    """Its loss is low, and need not fall."""
    if evaluates:
        monkeypatch.setattr(assessment_lib, "_evaluation", lambda *args: (2, 0.99))
    losses = {"losses": [0.05] * 8, "from_weights": True}
    trained = assessment_lib._training
    monkeypatch.setattr(
        assessment_lib, "_training", lambda *args: trained(*args)._replace(**losses)
    )
    err, _ = said(num_train_epochs=1, do_eval=False)
    assert "did not fall" not in err
