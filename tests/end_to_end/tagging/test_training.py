"""Entities are learnt; towers, windows and resumes change nothing."""

import json
import shutil

import numpy as np
import pytest
from seqeval import metrics as seqeval

from bert_mgpu.checkpoints import google_read
from tests.support.entities import sentences
from tests.support.marks import rarely
from tests.support.tiny import BAD, GOOD


def scores(out):
    lines = (out / "eval_results.txt").read_text().splitlines()
    return {key: float(value) for key, value in (line.split(" = ") for line in lines)}


@pytest.mark.parametrize("task", ["ner", "cluener"])
def test_entities_are_learnt_and_predicted(tagger, data, task):
    out = tagger(task)
    found = scores(out)
    assert found["f1"] > 0.8 and found["eval_accuracy"] > 0.9
    assert [*found][:4] == ["eval_accuracy", "eval_loss", "global_step", "loss"]
    assert {"precision", "recall", "macro_f1", "weighted_f1"} <= {*found}
    assert (out / "label_list.txt").read_text().split() == [
        *("O", "B-BAD", "I-BAD", "B-GOOD", "I-GOOD")
    ]
    lines = [*sentences(9, 2)]
    predicted = (out / "predict.txt").read_text().splitlines()
    records = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    assert len(predicted) == len(records) == 9
    right = 0
    for line, text, record in zip(lines, predicted, records, strict=True):
        words = " ".join(word for word, _ in line)
        if task == "ner":
            assert len(text.split(" ")) == len(line)
            words = record["text"]
        else:
            assert text == " ".join(
                f"{e['start']}:{e['end']}:{e['type']}" for e in record["entities"]
            )
        for entity in record["entities"]:
            assert words[entity["start"] : entity["end"]] == entity["text"]
            assert 0 < entity["probability"] <= 1
            right += {*entity["text"].split(" ")} <= {*GOOD.split(), *BAD.split()}
    assert right > 9
    blocks = (out / "label_test.txt").read_text().removesuffix("\n\n").split("\n\n")
    tagged = [[row.split(" ") for row in block.splitlines()] for block in blocks]
    assert [[(word, true) for word, true, _ in block] for block in tagged] == lines
    sides = [[[row[at] for row in block] for block in tagged] for at in (1, 2)]
    assert seqeval.f1_score(*sides) > 0.8


def test_a_conditional_random_field(tagger):
    """Learns which tags follow each other, and resumes with what it has learnt."""
    out = tagger(crf=True, n_gpus=2, padding="pack")
    assert scores(out)["f1"] > 0.8


def test_towers_windows_and_paddings_change_no_prediction(
    tagger, inside, flags, tmp_path
):
    wanted = (tagger() / "predict.txt").read_bytes()
    for changed in ({"n_gpus": 3, "predict_batch_size": 2}, {"padding": "max_length"},
                    {"padding": "pack", "predict_batch_size": 5}):  # fmt: skip
        out = shutil.copytree(tagger(), tmp_path / str(len([*tmp_path.iterdir()])))
        code, _, err = inside(flags(out, do_predict=True, **changed))
        assert code == 0, err
        assert (out / "predict.txt").read_bytes() == wanted


def test_the_best_weights_are_those_of_the_highest_f1(tagger):
    """Beside the floor of the training set's entities."""
    out = tagger("cluener", eval_steps=9, report=True)
    history = [json.loads(line) for line in (out / "evaluations.jsonl").open()]
    best = json.loads((out / "best" / "best.json").read_text())
    assert best["metric"] == "f1" and best["value"] == max(h["f1"] for h in history)
    floor = json.loads((out / "baseline.json").read_text())["dev"]
    assert 0 < floor["f1"] < 1
    page = (out / "report.html").read_text()
    assert "boundary and type" in page and "dev: errors" in page


@pytest.mark.parametrize("crf", [True, *rarely(False)])
def test_four_towers_are_one_batch(flags, inside, tmp_path, crf):
    """The same rows and masks, whichever tower has them; losses by all units."""
    losses = []
    for towers, size in ((1, 8), (4, 2)):
        out = tmp_path / str(towers)
        changed = {"n_gpus": towers, "train_batch_size": size, "cpu_devices": 2}
        changed |= {"do_train": True, "log_steps": 1, "num_train_epochs": 2}
        code, _, err = inside(flags(out, crf=crf, **changed))
        assert code == 0, err
        lines = (out / "metrics.jsonl").open()
        losses.append([json.loads(line)["loss"] for line in lines])
    assert len(losses[0]) > 10
    assert losses[0] == pytest.approx(losses[1], abs=2e-4)


def test_a_resume_changes_no_bit(flags, inside, tmp_path):
    """With a random field, whose slots are saved like others."""
    args = {"crf": True, "do_train": True, "head_lr_factor": 10, "n_gpus": 2}
    args |= {"save_checkpoints_steps": 5, "keep_checkpoint_max": 20}
    code, _, err = inside(flags(tmp_path / "straight", **args))
    assert code == 0, err
    broken = shutil.copytree(tmp_path / "straight", tmp_path / "broken")
    for path in broken.glob("model.ckpt-*"):
        if int(path.name.split("-")[1].split(".")[0]) > 10:
            path.unlink()
    code, _, err = inside(flags(broken, **args))
    assert code == 0 and "model.ckpt-10: step 10" in err, err
    wanted, actual = (
        google_read.read(tmp_path / name) for name in ("straight", "broken")
    )
    assert {"crf/follow", "crf/follow/adam_m"} <= {*wanted}
    assert np.abs(wanted["crf/follow"]).max() > 1e-3  # it has learnt
    for name, value in wanted.items():
        if name != "bert_mgpu/identity":
            assert np.array_equal(actual[name], value), name
