"""How a mistake is checked: one line, and no file changed."""

import functools
import hashlib
import json
import math
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.checkpoints import google_read
from bert_mgpu.training.towers import Towers
from tests.conftest import CONFIG, Tiny

# What a run leaves even if it refuses to work: its lock and TensorFlow's log.
TRACES = {".lock", "tensorflow.log", "cache"}
EARLIER = {"predict.txt": "1\n0\n", "eval_results.txt": "eval_accuracy = 0.5\n"}


def write_vocab(work, tokens):
    (work.model / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))


def edit_config(work, **changed):
    values = {k: v for k, v in {**CONFIG, **changed}.items() if v is not None}
    (work.model / "bert_config.json").write_text(json.dumps(values))


def tree(folder):
    """Hash of every file, by its path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in TRACES
    }


def assert_refused(result, *fragments, code=2):
    """One line is the error; it holds the fragments in this order."""
    got, out, err = result
    lines = err.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert got == code, err
    assert errors == lines[-1:], err
    assert "Traceback" not in err and out == ""
    rest = errors[0]
    for fragment in fragments:
        assert fragment in rest, errors[0]
        rest = rest.partition(fragment)[2]


def keep_only(output_dir, step):
    """As if the run had been stopped after this step, whose checkpoint is there."""
    for file in output_dir.glob("model.ckpt-*"):
        if not file.name.startswith(f"model.ckpt-{step}."):
            file.unlink()


def resume_halfway(start, flags, tmp_path, step, **changed):
    """Runs, and resumes a copy that has nothing saved after this step.

    start: as `inside`; flags: gives those of an output_dir. -> the output_dir of the
    run and of its copy, and what the copy said.
    """
    whole, copy = tmp_path / "whole", tmp_path / "copy"
    saving = {"save_checkpoints_steps": step, "keep_checkpoint_max": 0}
    code, _, err = start(flags(whole, **changed, **saving))
    assert code == 0, err
    shutil.copytree(whole, copy)
    keep_only(copy, step)
    code, _, err = start(flags(copy, **changed))
    assert code == 0 and f"model.ckpt-{step}: step {step} with its weights" in err, err
    return whole, copy, err


def assert_same_run(one, other, leave_out=()):
    """The newest checkpoints hold the same tensors, bit for bit."""
    wanted, found = google_read.read(one), google_read.read(other)
    assert wanted.keys() == found.keys()
    for name, value in wanted.items():
        assert name in leave_out or np.array_equal(found[name], value), name


@pytest.fixture
def work(tiny, tmp_path):
    """A copy of the workspace, with an output_dir that holds earlier results."""
    for name in ("model", "data"):
        shutil.copytree(tiny.root / name, tmp_path / name)
    (tmp_path / "out").mkdir()
    for name, text in EARLIER.items():
        (tmp_path / "out" / name).write_text(text)
    return Tiny(tmp_path)


@pytest.fixture(scope="session")
def trained(tiny, tmp_path_factory):
    """An output_dir with model.ckpt-4 and model.ckpt-6."""
    from bert_mgpu.cli import run_classifier

    out = tmp_path_factory.mktemp("trained")
    flags = tiny.flags(out, do_train=True, save_checkpoints_steps=4)
    assert run_classifier.run(["", *flags]) == 0
    return out


@pytest.fixture
def resumed(work, trained):
    """The workspace, with an output_dir that holds the trained run."""
    shutil.copytree(trained, work.root / "out", dirs_exist_ok=True)
    return work


@pytest.fixture
def expect_refused(inside):
    """expect_refused(work, *fragments, **flags) asserts: one line, no file changed."""

    def check(work, *fragments, **flags):
        out = work.root / "out"
        before = tree(out)
        assert_refused(
            inside(work.flags(out, **{"do_train": True, **flags})), *fragments
        )
        assert tree(out) == before

    return check


@functools.cache
def _error_of_a_full_machine():
    """TensorFlow's own; it waits 10 s for memory before it gives up."""
    try:
        tf.zeros([2**30, 2**20]).numpy()
    except tf.errors.ResourceExhaustedError as error:
        return error


def no_memory(*_):
    raise _error_of_a_full_machine().with_traceback(None)


@pytest.fixture
def little_memory(monkeypatch):
    """More than 50 tokens of a tower at once ask for memory that no machine has."""

    def limited(work):
        def call(towers, batch, *rest):
            if math.prod(batch.columns[0]["input_ids"].shape[1:]) > 50:
                no_memory()
            return work(towers, batch, *rest)

        return call

    for name in ("train_step", "launch_outputs"):
        monkeypatch.setattr(Towers, name, limited(getattr(Towers, name)))
