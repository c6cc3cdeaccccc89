"""Models of other people's: safetensors that lie, and what is never read."""

import json
import os
import pickle
import shutil
import zipfile

import numpy as np
import pytest
import safetensors.numpy

from bert_mgpu.checkpoints import google_read, huggingface_read
from bert_mgpu.cli import run_classifier
from bert_mgpu.core.errors import UserError
from tests.robustness import crafted
from tests.support.damage import KINDS, put

WEIGHTS, SHARDS = "model.safetensors", "model.safetensors.index.json"
BROKEN = "not a whole safetensors file"
FLOATS = crafted.floats(4)


def tensor(shape=(4,), begin=0, end=16, dtype="F32"):
    return {"dtype": dtype, "shape": [*shape], "data_offsets": [begin, end]}


def twice(name, first, second):
    one, two = json.dumps(first), json.dumps(second)
    return f'{{"{name}": {one}, "{name}": {two}}}'.encode()


LIES = {
    "no bytes": b"",
    "length alone": b"\0" * 8,
    "length beyond the file": crafted.safetensors({"x": tensor()}, FLOATS, 10**6),
    "huge length": crafted.safetensors({"x": tensor()}, FLOATS, 2**63),
    "largest length": crafted.safetensors({"x": tensor()}, FLOATS, 2**64 - 1),
    "length too short": crafted.safetensors({"x": tensor()}, FLOATS, 9),
    "no JSON": crafted.safetensors(b"hello world", FLOATS),
    "JSON of another kind": crafted.safetensors([1, 2], FLOATS),
    "not UTF-8": crafted.safetensors(b'{"\xff": 1}', FLOATS),
    "deep": crafted.safetensors(b'{"x":' * 50_000, FLOATS),
    "deep lists": crafted.safetensors(b'{"x":' + b"[" * 50_000, FLOATS),
    "large number": crafted.safetensors(
        b'{"x": {"dtype": "F32", "shape": [' + b"9" * 99_999 + b"]}}", FLOATS
    ),
    "offsets past the end": crafted.safetensors({"x": tensor((8,), 0, 32)}, FLOATS),
    "offsets turned round": crafted.safetensors({"x": tensor((4,), 16, 0)}, FLOATS),
    "offsets that overlap": crafted.safetensors(
        {"x": tensor((3,), 0, 12), "y": tensor((2,), 8, 16)}, FLOATS
    ),
    "a hole": crafted.safetensors(
        {"x": tensor((1,), 0, 4), "y": tensor((1,), 12, 16)}, FLOATS
    ),
    "bytes that belong to none": crafted.safetensors({"x": tensor()}, FLOATS * 2),
    "negative shape": crafted.safetensors({"x": tensor((-4,))}, FLOATS),
    "negative offset": crafted.safetensors({"x": tensor((4,), -16, 0)}, FLOATS),
    "huge shape": crafted.safetensors({"x": tensor((2**62, 2))}, FLOATS),
    "shape whose product wraps": crafted.safetensors(
        {"x": tensor((2**32, 2**32))}, FLOATS
    ),
    "type of another size": crafted.safetensors({"x": tensor(dtype="F64")}, FLOATS),
    "unknown type": crafted.safetensors({"x": tensor(dtype="F31")}, FLOATS),
    "no type": crafted.safetensors({"x": {"shape": [4]}}, FLOATS),
    "text for a shape": crafted.safetensors({"x": tensor("four")}, FLOATS),
    "name twice": crafted.safetensors(
        twice("x", tensor((2,), 0, 8), tensor((2,), 8, 16)), FLOATS
    ),
    "a number for the metadata": crafted.safetensors(
        {"__metadata__": 5, "x": tensor()}, FLOATS
    ),
    "a pickle": pickle.dumps({"x": [1.0, 2.0]}),
    "a SafeTensors of text": b"this is no model\n" * 100,
    "a git-lfs pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
}


