"""Whole runs on the path of GPUs: TensorFlow's own collectives, on CPU devices."""

import json
import pathlib
import shutil
import signal
import time

import pytest

from bert_mgpu.distributed import strategies
from tests.support.processes import process
from tests.support.runs import assert_same_run, keep_only

PROGRAM = pathlib.Path(__file__).with_name("failing.py")
NOTHING_FAILS = json.dumps({"tower": -1, "step": 0, "most": 0, "default": True})


@pytest.fixture
def default(monkeypatch):
    monkeypatch.setattr(strategies, "make_strategy", strategies.mirrored)


def flags(tiny, out, **changed):
    settings = {"n_gpus": 4, "cpu_devices": 4, "num_train_epochs": 4, "log_steps": 1}
    return tiny.flags(out, **{**settings, "save_checkpoints_steps": 2, **changed})


def test_stopped_and_resumed_is_the_straight_run(tiny, tmp_path, inside, default):
    straight, resumed = tmp_path / "straight", tmp_path / "resumed"
    args = flags(tiny, straight, do_train=True)
    assert inside(args)[0] == 0
    shutil.copytree(straight, resumed)
    keep_only(resumed, 4)
    code, _, err = inside(flags(tiny, resumed, do_train=True))
    assert code == 0 and "resuming  from" in err and "step 4 with" in err
    assert_same_run(straight, resumed)


def test_predictions_and_scores_are_those_of_one_device(
    tiny, tmp_path, inside, default, trained
):
    """The same weights: what devices give is put together by its rows."""
    actual = []
    for n_devices in (1, 4):
        out = tmp_path / str(n_devices)
        shutil.copytree(trained(), out)
        do = {"do_eval": True, "do_predict": True, "predict_batch_size": 2}
        code, _, err = inside(flags(tiny, out, cpu_devices=n_devices, **do))
        assert code == 0, err
        names = "predict.txt", "test_results.tsv", "predictions.jsonl"
        actual.append([(out / name).read_text() for name in names])
        actual[-1].append((out / "eval_results.txt").read_text())
    assert actual[0] == actual[1]


@pytest.mark.nightly
def test_killed_and_stopped_scripts_go_on(tiny, tmp_path):
    straight, broken = tmp_path / "straight", tmp_path / "broken"

    def start(out):
        args = flags(tiny, out, do_train=True, num_train_epochs=60)
        return process(["classifier", NOTHING_FAILS, *args], program=PROGRAM)

    def end(run):
        _, err = run.communicate(timeout=300)
        return run.returncode, err

    code, err = end(start(straight))
    assert code == 0, err
    metrics = broken / "metrics.jsonl"
    for number, wanted in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 75)):
        before = metrics.stat().st_size if metrics.exists() else 0
        run = start(broken)
        while not metrics.exists() or metrics.stat().st_size <= before + 500:
            assert run.poll() is None, "the run ended before it could be broken"
            time.sleep(0.01)
        run.send_signal(number)
        code, err = end(run)
        assert code == wanted, err
    code, err = end(start(broken))
    assert code == 0 and "resuming  from" in err, err
    assert_same_run(straight, broken)
