"""Evaluation while a run trains: history, best weights, an early end."""

import json
import re
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from tensorboard.backend.event_processing import event_accumulator

from bert_mgpu.checkpoints import google_read
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.training.towers import Towers
from tests.support.evaluations import LOOKS, STEPS, STEPS_SEEN, TRAINED, history, scores
from tests.support.marks import rarely
from tests.support.runs import assert_refused, assert_same_run, keep_only, tree


def test_both_sets_are_evaluated_as_at_the_end(tiny, looked, later, inside, tmp_path):
    actual = history(looked)
    assert [(row["step"], row["set"]) for row in actual] == [
        (step, name) for step in STEPS_SEEN for name in ("dev", "later")
    ]
    files = {"dev": "eval_results.txt", "later": "eval_results_later.txt"}
    for row in actual[-2:]:
        final = scores(looked / files[row.pop("set")])
        assert final.pop("global_step") == row.pop("step") == STEPS
        assert final.pop("loss") == final["eval_loss"]
        assert final == row
    # The other file as the dev file of a run of its own.
    shutil.copytree(tiny.data("own"), tmp_path / "data")
    shutil.copy(later, tmp_path / "data" / "dev.tsv")
    out = tmp_path / "out"
    shutil.copytree(looked, out)
    flags = {"data_dir": tmp_path / "data", "do_eval": True, "eval_batch_size": 4}
    code, _, err = inside(tiny.flags(out, "own", **flags))
    assert code == 0, err
    assert scores(out / "eval_results.txt") == scores(looked / files["later"])


def test_tensorboard_gets_every_score_of_every_set(looked):
    # One file: TensorBoard may follow the newest of several alone.
    (file,) = looked.glob("events.out.tfevents.*")
    events = event_accumulator.EventAccumulator(str(file)).Reload()
    assert "train/loss" in events.Tags()["tensors"]
    rows = history(looked)
    for name in ("dev", "later"):
        own = [row for row in rows if row["set"] == name]
        assert own and {"eval_accuracy", "eval_loss", "macro_f1"} <= own[0].keys()
        for score in own[0].keys() - {"set", "step"}:
            points = events.Tensors(f"{name}/{score}")
            drawn = {p.step: float(tf.make_ndarray(p.tensor_proto)) for p in points}
            wanted = {row["step"]: row[score] for row in own}
            assert drawn == pytest.approx(wanted, rel=1e-6)


def test_looking_changes_no_bit_of_the_training(tiny, looked, inside, tmp_path):
    code, _, err = inside(tiny.flags(tmp_path / "out", "own", **TRAINED))
    assert code == 0, err
    assert_same_run(looked, tmp_path / "out")


@pytest.mark.parametrize("metric", ["eval_loss", *rarely("eval_accuracy")])
def test_best_holds_the_weights_of_the_best_evaluation(
    tiny, looked, inside, tmp_path, metric
):
    out = tmp_path / "out"
    flags = {**TRAINED, **LOOKS, "keep_checkpoint_max": 0, "save_checkpoints_steps": 2}
    flags |= {"best_metric": metric}
    # The last is not the best: the rate rises to the end.
    flags |= {"learning_rate": 3e-1, "warmup_proportion": 1.0}
    code, _, err = inside(tiny.flags(out, "own", **flags))
    assert code == 0, err
    actual = {row["step"]: row[metric] for row in history(out)}
    wanted = (min if metric == "eval_loss" else max)(actual.values())
    step = next(step for step, value in actual.items() if value == wanted)  # the first
    record = json.loads((out / "best" / "best.json").read_text())
    assert record.pop("of")
    assert record == {"step": step, "value": wanted, "metric": metric, "set": "dev"}
    best = google_read.read(out / "best")
    then = google_read.read(out / f"model.ckpt-{step}")
    assert best["global_step"] == step < STEPS
    for name in best:
        if not name.startswith("bert_mgpu/"):
            assert np.array_equal(best[name], then[name]), name
    assert not any("adam" in name for name in best)
    # It is used where that is asked for alone, and is a start like any other.
    args = {"do_eval": True, "eval_batch_size": 4}
    assert inside(tiny.flags(out, "own", **args, use_best=True))[0] == 0
    assert scores(out / "eval_results.txt")[metric] == wanted
    assert scores(out / "eval_results.txt")["global_step"] == step
    assert inside(tiny.flags(out, "own", **args))[0] == 0
    assert scores(out / "eval_results.txt")["global_step"] == STEPS
    alone = {"init_checkpoint": out / "best", "vocab_file": None}
    alone |= {"bert_config_file": None}
    code, _, err = inside(tiny.flags(tmp_path / "new", "own", **args, **alone))
    assert code == 0, err
    assert scores(tmp_path / "new" / "eval_results.txt")[metric] == wanted