@pytest.mark.parametrize("content", LIES.values(), ids=LIES)
def test_a_header_that_lies(work, refused, content):
    path = work.model / "lies.safetensors"
    path.write_bytes(content)
    refused(f"{path}: {BROKEN}", init_checkpoint=path)


def test_a_zip_by_another_name(work, refused):
    """As torch.save writes it: a pickle inside."""
    path = work.model / "lies.safetensors"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps({"x": 1}))
    refused(f"{path}: {BROKEN}", init_checkpoint=path)


def test_a_crafted_file_that_is_right_is_read(tmp_path):
    """Or the tests above would show nothing."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(crafted.safetensors({"x": tensor((2, 2))}, FLOATS))
    assert huggingface_read.read(path)["x"].tolist() == [[1, 1], [1, 1]]


class Harm:
    """A pickle that makes a file as soon as it is loaded."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return os.mkdir, (str(self._path),)


UNSAFE = [
    *("pytorch_model.bin", "model.pt", "model.pth", "model.pkl", "model.pickle"),
    *("tf_model.h5", "model.keras"),
]


@pytest.mark.parametrize("name", UNSAFE)
@pytest.mark.parametrize("folder", [True, False], ids=["folder", "file"])
def test_what_can_run_code_is_never_read(work, refused, name, folder):
    (work.root / "hf").mkdir()
    path, harm = work.root / "hf" / name, work.root / "harm"
    path.write_bytes(pickle.dumps(Harm(harm)))
    (work.root / "hf" / "config.json").write_text('{"vocab_size": 25}')
    start = path.parent if folder else path
    refused(f"{path}: files of this kind can run code", init_checkpoint=start)
    assert not harm.exists()
    pickle.loads(path.read_bytes())  # what it would have done
    assert harm.exists()


@pytest.mark.parametrize("name", ["model.npz", "model.joblib", "model.onnx", "x.zip"])
def test_files_of_no_known_kind(work, refused, name):
    path = work.root / name
    path.write_bytes(pickle.dumps(Harm(work.root / "harm")))
    refused(f"{path}.index: no such file", init_checkpoint=path)
    assert not (work.root / "harm").exists()


@pytest.mark.parametrize(
    "flag", ["vocab_file", "bert_config_file", "class_weights", "threshold"]
)
def test_a_pickle_in_the_place_of_a_text(work, refused, flag):
    path = work.root / "x.pkl"
    path.write_bytes(pickle.dumps(Harm(work.root / "harm")))
    refused(f"{path}", **{flag: path})
    assert not (work.root / "harm").exists()


# Folders.


@pytest.fixture(scope="session")
def exported(trained, tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "hf"
    out = shutil.copytree(trained(), folder.parent / "out")
    flags = tiny.flags(out, init_checkpoint=None, do_predict=True, export_hf=folder)
    assert run_classifier.main(["", *flags]) == 0
    return folder


@pytest.fixture
def model(exported, work):
    return shutil.copytree(exported, work.root / "hf")


@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_a_folder_that_are_others(model, refused, name, kind):
    """None of them passes for one that is absent."""
    put(model / name, kind)
    gone = name == WEIGHTS and kind not in ("empty", "binary")
    message = f"{model}: holds no {name}" if gone else f"{model / name}: "
    refused(message, init_checkpoint=model)


def index_of(model, **changed):
    """Writes the weights as a shard, and an index whose map is changed."""
    (model / WEIGHTS).rename(model / "a.safetensors")
    with safetensors.safe_open(model / "a.safetensors", "numpy") as file:
        weight_map = dict.fromkeys([*file.keys()], "a.safetensors")
    text = json.dumps({"weight_map": {**weight_map, **changed}})
    (model / SHARDS).write_text(text)


PLACES = {
    "above": ("../a.safetensors", "not a file beside the index"),
    "from /": ("/etc/passwd", "not a file beside the index"),
    "below": ("b/a.safetensors", "not a file beside the index"),
    "itself": (SHARDS, BROKEN),
    "the folder": (".", "not a file beside the index"),
    "the folder above": ("..", BROKEN),
    "nothing": ("", BROKEN),
    "a number": (5, "not a file beside the index"),
    "a list": (["a.safetensors"], "not a file beside the index"),
    "no file": ("b.safetensors", BROKEN),
    "a pickle": ("pytorch_model.bin", BROKEN),
    "megabytes": ("x" * 10**6 + "/", "not a file beside the index"),
    "a NUL": ("a\0b", "not a file beside the index"),
}


@pytest.mark.parametrize(("place", "words"), PLACES.values(), ids=PLACES)
def test_an_index_that_leads_elsewhere(model, refused, place, words):
    (model / "pytorch_model.bin").write_bytes(pickle.dumps(Harm(model / "harm")))
    index_of(model, more=place)
    refused(words, init_checkpoint=model)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"empty", "binary"}))
