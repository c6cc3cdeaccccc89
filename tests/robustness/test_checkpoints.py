"""Checkpoints that are damaged, or made to mislead."""

import functools
import os
import random
import shutil

import numpy as np
import pytest
from tensorflow.core.framework import types_pb2

from bert_mgpu.checkpoints import google_read, train_state
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.task import TrainState
from bert_mgpu.training.optimizers import Optimizer
from tests.robustness import crafted
from tests.support.damage import KINDS, put
from tests.support.runs import assert_refused, tree

INDEX, DATA = ".index", ".data-00000-of-00001"
FLIPS = {INDEX: 500, DATA: 500}


def state(step):
    rng = np.random.default_rng(step)
    names = ("query/kernel", "query/bias", "output/LayerNorm/gamma")
    params = {
        f"bert/encoder/layer_{layer}/{name}": rng.normal(size=(6, 4)).astype("f")
        for layer in range(2)
        for name in names
    }
    return TrainState(
        params, Optimizer().zero_slots(params), step, identity={"seed": 42}
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    for step in (1, 2):
        train_state.save(folder, state(step), keep=5)
    return folder


@pytest.fixture
def pair(saved, tmp_path):
    """model.ckpt-1 and model.ckpt-2, to be damaged."""
    shutil.copytree(saved, tmp_path / "out")
    return tmp_path / "out"


def assert_the_one_before(folder):
    output = []
    actual, prefix = train_state.newest(folder, output.append)
    assert prefix.endswith("model.ckpt-1") and actual.step == 1
    assert len(output) == 1 and output[0].endswith("; trying the checkpoint before it")
    assert "model.ckpt-2" in output[0] and "\n" not in output[0]


@pytest.mark.parametrize("suffix", FLIPS)
def test_every_bit_counts(pair, suffix):
    path = pair / f"model.ckpt-2{suffix}"
    whole = path.read_bytes()
    # As many as asked for; fewer bits than that would each be flipped.
    bits = random.Random(0).sample(range(8 * len(whole)), FLIPS[suffix])
    for bit in bits:
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert_the_one_before(pair)
    path.write_bytes(whole)
    assert train_state.newest(pair, pytest.fail)[0].step == 2


def test_every_bit_of_the_end_of_an_index_counts(pair):
    """The block of filters and the footer, which TensorFlow does not look through."""
    path = pair / f"model.ckpt-2{INDEX}"
    whole = path.read_bytes()
    for bit in range(8 * (len(whole) - 70), 8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert_the_one_before(pair)


@pytest.mark.parametrize("suffix", [INDEX, DATA])
@pytest.mark.parametrize("keep", [0, 1, 0.5, -1, -8, -48, -49])
def test_a_file_that_breaks_off(pair, suffix, keep):
    path = pair / f"model.ckpt-2{suffix}"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep) if keep == 0.5 else keep])
    assert_the_one_before(pair)


def test_an_index_with_a_place_beyond_every_file(pair):
    path = pair / f"model.ckpt-2{INDEX}"
    far = crafted.varint(1 << 63) + crafted.varint(1)
    footer = (2 * far).ljust(40, b"\0") + crafted.MAGIC
    path.write_bytes(path.read_bytes()[:-48] + footer)
    assert_the_one_before(pair)


def swap(folder, suffix):
    shutil.copy(folder / f"model.ckpt-1{suffix}", folder / f"model.ckpt-2{suffix}")


def extend(folder, suffix):
    with (folder / f"model.ckpt-2{suffix}").open("ab") as file:
        file.write(b"\0")


def link_to_itself(folder, suffix):
    put(folder / f"model.ckpt-2{suffix}", "link loop")


OTHERS = {
    "values of another step": functools.partial(swap, suffix=DATA),
    "index of another step": functools.partial(swap, suffix=INDEX),
    "a byte more": functools.partial(extend, suffix=INDEX),
    "index is a pipe": lambda f: put(f / f"model.ckpt-2{INDEX}", "pipe"),
    "values are a pipe": lambda f: put(f / f"model.ckpt-2{DATA}", "pipe"),
    "index is a folder": lambda f: put(f / f"model.ckpt-2{INDEX}", "folder"),
    "values are a folder": lambda f: put(f / f"model.ckpt-2{DATA}", "folder"),
    "index links to itself": functools.partial(link_to_itself, suffix=INDEX),
    "values link to themselves": functools.partial(link_to_itself, suffix=DATA),
    "index is a device": lambda f: put(f / f"model.ckpt-2{INDEX}", "device"),
    "values are a device": lambda f: put(f / f"model.ckpt-2{DATA}", "device"),
}


