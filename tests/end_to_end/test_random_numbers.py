"""Runs draw from counters of their own; runs of before go on with numpy's numbers."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read
from bert_mgpu.core.rng.shuffles import SHUFFLES
from bert_mgpu.runs import identity as identity_lib
from tests.support.marks import rarely
from tests.support.runs import assert_same_run, keep_only

IDENTITY = "bert_mgpu/identity"


@pytest.fixture
def before(monkeypatch):
    """before(call, ...) -> as if by the code that knew numpy's random numbers alone."""

    def work(call, *args):
        with monkeypatch.context() as patch:
            patch.setattr(
                identity_lib,
                "with_original_random_numbers",
                lambda run, *_: dataclasses.replace(run, random_numbers="numpy"),
            )
            return call(*args)

    return work


def refuse(*_):
    raise AssertionError("these random numbers are not for this run")


def identity(output_dir, step=15):
    checkpoint = output_dir / f"model.ckpt-{step}"
    return json.loads(google_read.read(checkpoint, [IDENTITY])[IDENTITY].item())


def flags(tiny, output_dir, **changed):
    """A sample of the rows, 15 steps over several epochs."""
    settings = {"do_train": True, "num_train_epochs": 3, "max_train_examples": 20}
    return tiny.flags(output_dir, save_checkpoints_steps=5, **{**settings, **changed})


@pytest.mark.parametrize("padding", ["bucket", *rarely("longest")])
def test_a_run_of_before_ends_as_it_would_have(
    tiny, tmp_path, inside, before, monkeypatch, padding
):
    straight, stopped, new = (tmp_path / name for name in ("straight", "old", "new"))
    assert before(inside, flags(tiny, straight, padding=padding))[0] == 0
    shutil.copytree(straight, stopped)
    keep_only(stopped, 5)
    assert "random_numbers" not in identity(stopped, 5)
    shutil.rmtree(stopped / "cache")  # it is sampled anew
    with monkeypatch.context() as patch:
        for name in ("epoch", "window", "sample"):
            patch.setattr(type(SHUFFLES["counters"]), name, refuse)
        code, _, err = inside(flags(tiny, stopped, padding=padding))
    assert code == 0 and "resuming  from" in err and "step 5" in err, err
    assert "began with numpy's random numbers" in err
    assert_same_run(straight, stopped)  # the identity too
    # Not for want of a difference.
    code, _, err = inside(flags(tiny, new, padding=padding))
    assert code == 0 and "numpy's random numbers" not in err
    assert identity(new)["random_numbers"] == "counters"
    old, other = google_read.read(straight), google_read.read(new)
    assert not np.array_equal(old["output_weights"], other["output_weights"])


def test_the_identity_alone_decides(tiny, tmp_path, inside, before):
    """A checkpoint that loses the key is of a run of before; one of TF1 code is not."""
    whole, stripped, foreign = (tmp_path / name for name in ("a", "b", "c"))
    assert inside(flags(tiny, whole))[0] == 0
    for folder in (stripped, foreign):
        shutil.copytree(whole, folder)
        keep_only(folder, 5)
        tensors = google_read.read(folder / "model.ckpt-5")
        identity_of_run = json.loads(tensors.pop(IDENTITY).item())
        del identity_of_run["random_numbers"]
        if folder == stripped:
            tensors[IDENTITY] = np.array(json.dumps(identity_of_run).encode(), object)
        google_read.write(folder / "model.ckpt-5", tensors)
    copied = tmp_path / "told"
    shutil.copytree(stripped, copied)
    assert before(inside, flags(tiny, copied))[0] == 0
    for folder in (stripped, foreign):
        code, _, err = inside(flags(tiny, folder))
        assert code == 0 and "step 5" in err, err
    assert_same_run(copied, stripped)
    assert "random_numbers" not in identity(stripped)
    assert_same_run(whole, foreign)


def test_a_new_run_never_asks_numpy(tiny, tmp_path, inside, monkeypatch):
    monkeypatch.setattr(np.random, "default_rng", refuse)
    args = flags(tiny, tmp_path, padding="bucket", init_checkpoint=None)
    code, _, err = inside(args)
    assert code == 0, err


def test_seeds_share_the_sample_of_those_that_are_done(tiny, tmp_path, inside, before):
    seeds = {"seeds": 2, "do_eval": True, "num_train_epochs": 1}
    assert before(inside, flags(tiny, tmp_path, **seeds))[0] == 0
    shutil.copytree(tmp_path / "seed-43", tmp_path / "straight")
    shutil.rmtree(tmp_path / "seed-43")
    assert inside(flags(tiny, tmp_path, **seeds))[0] == 0
    assert_same_run(tmp_path / "seed-43", tmp_path / "straight")
    assert "random_numbers" not in identity(tmp_path / "seed-43", 5)


def test_a_damaged_checkpoint_leaves_it_to_the_one_before(
    tiny, tmp_path, inside, before
):
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    assert before(inside, flags(tiny, straight))[0] == 0
    shutil.copytree(straight, broken)
    index = broken / "model.ckpt-15.index"
    content = bytearray(index.read_bytes())
    content[len(content) // 2] ^= 4
    index.write_bytes(content)
    code, _, err = inside(flags(tiny, broken))
    assert code == 0 and "trying the checkpoint before it" in err, err
    assert_same_run(straight, broken)
