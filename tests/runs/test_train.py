"""What a training will do, and what it says where a step does not fit."""

import dataclasses
import pathlib
import types

import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.config.pretraining import PretrainConfig
from bert_mgpu.core.errors import DoesNotFit, OutOfMemory, UserError
from bert_mgpu.distributed import launcher
from bert_mgpu.distributed.topology import single_process
from bert_mgpu.runs import memory, train
from bert_mgpu.runs.run import Run

NOWHERE = pathlib.Path("no such folder")


def job_of(run, towers=2, output_dir=NOWHERE):
    return Run(
        run,
        None,
        None,
        data=None,
        topology=single_process(towers, ["CPU:0"]),
        output_dir=output_dir,
    )


def plan_of(run, rows, towers=2):
    return train._plan(job_of(run, towers), rows, {})


def test_steps_are_those_of_the_effective_batch():
    """bert-ad rounds down; 100 rows x 3 epochs of batches of 4 x 2 towers x 2 turns."""
    run = FinetuneConfig(train_batch_size=4, gradient_accumulation_steps=2)
    assert plan_of(run, 100).steps == 18
    assert plan_of(run, 100, towers=1).steps == 37


def test_fewer_rows_than_a_batch_are_refused():
    run = FinetuneConfig(train_batch_size=8, num_train_epochs=1)
    assert plan_of(run, 16).steps == 1
    with pytest.raises(UserError, match="15 rows x 1 epochs are less than one batch"):
        plan_of(run, 15)


def test_the_warm_up_is_a_share_of_a_fine_tuning_and_a_number_of_a_pretraining():
    run = FinetuneConfig(train_batch_size=1, num_train_epochs=1, warmup_proportion=0.25)
    assert plan_of(run, 80).warmup == 10  # of 40 steps
    run = PretrainConfig(num_train_steps=40, num_warmup_steps=7)
    assert (plan_of(run, 80).steps, plan_of(run, 80).warmup) == (40, 7)


@pytest.mark.parametrize(
    ("scaling", "factor"), [("none", 1), ("sqrt", 2), ("linear", 4)]
)
def test_the_peak_rate_grows_with_the_towers_as_asked(scaling, factor):
    run = FinetuneConfig(learning_rate=1e-5, lr_scaling=scaling, lr_decay_power=2.0)
    plan = plan_of(run, 1000, towers=4)
    assert plan.peak_rate == pytest.approx(factor * 1e-5)
    assert plan.decay_power == 2


def test_a_run_looks_and_saves_as_often_as_its_flags_say():
    run = FinetuneConfig(save_checkpoints_steps=7, log_steps=3, eval_steps=5)
    plan = plan_of(run, 1000)
    assert (plan.save_every, plan.read_every, plan.eval_every) == (7, 3, 5)


@pytest.mark.parametrize(
    ("rows", "turns", "parts"), [(8, 1, 2), (9, 1, 3), (7, 2, 7), (12, 5, 2)]
)
def test_a_batch_that_does_not_fit_is_cut_by_its_smallest_divisor(
    tmp_path, rows, turns, parts
):
    """The same rows a step: as many times the turns."""
    run = FinetuneConfig(train_batch_size=rows, gradient_accumulation_steps=turns)
    error = memory.smaller_parts(job_of(run, output_dir=tmp_path), "OOM")
    assert isinstance(error, DoesNotFit) and error.parts == parts
    flags = f"--train_batch_size={rows // parts}"
    flags += f" --gradient_accumulation_steps={turns * parts}, the same rows a step"
    assert str(error) == f"OOM: pass {flags}"
    assert error.notice == f"OOM: continuing from the start with {flags}"
    (tmp_path / "model.ckpt-3.index").write_bytes(b"")
    error = memory.smaller_parts(job_of(run, output_dir=tmp_path), "OOM")
    assert error.notice.startswith("OOM: continuing from the newest checkpoint with")


def test_parts_multiply_from_one_start_to_the_next(tmp_path, monkeypatch):
    monkeypatch.setenv(launcher.PARTS, "4")
    run = FinetuneConfig(train_batch_size=2, gradient_accumulation_steps=4)
    error = memory.smaller_parts(job_of(run, output_dir=tmp_path), "OOM")
    assert error.parts == 8


def test_one_row_cannot_be_cut(tmp_path):
    for recompute, words in (("none", "--recompute=block; or"), ("block", "pass with")):
        run = FinetuneConfig(train_batch_size=1, recompute=recompute)
        error = memory.smaller_parts(job_of(run, output_dir=tmp_path), "OOM")
        assert type(error) is OutOfMemory and words in str(error)
        assert "with one row at a time" in str(error)


def test_the_weights_it_found_best_are_used_where_that_is_asked_for(
    tmp_path, monkeypatch
):
    """Of a run that does not train: else the newest."""
    used = []

    def trained_state(run, specs, identity, *, output_dir, unused, model):
        used.append(output_dir)
        return types.SimpleNamespace(params={})

    monkeypatch.setattr(train.resume, "trained_state", trained_state)
    monkeypatch.setattr(train.identity_lib, "model_identity", lambda *_: {})
    monkeypatch.setattr(train.init_distributed, "shared_state", lambda _, find: find())
    task = types.SimpleNamespace(param_specs=dict, unused_params=frozenset())
    towers = types.SimpleNamespace(load=lambda *_: None)
    job = job_of(FinetuneConfig(), output_dir=tmp_path)
    job = dataclasses.replace(job, task=task)
    with pytest.raises(UserError, match="best holds no weights: train with"):
        train.train_or_load(job, use_best=True, towers=towers)
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "model.ckpt-3.index").write_bytes(b"")
    train.train_or_load(job, towers=towers)
    train.train_or_load(job, use_best=True, towers=towers)
    assert used == [tmp_path, tmp_path / "best"]