@pytest.mark.parametrize("damage", OTHERS.values(), ids=OTHERS)
def test_files_that_are_others(pair, damage):
    damage(pair)
    assert_the_one_before(pair)


FLOAT, TEXT = types_pb2.DT_FLOAT, types_pb2.DT_STRING
LIES = {
    "negative": ([crafted.entry(b"x", [-4])], "an impossible shape"),
    "huge": ([crafted.entry(b"x", [1 << 40])], "more than the files hold"),
    "product": ([crafted.entry(b"x", [1 << 40] * 3)], "more than the files hold"),
    "texts": ([crafted.entry(b"x", [1 << 33], TEXT)], "more than the files hold"),
    "rank": ([crafted.entry(b"x", [1] * 300)], "an impossible shape"),
    "no rank": ([crafted.entry(b"x", [], rank=False)], "an impossible shape"),
    "type": ([crafted.entry(b"x", [1], 99)], "is of type 99"),
    "variant": ([crafted.entry(b"x", [1], types_pb2.DT_VARIANT)], "is of type 21"),
    "name": ([crafted.entry(b"\xff\xfe", [1])], "is not UTF-8"),
    "long name": ([crafted.entry(b"x" * 5000, [1])], "more than 4096 bytes"),
    "part": (
        [crafted.entry(b"x", [1], parts=[[(5, 9)]])],
        "a part that lies outside it",
    ),
    "no message": ([(b"x", b"\xff" * 9)], "no entry that can be read"),
}


@pytest.mark.parametrize(("entries", "words"), LIES.values(), ids=LIES)
def test_an_index_with_right_checksums_that_lies(tmp_path, entries, words):
    prefix = crafted.checkpoint(
        tmp_path / "x", crafted.header(), *entries, data=crafted.floats(4)
    )
    with pytest.raises(UserError, match=f"x.index: damaged: .*{words}") as caught:
        google_read.read(prefix)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([], "its header is not that"),
        ([crafted.header(0)], "its header is not that"),
        ([crafted.header((1 << 31) - 1)], "its header is not that"),
        ([crafted.header(endianness=1)], "its header is not that"),
        ([crafted.header(99_999)], "data-00000-of-99999: damaged: No such file"),
    ],
    ids=["none", "no files", "too many files", "big endian", "files"],
)
def test_a_header_that_lies(tmp_path, entries, words):
    prefix = crafted.checkpoint(tmp_path / "x", *entries)
    with pytest.raises(UserError, match=words):
        google_read.read(prefix)


def test_a_packed_index_is_not_read(tmp_path):
    prefix = crafted.checkpoint(tmp_path / "x", crafted.header(), packed=1)
    with pytest.raises(UserError, match="it is packed"):
        google_read.read(prefix)


def test_a_crafted_index_that_is_right_is_read(tmp_path):
    """Or the tests above would show nothing."""
    content = crafted.floats(2, 3)
    prefix = crafted.checkpoint(
        tmp_path / "x",
        crafted.header(),
        crafted.entry(b"x", [2, 3], content=content),
        data=content,
    )
    assert google_read.read(prefix)["x"].tolist() == [[1] * 3] * 2


def test_an_index_larger_than_any(tmp_path):
    prefix = crafted.checkpoint(tmp_path / "x", crafted.header())
    os.truncate(f"{prefix}.index", 1 << 33)  # takes no room on the disk
    with pytest.raises(UserError, match="more than 67,108,864 bytes"):
        google_read.read(prefix)


CONTENTS = {
    "step is a text": {"global_step": np.array(b"6", object)},
    "two steps": {"global_step": np.array([1, 2])},
    "step below zero": {"global_step": np.array(-1)},
    "step is no number": {"global_step": np.array(np.nan)},
    "identity is a number": {"bert_mgpu/identity": np.array(5)},
    "identity is a list": {"bert_mgpu/identity": np.array(b"[]", object)},
    "identity is cut": {"bert_mgpu/identity": np.array(b'{"a', object)},
    "identity is deep": {"bert_mgpu/identity": np.array(b"[" * 99_999, object)},
    "identity is no UTF-8": {"bert_mgpu/identity": np.array(b"\xff\xfe9", object)},
}


@pytest.mark.parametrize("changed", CONTENTS.values(), ids=CONTENTS)
def test_a_whole_checkpoint_that_says_nonsense(pair, changed):
    prefix = pair / "model.ckpt-2"
    google_read.write(prefix, google_read.read(prefix) | changed)
    assert_the_one_before(pair)


