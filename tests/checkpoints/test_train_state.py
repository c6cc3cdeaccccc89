"""Checkpoints on disk: whole or absent, few, and readable by TF1 code."""

import errno
import json
import os
import pathlib
import stat

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.checkpoints import google_read, train_state
from bert_mgpu.core.errors import Unreadable, UserError
from bert_mgpu.core.task import TrainState
from bert_mgpu.training.optimizers import Optimizer
from tests.support.processes import python


def make_state(step, value=1.0):
    params = {
        "bert/a/kernel": np.full((3, 2), value, np.float32),
        "output_bias": np.arange(2, dtype=np.float32),
    }
    slots = Optimizer().zero_slots(params)
    slots["output_bias/adam_m"] += value
    return TrainState(
        params, slots, step, identity={"seed": 42, "labels": ["好", "坏"]}
    )


def assert_equal(one, other):
    for table in ("params", "slots"):
        mine, theirs = getattr(one, table), getattr(other, table)
        assert mine.keys() == theirs.keys()
        assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    assert (one.step, one.identity) == (other.step, other.identity)


def newest(directory):
    output = []
    actual = train_state.newest(directory, output.append)
    return actual, output


def test_comes_back_as_it_was(tmp_path):
    state = make_state(7)
    train_state.save(tmp_path, state, keep=5)
    (actual, prefix), output = newest(tmp_path)
    assert_equal(actual, state)
    assert prefix.endswith("model.ckpt-7") and output == []


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EBADF, errno.ENOSPC])
def test_a_folder_that_cannot_be_flushed(tmp_path, monkeypatch, number):
    """As on some network file systems; a full disk is another matter."""

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fsync)
    if number == errno.ENOSPC:
        with pytest.raises(UserError, match="cannot save the checkpoint"):
            train_state.save(tmp_path, make_state(5), keep=1)
    else:
        train_state.save(tmp_path, make_state(5), keep=1)
        assert train_state.saved_steps(tmp_path) == [5]


def test_an_empty_folder_has_no_checkpoint(tmp_path):
    assert newest(tmp_path) == (None, [])


def test_keeps_the_newest_and_points_to_it(tmp_path):
    for step in (2, 9, 10, 100):
        train_state.save(tmp_path, make_state(step), keep=2)
    assert train_state.saved_steps(tmp_path) == [10, 100]
    assert {path.name for path in tmp_path.iterdir()} == {
        "checkpoint",
        *(f"model.ckpt-{step}.index" for step in (10, 100)),
        *(f"model.ckpt-{step}.data-00000-of-00001" for step in (10, 100)),
    }
    latest = tf.train.latest_checkpoint(str(tmp_path))
    assert latest == str(tmp_path / "model.ckpt-100")
    train_state.save(tmp_path, make_state(101), keep=0)
    assert train_state.saved_steps(tmp_path) == [10, 100, 101]


def test_names_are_those_of_tf1(tmp_path):
    """Read by TensorFlow's own reader: Google's names, nothing in place of them."""
    train_state.save(tmp_path, make_state(7), keep=5)
    reader = tf.train.load_checkpoint(str(tmp_path))
    shapes = reader.get_variable_to_shape_map()
    params = {"bert/a/kernel": [3, 2], "output_bias": [2]}
    wanted = {"global_step": [], "bert_mgpu/identity": []} | params
    for slot in ("adam_m", "adam_v"):
        wanted |= {f"{name}/{slot}": shape for name, shape in params.items()}
    assert shapes == wanted
    assert reader.get_tensor("global_step") == 7
    assert reader.get_variable_to_dtype_map()["global_step"] == tf.int64


def test_checkpoint_of_tf1_has_no_identity(tmp_path):
    """As google-research/bert leaves it: weights, slots, global_step."""
    state = make_state(30)
    google_read.write(
        tmp_path / "model.ckpt-30",
        {**state.params, **state.slots, "global_step": np.int64(30)},
    )
    (actual, _), _ = newest(tmp_path)
    state.identity = None
    assert_equal(actual, state)