def test_averages_are_what_is_looked_at_and_kept(tiny, inside, tmp_path):
    out = tmp_path / "out"
    flags = {**TRAINED, **LOOKS, "ema_decay": 0.9, "do_eval": True, "use_best": True}
    code, _, err = inside(tiny.flags(out, "own", **flags))
    assert code == 0, err
    best = json.loads((out / "best" / "best.json").read_text())["step"]
    (loss,) = {row["eval_loss"] for row in history(out) if row["step"] == best}
    assert scores(out / "eval_results.txt")["eval_loss"] == loss


@pytest.mark.parametrize("step", [6, *rarely(12)])
def test_a_resumed_run_leaves_what_the_straight_one_does(
    tiny, looked, later, inside, tmp_path, step
):
    """Killed after a save, with evaluations that lie beyond it."""
    out = tmp_path / "out"
    shutil.copytree(looked, out)
    keep_only(out, step)
    flags = {**TRAINED, **LOOKS, "eval_files": f"later={later}"}
    code, _, err = inside(tiny.flags(out, "own", **flags, n_gpus=1))
    assert code == 0, err
    assert history(out) == history(looked)
    assert_same_run(looked, out)
    assert_same_run(looked / "best", out / "best")
    assert (out / "best/best.json").read_text() == (
        looked / "best/best.json"
    ).read_text()


@pytest.mark.parametrize("calls", [15, *rarely(1, 35)])
def test_stopped_in_an_evaluation_it_is_done_later(
    tiny, looked, later, inside, tmp_path, monkeypatch, calls
):
    """SIGTERM in the first, the third and the last one: the step is saved at once."""
    out, ask, seen = tmp_path / "out", Towers.launch_outputs, []

    def stopped(towers, batch):
        seen.append(batch)
        if len(seen) == calls:
            signal.raise_signal(signal.SIGTERM)
        return ask(towers, batch)

    monkeypatch.setattr(Towers, "launch_outputs", stopped)
    flags = {**TRAINED, **LOOKS, "eval_files": f"later={later}"}
    code, _, err = inside(tiny.flags(out, "own", **flags, n_gpus=1))
    assert code == 75, err
    assert len(seen) == calls
    monkeypatch.undo()
    code, _, err = inside(tiny.flags(out, "own", **flags, n_gpus=1))
    assert code == 0, err
    assert history(out) == history(looked)
    assert_same_run(looked, out)
    assert_same_run(looked / "best", out / "best")


def test_best_of_another_run_or_set_is_not_the_bar(tiny, work, inside, tmp_path):
    out = tmp_path / "out"
    flags = {**TRAINED, **LOOKS, "save_checkpoints_steps": 100}
    assert inside(work.flags(out, "own", **flags))[0] == 0
    first = json.loads((out / "best/best.json").read_text())
    for path in out.glob("model.ckpt-*"):  # as if it had been killed before a save
        path.unlink()
    flags["learning_rate"] = 1e-9
    assert inside(work.flags(out, "own", **flags))[0] == 0
    second = json.loads((out / "best/best.json").read_text())
    assert second["value"] < first["value"] and second["of"] != first["of"]
    (work.data("own") / "dev.tsv").write_text("no\tsun\nyes\train\n" * 3)
    flags["num_train_epochs"] = 4
    assert inside(work.flags(out, "own", **flags))[0] == 0
    third = json.loads((out / "best/best.json").read_text())
    assert third["of"] != second["of"] and third["step"] > STEPS