STATES = {
    "leads above": ('model_checkpoint_path: "../../x/model.ckpt-9"', "not there"),
    "leads to /": ('model_checkpoint_path: "/etc/model.ckpt-9"', "not there"),
    "is empty": ("", "damaged: pass a checkpoint's name"),
    "is cut": ('model_checkpoint_path: "mod', "damaged: pass a checkpoint's name"),
    "is another text": ("hello", "damaged: pass a checkpoint's name"),
    "is binary": (b"\xff\xfe\0", "not UTF-8: byte 0"),
    "is deep": ("a {" * 100_000, "damaged: pass a checkpoint's name"),
    "has a long name": (f'model_checkpoint_path: "{"x" * 9999}"', "not there"),
}


@pytest.mark.parametrize(("text", "words"), STATES.values(), ids=STATES)
def test_a_file_checkpoint_that_misleads(pair, text, words):
    """It names what is used by --init_checkpoint=FOLDER; a resume does not read it."""
    path = pair / "checkpoint"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError, match=f"^{path}: .*{words}") as caught:
        google_read.resolve(pair)
    assert len(str(caught.value)) < 1000
    assert train_state.newest(pair, pytest.fail)[0].step == 2


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"empty", "binary"}))
def test_a_file_checkpoint_that_is_none(pair, kind):
    put(pair / "checkpoint", kind)
    with pytest.raises(UserError, match=f"^{pair / 'checkpoint'}: cannot read it"):
        google_read.resolve(pair)
    assert train_state.newest(pair, pytest.fail)[0].step == 2


def test_a_file_checkpoint_that_is_endless(pair):
    os.truncate(pair / "checkpoint", 1 << 33)
    with pytest.raises(UserError, match="checkpoint: more than 1 MiB"):
        google_read.resolve(pair)


def test_a_checkpoint_elsewhere_is_not_taken_for_the_one_named(pair):
    """A folder that was copied still names the place of its original."""
    other = shutil.copytree(pair, pair.parent / "other")
    (other / "checkpoint").write_text(f'model_checkpoint_path: "{pair}/model.ckpt-1"')
    assert google_read.resolve(other) == str(other / "model.ckpt-1")


# The rest are runs.


def damage_index(out):
    path = out / f"model.ckpt-6{INDEX}"
    content = bytearray(path.read_bytes())
    content[-20] ^= 1  # a byte of the footer, which TensorFlow does not read
    path.write_bytes(content)


def damage_identity(out):
    tensors = google_read.read(out / "model.ckpt-6")
    google_read.write(
        out / "model.ckpt-6",
        tensors | {"bert_mgpu/identity": np.array(b"no JSON", object)},
    )


@pytest.mark.parametrize(
    "damage",
    [damage_index, damage_identity, OTHERS["values are a pipe"]],
    ids=["index", "identity", "pipe"],
)
def test_a_run_goes_on_from_the_checkpoint_before(resumed, watched, damage):
    out = resumed.root / "out"
    straight = google_read.read(out / "model.ckpt-6")
    if damage is OTHERS["values are a pipe"]:
        put(out / f"model.ckpt-6{DATA}", "pipe")
    else:
        damage(out)
    code, _, err = watched(save_checkpoints_steps=4)
    assert code == 0, err
    assert "model.ckpt-6" in err and "trying the checkpoint before it" in err
    assert f"resuming  from {out / 'model.ckpt-4'}: step 4" in err
    again = google_read.read(out / "model.ckpt-6")
    assert all(np.array_equal(again[name], straight[name]) for name in straight)


MISFITS = {
    "a text": (
        "output_bias",
        np.array([b"a", b"b"], object),
        "output_bias: expected shape",
    ),
    "doubles": ("output_bias", np.zeros(2), "output_bias: expected shape"),
    "slot": ("output_bias/adam_m", np.zeros(9, "f"), "output_bias/adam_m: the opt"),
    "bits": ("output_bias/adam_v", np.zeros(2, "i1"), "output_bias/adam_v: the opt"),
}


@pytest.mark.parametrize(("name", "value", "words"), MISFITS.values(), ids=MISFITS)
def test_a_run_refuses_tensors_that_do_not_fit(resumed, refused, name, value, words):
    prefix = resumed.root / "out" / "model.ckpt-6"
    google_read.write(prefix, google_read.read(prefix) | {name: value})
    refused(f"{prefix}: {words}", num_train_epochs=2)


def test_a_run_whose_checkpoints_are_all_damaged_is_not_begun_afresh(resumed, watched):
    out = resumed.root / "out"
    for step in (4, 6):
        (out / f"model.ckpt-{step}{DATA}").write_bytes(b"")
    before = tree(out)
    assert_refused(watched(), f"{out}: all 2 checkpoints are damaged")
    assert tree(out) == before