def test_a_shard_that_is_no_file(model, refused, kind):
    index_of(model, more="b.safetensors")
    put(model / "b.safetensors", kind)
    refused(f"{model / 'b.safetensors'}: {BROKEN}", init_checkpoint=model)


def test_links_to_shards_are_followed(model):
    """So a folder of Hugging Face's cache looks."""
    whole = huggingface_read.read(model)
    index_of(model)
    (model.parent / "blobs").mkdir()
    (model / "a.safetensors").rename(model.parent / "blobs" / "0123")
    (model / "a.safetensors").symlink_to("../blobs/0123")
    actual = huggingface_read.read(model)
    assert actual.keys() == whole.keys()
    assert all(np.array_equal(actual[name], whole[name]) for name in whole)


CONFIGS = {
    "a label twice": {"id2label": {"0": "a", "1": "a"}},
    "a label of two lines": {"id2label": {"0": "a", "1": "b\nc"}},
    "an empty label": {"id2label": {"0": "a", "1": ""}},
    "a model of megabytes": {"model_type": "x" * 10**6},
    "a problem of a list": {"problem_type": [[1]]},
}


@pytest.mark.parametrize("changed", CONFIGS.values(), ids=CONFIGS)
def test_a_config_that_says_nonsense(model, refused, changed):
    path = model / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    use = {"do_train": None, "do_predict": True, "bert_config_file": None}
    refused(str(model), init_checkpoint=model, **use)


@pytest.mark.parametrize("index", ["²", "1" * 10, "-1", ""])
def test_labels_without_an_index_are_none(model, index):
    path = model / "config.json"
    changed = {"id2label": {index: "a", "1": "b"}}
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    assert huggingface_read.folder_settings(model)["labels"] is None


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", ["x.safetensors", "x.ckpt", "x"])
def test_a_model_that_is_no_file(work, refused, kind, name):
    put(work.root / name, kind)
    message = f"--init_checkpoint={work.root / name}: a pipe or a device"
    refused(message, init_checkpoint=work.root / name)


@pytest.mark.parametrize("value", [np.array(b"x", object), np.ones(32, "i4")])
def test_weights_of_another_type(work, refused, value):
    name = "bert/pooler/dense/bias"
    value = np.full(32, value.item(), object) if value.dtype == object else value
    start = work.model / "bert_model.ckpt"
    google_read.write(start, google_read.read(start) | {name: value})
    refused(f"{start}: {name} is of type")


def test_names_cannot_write_into_the_log(work, watched):
    """A tensor may be called anything: its name is no line and no colour."""
    start = work.model / "bert_model.ckpt"
    more = {"x\nerror: all is lost\x1b[31m": np.ones(2, "f"), "y" * 4000: np.ones(1)}
    google_read.write(start, google_read.read(start) | more)
    code, _, err = watched()
    assert code == 0, err
    assert "\nerror" not in err and "\x1b" not in err and "y" * 300 not in err
    assert "all is lost" in err


def test_a_shard_without_a_name_is_one_line(tmp_path):
    (tmp_path / SHARDS).write_text('{"weight_map": {}}')
    with pytest.raises(UserError, match="has no weight_map"):
        huggingface_read.read(tmp_path)
