"""--on_divergence: what a run does after a step that is not finite."""

import json
import math
import shutil

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read
from bert_mgpu.core.errors import UserError
from bert_mgpu.data import pipeline
from bert_mgpu.runs import run_json
from bert_mgpu.training.towers import Towers
from tests.support import nonfinite
from tests.support.compare import assert_same_bits
from tests.support.tiny import VOCAB

CULPRIT = VOCAB.index(".")  # which no text has

FLAGS = {"do_train": True, "num_train_epochs": 4, "warmup_proportion": 0.0,
         "save_checkpoints_steps": 2, "keep_checkpoint_max": 100, "log_steps": 1,
         "learning_rate": 1e-3, "n_gpus": 2}  # fmt: skip


def rates(out):
    lines = [json.loads(line) for line in (out / "metrics.jsonl").open()]
    return {line["step"]: line["learning_rate"] for line in lines}


def rolled(out):
    return json.loads((out / "rollbacks.json").read_text())["rollbacks"]


def weights(out, step):
    return google_read.read(out / f"model.ckpt-{step}")


@pytest.fixture(scope="module")
def straight(trained):
    """A run that does not diverge."""
    return trained("own", **FLAGS)


def breaks_at(steps, monkeypatch):
    """A weight becomes NaN in step n, from 0, where the rate is at least steps[n]."""
    whole = Towers.train_step

    def broken(self, batch, step, rate, **named):
        if rate >= steps.get(step, math.inf):
            for replica in self._replicas:
                bias = replica.params["output_bias"]
                bias.assign(bias * math.nan)
        return whole(self, batch, step, rate, **named)

    monkeypatch.setattr(Towers, "train_step", broken)


def test_half_the_rate_from_the_newest_checkpoint(
    tiny, inside, tmp_path, straight, monkeypatch
):
    """In step 7 and once more in step 10; a later start goes on to the same bits."""
    full = rates(straight)
    breaks_at({6: 0.9 * full[7], 9: 0.4 * full[10]}, monkeypatch)
    out, twin = tmp_path / "out", tmp_path / "twin"
    args = tiny.flags(out, "own", on_divergence="rollback", **FLAGS)
    code, _, err = inside(args)
    assert code == 0, err
    back = rolled(out)
    assert [(one["diverged"], one["step"]) for one in back] == [(7, 6), (10, 8)]
    assert back[0]["seen"].startswith("loss nan, gradient norm nan, first in the")
    assert back[0]["seen"].endswith("weights (output_bias) of all 2 towers")
    assert "back to step 6, with half the learning rate from there (1 of 3" in err
    wanted = {n: rate * 0.5 ** ((n > 6) + (n > 8)) for n, rate in full.items()}
    assert rates(out) == pytest.approx(wanted)
    assert len(rates(out)) == max(full) == 12
    shutil.copytree(out, twin)
    for path in twin.glob("model.ckpt-*"):
        if int(path.name.split("-")[1].split(".")[0]) > 10:
            path.unlink()
    code, _, err = inside(tiny.flags(twin, "own", **FLAGS))
    assert code == 0, err
    assert "halved after step 6, 8" in err
    assert_same_bits(weights(twin, 12), weights(out, 12))
    assert rolled(twin) == back


def test_no_more_than_three_times(tiny, inside, tmp_path, monkeypatch):
    breaks_at({0: 0.0}, monkeypatch)
    args = tiny.flags(tmp_path / "out", "own", on_divergence="rollback", **FLAGS)
    code, _, err = inside(args)
    assert code == 3 and "Traceback" not in err
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: step 1: loss nan")
    assert "diverged after 3 rollbacks: look at the data" in line
    back = rolled(tmp_path / "out")
    assert [(one["diverged"], one["step"]) for one in back] == [(1, 0)] * 3


def test_without_the_flag_it_stops_and_says_where(tiny, inside, tmp_path, monkeypatch):
    breaks_at({5: 1e-5}, monkeypatch)
    out = tmp_path / "out"
    code, _, err = inside(tiny.flags(out, "own", **FLAGS))
    assert code == 3
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "first in the weights (output_bias) of all 2 towers: the training" in line
    assert "pass --on_divergence=rollback" in line
    assert not (out / "rollbacks.json").exists()
    assert (
        weights(out, 4)["global_step"] == 4
        and not (out / "model.ckpt-6.index").exists()
    )


@pytest.mark.parametrize("place", ["the data", "layer 0", "the loss"])
def test_a_row_is_found_in_its_tower(tiny, inside, tmp_path, monkeypatch, place):
    data = shutil.copytree(tiny.data("own"), tmp_path / "data")
    with (data / "train.tsv").open("a") as file:
        file.write("yes\tsun .\n")
    whole, towers = pipeline.collate, list[int]()

    def noting(rows, placement):
        batch = whole(rows, placement)
        hit = (batch["input_ids"] == CULPRIT).any(-1)  # [N, R]
        towers.extend(np.flatnonzero(hit.any(-1)).tolist())
        if place == "the data":
            real = batch["is_real_example"]
            batch["is_real_example"] = np.where(hit, np.nan, real).astype(real.dtype)
        return batch

    monkeypatch.setattr(pipeline, "collate", noting)
    if place == "the loss":
        nonfinite.break_loss(place, CULPRIT, monkeypatch)
    elif place == "layer 0":
        nonfinite.break_layer(0, CULPRIT, monkeypatch)
    args = tiny.flags(tmp_path / "out", "own", **{**FLAGS, "data_dir": data})
    code, _, err = inside(args)
    assert code == 3 and "Traceback" not in err, err
    assert f"first in {place}" in err and f" of tower {towers[0]}: the training" in err


def test_what_cannot_be_noted_hides_no_error(tiny, inside, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise UserError("run.json: cannot write it: No space left on device")

    breaks_at({5: 1e-5}, monkeypatch)
    monkeypatch.setattr(run_json, "note_time", refuse)
    code, _, err = inside(tiny.flags(tmp_path / "out", "own", **FLAGS))
    assert code == 3 and "first in the weights (output_bias)" in err


def test_a_damaged_file_is_told_and_not_trusted(tiny, inside, straight, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(straight, out)
    (out / "rollbacks.json").write_text('{"rollbacks": [{"step": "x"}]}')
    code, _, err = inside(tiny.flags(out, "own", **FLAGS))
    assert code == 0 and "rollbacks.json is not read" in err