@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "zero", "delete"])
def test_damaged_one_gives_way_to_the_one_before(tmp_path, suffix, damage):
    train_state.save(tmp_path, make_state(1, 1.0), keep=5)
    train_state.save(tmp_path, make_state(2, 2.0), keep=5)
    path = tmp_path / f"model.ckpt-2{suffix}"
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 3] ^= 1
    elif damage == "truncate":
        del content[len(content) // 2 :]
    elif damage == "zero":
        content[:] = bytes(len(content))
    path.write_bytes(content)
    if damage == "delete":
        path.unlink()
    (actual, _), output = newest(tmp_path)
    assert_equal(actual, make_state(1, 1.0))
    # Without its index a checkpoint is none: nothing to say.
    silent = damage == "delete" and suffix == ".index"
    assert len(output) == (0 if silent else 1)


def test_all_damaged_is_an_error_not_a_fresh_start(tmp_path):
    train_state.save(tmp_path, make_state(1), keep=5)
    (tmp_path / "model.ckpt-1.data-00000-of-00001").write_bytes(b"")
    with pytest.raises(UserError, match="all 1 checkpoints are damaged"):
        newest(tmp_path)


def fail_with(number, part, monkeypatch):
    """Reading the index, its size, or a value fails as the system has it."""

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    class Reader:
        get_variable_to_shape_map = staticmethod(lambda: {"global_step": []})
        has_tensor = staticmethod(lambda name: False)

        def get_tensor(self, name):
            text = f"UNKNOWN: /out/model.ckpt-2.data-0; {os.strerror(number)}"
            raise tf.errors.OpError(None, None, text, 2)

    if part == "index":
        monkeypatch.setattr(google_read.tensor_bundle, "_entries", refuse)
    elif part == "value":
        monkeypatch.setattr(tf.train, "load_checkpoint", lambda prefix: Reader())
    else:
        kept = os.stat

        def stat(path, **named):
            return refuse() if str(path).endswith(part) else kept(path, **named)

        monkeypatch.setattr(os, "stat", stat)


@pytest.mark.parametrize(
    "number", [errno.EACCES, errno.EIO, errno.ESTALE, errno.EMFILE]
)
@pytest.mark.parametrize("part", ["index", "value", "2.index", "2.data-00000-of-00001"])
def test_one_that_cannot_be_read_is_not_given_up(tmp_path, monkeypatch, number, part):
    """It may be whole, and a run that went back would delete it."""
    for step in (1, 2):
        train_state.save(tmp_path, make_state(step), keep=5)
    with monkeypatch.context() as patch:
        fail_with(number, part, patch)
        with pytest.raises(Unreadable, match=f"-2.*{os.strerror(number)}: check"):
            newest(tmp_path)
    assert newest(tmp_path)[0][0].step == 2


def test_a_folder_that_cannot_be_listed_is_not_empty(tmp_path, monkeypatch):
    assert train_state.saved_steps(tmp_path / "no") == []

    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(Unreadable, match="cannot be read: Permission denied"):
        train_state.saved_steps(tmp_path)


@pytest.mark.parametrize("keep", [1, 2, 0])
def test_run_that_went_back_drops_the_damaged_later_one(tmp_path, keep):
    train_state.save(tmp_path, make_state(8), keep=5)
    train_state.save(tmp_path, make_state(12), keep=5)
    (tmp_path / "model.ckpt-12.data-00000-of-00001").write_bytes(b"")
    assert newest(tmp_path)[0][0].step == 8
    train_state.save(tmp_path, make_state(9), keep=keep)
    assert train_state.saved_steps(tmp_path) == ([9] if keep == 1 else [8, 9])
    assert google_read.resolve(tmp_path).endswith("model.ckpt-9")


def test_leftovers_of_a_killed_save_are_no_checkpoint(tmp_path):
    train_state.save(tmp_path, make_state(1), keep=5)
    saving = tmp_path / ".saving"
    saving.mkdir()
    (saving / "model.ckpt-2.index").write_bytes(b"half")
    # Killed between the two renames: the data are there, the index is not.
    (tmp_path / "model.ckpt-2.data-00000-of-00001").write_bytes(b"half")
    (actual, _), _ = newest(tmp_path)
    assert actual.step == 1
    train_state.save(tmp_path, make_state(2, 5.0), keep=5)
    (actual, _), _ = newest(tmp_path)
    assert_equal(actual, make_state(2, 5.0))
    assert not saving.exists()


def test_a_stop_between_the_renames_leaves_the_step_before(tmp_path, monkeypatch):
    """The index comes last, so that without it there is no checkpoint."""
    train_state.save(tmp_path, make_state(1), keep=5)
    rename, renamed = pathlib.Path.rename, []

    def first_alone(path, target):
        if renamed:
            raise KeyboardInterrupt
        renamed.append(path.name)
        return rename(path, target)

    monkeypatch.setattr(pathlib.Path, "rename", first_alone)
    with pytest.raises(KeyboardInterrupt):
        train_state.save(tmp_path, make_state(2, 5.0), keep=5)
    monkeypatch.undo()
    (actual, _), output = newest(tmp_path)
    assert_equal(actual, make_state(1))
    assert output == [] and renamed == ["model.ckpt-2.data-00000-of-00001"]


def test_what_a_disk_wrote_wrongly_is_no_checkpoint(tmp_path, monkeypatch):
    """Without an error of its own: what was written is read back."""
    train_state.save(tmp_path, make_state(1), keep=5)
    write = google_read.write

    def flipping(prefix, tensors):
        write(prefix, tensors)
        data = pathlib.Path(f"{prefix}.data-00000-of-00001")
        content = bytearray(data.read_bytes())
        content[len(content) // 2] ^= 1
        data.write_bytes(content)

    monkeypatch.setattr(google_read, "write", flipping)
    with pytest.raises(UserError, match="it will resume at step 1"):
        train_state.save(tmp_path, make_state(2, 5.0), keep=5)
    (actual, _), output = newest(tmp_path)
    assert_equal(actual, make_state(1))
    assert output == [] and train_state.saved_steps(tmp_path) == [1]


FULL_DISK = """
import json, pathlib, resource, sys
import numpy as np
from bert_mgpu.checkpoints import train_state
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.task import TrainState
from bert_mgpu.training.optimizers import Optimizer
directory = pathlib.Path(sys.argv[1])
params = {"a/kernel": np.ones((1000, 100), np.float32)}
state = lambda step: TrainState(params, Optimizer().zero_slots(params), step, {})
train_state.save(directory, state(1), 5)
before = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), before[1]))
try:
    train_state.save(directory, state(2), 5)
except UserError as error:
    print(json.dumps(str(error)))
finally:  # what measures coverage writes at the end
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
"""


@pytest.mark.parametrize("limit", [0, 50, 100_000, 1_000_000])
def test_full_disk_leaves_the_old_one(tmp_path, limit):
    _, out, err = python("-c", FULL_DISK, tmp_path, limit)
    message = json.loads(out or err)
    assert "cannot save the checkpoint" in message and "\n" not in message
    assert "it will resume at step 1" in message
    (actual, _), output = newest(tmp_path)
    assert actual.step == 1 and output == []
    assert not (tmp_path / ".saving").exists()
