"""TensorBundle in and out, against TensorFlow 1's own Saver."""

import pathlib

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.checkpoints import google_read
from bert_mgpu.core.errors import UserError

TENSORS = {
    "bert/pooler/dense/kernel": np.random.default_rng(0).normal(size=(40, 30)),
    "bert/pooler/dense/bias": np.array([0, -0.0, 1e-45, np.inf, np.nan], np.float32),
    "half": np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3),
    "quantized": np.arange(256, dtype=np.uint8),
    "empty": np.zeros((0, 3), np.float32),
    "global_step": np.array(12345678901, np.int64),
    "identity": np.array(b"zeros at the end\0\0", object),
    "rows": np.array([b"a\0", "中".encode()], object),
}


@pytest.fixture
def prefix(tmp_path):
    google_read.write(tmp_path / "model.ckpt-7", TENSORS)
    return tmp_path / "model.ckpt-7"


def save_with_tensorflow_1(path, values, **options):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        for name, value in values.items():
            v1.get_variable(name, initializer=value, use_resource=False)
        session.run(v1.global_variables_initializer())
        return v1.train.Saver(**options).save(session, str(path))


def test_write_then_read_is_bit_equal(prefix):
    actual = google_read.read(prefix)
    assert actual.keys() == TENSORS.keys()
    for name, value in TENSORS.items():
        assert actual[name].dtype == value.dtype, name
        assert actual[name].shape == value.shape, name
        if value.dtype == object:
            assert actual[name].tolist() == value.tolist()
        else:
            assert actual[name].tobytes() == value.tobytes(), name


def test_scalars_of_python_and_tensorflow_can_be_written(tmp_path):
    google_read.write(
        tmp_path / "new" / "x",
        {"bytes": b"a\0", "tensor": tf.constant([1.5]), "variable": tf.Variable(2)},
    )
    actual = google_read.read(tmp_path / "new" / "x")
    assert actual["bytes"].item() == b"a\0"
    assert actual["tensor"].tolist() == [1.5] and actual["variable"] == 2


def test_read_names_gives_shapes_and_types(prefix):
    assert google_read.read_names(prefix) == {
        name: (value.shape, value.dtype) for name, value in TENSORS.items()
    }


def test_only_the_wanted_tensors_are_read(prefix):
    assert list(google_read.read(prefix, ["half"])) == ["half"]
    with pytest.raises(UserError, match="has no tensor missing .1 of 2"):
        google_read.read(prefix, ["half", "missing"])


def test_tensorflow_1_reads_what_we_write(prefix):
    kernel = TENSORS["bert/pooler/dense/kernel"]
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable(
            "bert/pooler/dense/kernel", kernel.shape, tf.float64, use_resource=False
        )
        v1.train.Saver([variable]).restore(session, str(prefix))
        np.testing.assert_array_equal(session.run(variable), kernel)


@pytest.mark.parametrize("sharded", [False, True])
def test_what_tensorflow_1_writes_is_read(tmp_path, sharded):
    values = {"a/b": np.arange(6, dtype=np.float32), "global_step": np.int64(3)}
    save_with_tensorflow_1(tmp_path / "bert_model.ckpt", values, sharded=sharded)
    actual = google_read.read(tmp_path)  # by the file `checkpoint`
    assert actual.keys() == values.keys()
    assert all(np.array_equal(actual[name], values[name]) for name in values)


@pytest.mark.parametrize(
    "suffix", ["", ".index", ".meta", ".data-00000-of-00001"], ids=lambda s: s or "-"
)
def test_a_checkpoint_is_named_by_its_prefix_or_any_file(prefix, suffix):
    assert google_read.resolve(f"{prefix}{suffix}") == str(prefix)


def test_a_directory_stands_for_its_only_checkpoint(prefix):
    assert google_read.resolve(prefix.parent) == str(prefix)


def test_a_directory_stands_for_bert_model_among_several(prefix):
    usual = prefix.parent / "bert_model.ckpt"
    google_read.write(usual, {"x": 1})
    assert google_read.resolve(prefix.parent) == str(usual)


@pytest.mark.parametrize("folder", ["", "/where/it/was/"], ids=("name", "moved"))
def test_the_checkpoint_file_decides_in_a_directory(prefix, folder):
    google_read.write(prefix.parent / "bert_model.ckpt", {"x": 1})
    (prefix.parent / "checkpoint").write_text(
        f'model_checkpoint_path: "{folder}{prefix.name}"\n'
    )
    assert google_read.resolve(prefix.parent) == str(prefix)


def flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def cut(path, keep):
    path.write_bytes(path.read_bytes()[:keep])


INDEX, DATA = "model.ckpt-7.index", "model.ckpt-7.data-00000-of-00001"
DAMAGES = {
    "bit of the first value": lambda folder: flip(folder / DATA, 0),
    "bit in the middle": lambda folder: flip(folder / DATA, 5000),
    "bit of the last value": lambda folder: flip(folder / DATA, -1),
    "data cut off": lambda folder: cut(folder / DATA, -100),
    "data empty": lambda folder: cut(folder / DATA, 0),
    "data missing": lambda folder: (folder / DATA).unlink(),
    "bit of the index": lambda folder: flip(folder / INDEX, 30),
    "bit of the index's last byte": lambda folder: flip(folder / INDEX, -1),
    "index cut off": lambda folder: cut(folder / INDEX, 100),
    "index empty": lambda folder: cut(folder / INDEX, 0),
    "index of text": lambda folder: (folder / INDEX).write_text("x" * 500),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_one_line_about_the_file(prefix, damage):
    damage(prefix.parent)
    with pytest.raises(UserError) as caught:
        google_read.read(prefix)
    message = str(caught.value)
    assert str(prefix) in message and "damaged" in message
    assert "\n" not in message and "{{" not in message


def make_v1(folder):
    version = tf.compat.v1.train.SaverDef.V1
    path = save_with_tensorflow_1(
        folder / "old", {"x": np.float32(1)}, write_version=version
    )
    return pathlib.Path(path)


def make_object_based(folder):
    return pathlib.Path(tf.train.Checkpoint(x=tf.Variable(1)).write(folder / "x"))


def make_several(folder):
    for name in ("model.ckpt-1", "model.ckpt-2"):
        google_read.write(folder / name, {"x": 1})
    return folder


def make_stale(folder):
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-9"')
    return make_several(folder)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (make_v1, "V1 format: convert it"),
        (make_object_based, "written by tf.train.Checkpoint or Keras"),
        (make_several, r"holds 2 checkpoints .model.ckpt-1, model.ckpt-2.: pass"),
        (make_stale, "checkpoint: names .*model.ckpt-9, which is not there: pass"),
        (lambda folder: folder, r"holds 0 checkpoints .no \*.index file.: pass"),
        (lambda folder: folder / "no", r"no.index: no such file: pass"),
    ],
)
def test_what_cannot_be_read_is_refused_with_advice(tmp_path, make, words):
    with pytest.raises(UserError, match=words):
        google_read.read(make(tmp_path))


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file/x.index: cannot be written: "):
        google_read.write(tmp_path / "file" / "x", {"x": 1})
    (tmp_path / "y.index").mkdir()
    with pytest.raises(UserError, match="y.index: cannot be written: ") as caught:
        google_read.write(tmp_path / "y", {"x": 1})
    assert "{{" not in str(caught.value)
