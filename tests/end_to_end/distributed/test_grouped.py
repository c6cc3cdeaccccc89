"""Processes whose sums are made as between GPUs, by `grouped_allreduce`, over gloo."""

import json
import pathlib

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read
from tests.support.marks import rarely
from tests.support.paths import ROOT
from tests.support.runs import keep_only

PROGRAM = pathlib.Path(__file__).with_name("grouped.py")
FLAGS = {"do_train": True, "num_train_epochs": 25, "log_steps": 1, "n_gpus": 2}
FLAGS |= {"train_batch_size": 3, "save_checkpoints_steps": 25}
TOWERS = 4


@pytest.fixture
def grouped(cluster):
    """grouped(processes, flags) -> what all processes printed; all end well."""

    def run(processes, args, kind="classifier"):
        env = {"PYTHONPATH": str(ROOT)}
        code, out = cluster.run(processes, [kind, *args], program=PROGRAM, env=env)
        assert code == 0, out
        return out

    return run


def losses(output):
    return [json.loads(line)["loss"] for line in (output / "metrics.jsonl").open()]


@pytest.mark.parametrize("resumes", [False, *rarely(True)])
def test_trains_resumes_and_predicts(tiny, tmp_path, grouped, inside, resumes):
    """50 steps as one process with all the towers; resumed to the same bits."""
    one, two = tmp_path / "one", tmp_path / "two"
    code, _, err = inside(tiny.flags(one, **{**FLAGS, "n_gpus": TOWERS}))
    assert code == 0, err
    out = grouped(2, tiny.flags(two, **FLAGS))
    assert "sums by NCCL" in out  # so this branch says
    wanted, actual = google_read.read(one), google_read.read(two)
    assert actual["global_step"] == wanted["global_step"] == 50
    np.testing.assert_allclose(losses(two), losses(one), rtol=1e-5)
    for name, value in wanted.items():
        if name.startswith("bert/") and "self/key/bias" not in name:
            limit = 1e-5 * np.abs(value).max()
            np.testing.assert_allclose(actual[name], value, 0, limit, err_msg=name)
    if not resumes:
        return
    keep_only(two, 25)
    (two / "metrics.jsonl").rename(tmp_path / "before.jsonl")
    do = {"do_eval": True, "do_predict": True}
    out = grouped(2, tiny.flags(two, **FLAGS, **do))
    assert "step 25 with" in out
    resumed = google_read.read(two)
    assert all(np.array_equal(resumed[name], value) for name, value in actual.items())
    again = tiny.flags(one, n_gpus=TOWERS, **do)
    assert inside(again)[0] == 0
    assert (two / "predict.txt").read_text() == (one / "predict.txt").read_text()


@pytest.mark.nightly
@pytest.mark.parametrize("processes", [2, 4])
def test_float16_is_scaled(tiny, tmp_path, grouped, processes):
    flags = {**FLAGS, "n_gpus": TOWERS // processes, "num_train_epochs": 4}
    wanted, rounded = tmp_path / "float32", tmp_path / "float16"
    grouped(processes, tiny.flags(wanted, **flags))
    grouped(processes, tiny.flags(rounded, allreduce_dtype="float16", **flags))
    np.testing.assert_allclose(losses(rounded), losses(wanted), rtol=2e-3)
    assert google_read.read(rounded)["bert_mgpu/loss_scale"] == 2.0**15
