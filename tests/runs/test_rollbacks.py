"""rollbacks.json: what a training reads of it, and what it refuses to do again."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.checkpoints import google_read
from bert_mgpu.core.errors import DivergedStep
from bert_mgpu.core.rows import Features, Ragged
from bert_mgpu.data.batching import Batching
from bert_mgpu.distributed.collective import SOLO
from bert_mgpu.runs import mlflow_state, rollbacks


@pytest.fixture
def job(tmp_path):
    """job(...) -> what is read of a run in a folder with two checkpoints."""
    for step in (4, 8):
        google_read.write(tmp_path / f"model.ckpt-{step}", {"weights": np.zeros(9)})
    return types.SimpleNamespace(
        output_dir=tmp_path,
        topology=types.SimpleNamespace(group=SOLO),
        config=types.SimpleNamespace(on_divergence="rollback", learning_rate=1e-3),
    )


def test_those_of_later_steps_are_of_another_run(job, tmp_path):
    steps = [{"diverged": s + 1, "step": s, "seen": "x"} for s in (0, 8, 12)]
    kept = {"learning_rate": 1e-3, "rollbacks": steps}
    (tmp_path / "rollbacks.json").write_text(json.dumps(kept))
    assert [one.step for one in rollbacks.read(job, "a")] == [0, 8]
    job.config.learning_rate = 1e-4  # nothing was saved, and it begins anew
    assert rollbacks.read(job, "a") == []


def test_those_of_another_training_do_not_count(job, tmp_path):
    rollbacks.roll_back(DivergedStep(9, "loss nan", ""), job, "a")
    assert len(rollbacks.read(job, "a")) == 1 and rollbacks.read(job, "b") == []
    job.config.learning_rate /= 2  # and twice the towers, with --lr_scaling=linear
    assert len(rollbacks.read(job, "a")) == 1
    rollbacks.roll_back(DivergedStep(10, "loss nan", ""), job, "b")
    assert [one.diverged for one in rollbacks.read(job, "b")] == [10]


def test_a_damaged_checkpoint_is_not_gone_back_to(job, tmp_path):
    """Training had begun at the one before it, and saves the next one in its place."""
    (data,) = tmp_path.glob("model.ckpt-8.data*")
    data.write_bytes(b"")
    rollbacks.roll_back(DivergedStep(6, "loss nan", ""), job, "a")
    assert [one.step for one in rollbacks.read(job, "a")] == [4]
    (tmp_path / "model.ckpt-8.index").unlink()
    assert [one.step for one in rollbacks.read(job, "a")] == [4]


def test_mlflow_gets_the_steps_that_are_repeated(job, tmp_path):
    """What it has of the steps after the checkpoint is of weights that are gone."""
    rows = [json.dumps({"step": step, "loss": 1.0}) + "\n" for step in (7, 8, 9)]
    (tmp_path / "metrics.jsonl").write_text("".join(rows))
    logged = {"train": 9, "dev": 6, "later": 8}
    mlflow_state.write(tmp_path, "a store", "a run", logged=logged)
    rollbacks.roll_back(DivergedStep(10, "loss nan", ""), job, "a")
    found = mlflow_state.read(tmp_path, "a store")
    assert found["run_id"] == "a run"
    # Nor can MLflow's thread read them again.
    assert (tmp_path / "metrics.jsonl").read_text() == "".join(rows[:2])
    assert not (tmp_path / "evaluations.jsonl").exists()
    assert found["logged"] == {"train": 8, "dev": 6, "later": 8}
    for text in ("", "{}", '{"uri": 1, "run_id": 2, "logged": []}'):
        (tmp_path / "mlflow.json").write_text(text)
        rollbacks.roll_back(DivergedStep(11, "loss nan", ""), job, text)
        assert (tmp_path / "mlflow.json").read_text() == text


def test_those_of_an_older_file_count_where_something_was_saved(job, tmp_path):
    kept = {"diverged": 9, "step": 0, "seen": "x"}
    kept = {"learning_rate": 1e-3, "rollbacks": [kept]}
    (tmp_path / "rollbacks.json").write_text(json.dumps(kept))
    assert len(rollbacks.read(job, "a")) == 1
    for path in tmp_path.glob("model.ckpt*"):
        path.unlink()
    assert rollbacks.read(job, "a") == []


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"rollbacks": []}'),
        '{"learning_rate": 1e-3, "rollbacks": [1]}',
        '{"learning_rate": 1e-3, "rollbacks": [{"step": 1e999}]}',
    ],
)
def test_what_cannot_be_read_counts_nothing(job, tmp_path, capsys, text):
    (tmp_path / "rollbacks.json").write_text(text)
    assert rollbacks.read(job, "a") == []
    assert "is not read, the learning rate is the full one" in capsys.readouterr().err


@pytest.mark.parametrize("repeated", [True, False])
def test_where_is_not_known_is_told(job, capsys, repeated):
    def find_nonfinite(batch, step):
        assert step == 8
        if not repeated:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM")
        return {}

    job.batching = Batching("longest", 1, 2, 8, seed=1, random_numbers="counters")
    job.config.padding = "longest"
    ids = Ragged.from_rows([[1, 2]] * 4)
    rows = Features({"input_ids": ids}, {}, np.arange(4))
    towers = types.SimpleNamespace(
        own_towers=range(1), n_towers=1, find_nonfinite=find_nonfinite
    )
    error = DivergedStep(9, "loss nan", "")
    found = rollbacks.located(error, job, rows, towers=towers)
    assert str(found) == str(error)
    why = "each part of it is finite" if repeated else "could not be repeated"
    line = capsys.readouterr().err
    assert "cannot tell where step 9 diverged: " in line and why in line


def test_each_is_kept_and_the_fourth_refused(job):
    error = DivergedStep(9, "loss nan", ": advice")
    assert str(error) == "step 9: loss nan: the training diverged: advice"
    for count in (1, 2, 3):
        rollbacks.roll_back(error.first_at("layer 3"), job, "a")
        found = rollbacks.read(job, "a")
        assert found == [rollbacks.Rollback(9, 8, "loss nan, first in layer 3")] * count
    with pytest.raises(DivergedStep, match="diverged after 3 rollbacks: look at"):
        rollbacks.roll_back(error, job, "a")
    job.config.on_divergence = "stop"
    with pytest.raises(DivergedStep, match=": advice"):
        rollbacks.roll_back(error, job, "a")