def test_early_stopping_ends_and_stays_ended(tiny, inside, tmp_path):
    out = tmp_path / "out"
    flags = {**TRAINED, "eval_steps": 1, "eval_batch_size": 4, "learning_rate": 0}
    flags |= {"early_stopping_patience": 3, "do_predict": True}
    code, _, err = inside(tiny.flags(out, "own", **flags))
    assert code == 0, err
    assert [row["step"] for row in history(out)] == [1, 2, 3, 4]
    assert re.search(
        r"stopped early: no better eval_accuracy than .* in 3 evaluations", err
    )
    assert google_read.read(out)["global_step"] == 4  # saved, though no save was due
    assert len((out / "predict.txt").read_text().splitlines()) == 11
    before = tree(out)
    code, _, err = inside(tiny.flags(out, "own", **flags))
    assert code == 0 and "nothing left to train: stopped early" in err
    assert tree(out) == before
    flags |= {"early_stopping_patience": 5}
    code, _, err = inside(tiny.flags(out, "own", **flags))
    assert code == 0, err
    assert [row["step"] for row in history(out)] == [1, 2, 3, 4, 5, 6]


def test_naive_bayes_is_scikit_learns(tiny, looked, later):
    """Over the same tokens, counted by scikit-learn from text."""
    tokenizer = Tokenizer(tiny.model / "vocab.txt", True)

    def read(path):
        cells = [line.split("\t") for line in path.read_text().splitlines()]
        words = [tokenizer.tokenize(text)[:14] for _, text in cells]  # of 16
        texts = [" ".join(["[CLS]", *one, "[SEP]"]) for one in words]
        return texts, [label for label, _ in cells]

    count = CountVectorizer(token_pattern=r"\S+", lowercase=False)
    folder = tiny.data("own")
    texts, labels = read(folder / "train.tsv")
    model = MultinomialNB().fit(count.fit_transform(texts), labels)
    actual = json.loads((looked / "baseline.json").read_text())
    for name, path in (("dev", folder / "dev.tsv"), ("later", later)):
        texts, labels = read(path)
        wanted = model.score(count.transform(texts), labels)
        assert actual[name]["eval_accuracy"] == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("flags", "fragments"),
    [
        ({"eval_files": "later"}, ["--eval_files: 'later': write NAME=FILE"]),
        ({"eval_files": "a/b=x"}, ["--eval_files: 'a/b=x': write NAME=FILE"]),
        ({"eval_files": "dev=x"}, ["--eval_files: the name 'dev' is taken"]),
        ({"eval_files": "a=x,a=y"}, ["--eval_files: the name 'a' is taken"]),
        ({"eval_files": "a=none.tsv"}, ["none.tsv: no such file"]),
        ({"best_metric": "bleu"}, ["--best_metric=bleu", "eval_accuracy", "auc"]),
        ({"eval_steps": 0}, ["--eval_steps=0: pass at least 1"]),
        ({"eval_steps": None, "eval_files": "a=x"}, ["pass --do_eval=true or"]),
        ({"eval_steps": None, "use_best": True}, ["--use_best with --do_train needs"]),
        (
            {"eval_steps": None, "early_stopping_patience": 1},
            ["--early_stopping_patience does nothing without --eval_steps"],
        ),
        (
            {"max_train_steps": 0, "eval_steps": 2},
            ["--eval_steps with --max_train_steps=0, which trains nothing"],
        ),
        (
            {"max_train_steps": 0, "plan": True},
            ["--plan with --max_train_steps=0, which trains nothing"],
        ),
    ],
)
def test_mistakes(work, expect_refused, flags, fragments):
    expect_refused(work, *fragments, **{"task": "own", **LOOKS, **flags})


def test_there_is_no_best_without_evaluations(tiny, inside, tmp_path):
    out = tmp_path / "out"
    assert inside(tiny.flags(out, "own", do_train=True))[0] == 0
    result = inside(tiny.flags(out, "own", do_eval=True, use_best=True))
    assert_refused(result, "--use_best", "best holds no weights", "--eval_steps")
    result = inside(tiny.flags(out, "own", do_eval=True, eval_steps=2))
    assert_refused(result, "--eval_steps does nothing without --do_train=true")
