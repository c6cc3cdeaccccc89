"""What extract_features.py refuses."""

import os
import pathlib

import numpy as np
import pytest

from bert_mgpu.cli import extract_features, flag_checks
from bert_mgpu.core.errors import UserError
from bert_mgpu.evaluation.forward import check_finite, forward
from bert_mgpu.runs import extract_features as runs
from bert_mgpu.runs import vectors
from tests.support.feature_lines import as_flags, model_flags
from tests.support.runs import assert_refused

REFUSED = {
    "no pooling": ({"output_file": "v.npy"}, ["v.npy: .npy holds one", "--pooling"]),
    "npz of a pooling": (
        {"output_file": "v.npz", "pooling": "mean", "layers": None},
        ["v.npz: .npz holds vectors of tokens", "--pooling=none"],
    ),
    "capitals": ({"output_file": "V.NPY"}, ["V.NPY: .npy holds one", "--pooling"]),
    "packed by gzip": ({"output_file": "v.jsonl.gz"}, ["v.jsonl.gz: files", ".gz out"]),
    "packed by xz": ({"output_file": "v.npz.XZ"}, ["v.npz.XZ: files", ".xz out"]),
    "layer too high": ({"layers": "2"}, ["--layers=2: the model has 2", "0 to 1"]),
    "layer too low": ({"layers": "-1,-3"}, ["--layers=-1,-3:", "from -1 to -2"]),
    "layers of words": ({"layers": "last"}, ["--layers=last: pass whole numbers"]),
    "no layers": ({"layers": ""}, ["--layers=: pass whole numbers"]),
    "several layers": (
        {"layers": "-1,-2", "pooling": "mean"},
        ["--layers=-1,-2: --pooling=mean takes one"],
    ),
    "a pooler of a middle layer": (
        {"layers": "0", "pooling": "pooler"},
        ["--layers=0: --pooling=pooler", "last"],
    ),
    "no vectors to scale": ({"normalize": True}, ["--normalize does nothing"]),
    "a type of JSON": ({"output_dtype": "float16"}, ["--output_dtype=float16: JSON"]),
    "too long": ({"max_seq_length": 65}, ["--max_seq_length=65: the model has 64"]),
    "no input": ({"input_file": None}, ["--input_file is missing"]),
    "no model": ({"init_checkpoint": None}, ["--init_checkpoint is missing"]),
    "absent input": ({"input_file": "absent.txt"}, ["absent.txt: no such file"]),
    "absent model": ({"init_checkpoint": "x/y"}, ["x/y: no such checkpoint"]),
    "empty": ({"input_file": "empty.txt"}, ["empty.txt: holds no line"]),
    "no UTF-8": ({"input_file": "bad.txt"}, ["bad.txt:3: not UTF-8"]),
    "a folder": ({"output_file": "folder"}, ["folder: is a directory"]),
    "the input": ({"output_file": "bad.txt"}, ["bad.txt: is also --input_file"]),
    "a pipe": ({"output_file": "pipe"}, ["pipe: a pipe or a device"]),
    "a link to a pipe": ({"output_file": "link"}, ["link: a pipe or a device"]),
    "no folder for it": ({"output_file": "bad.txt/x.npz"}, ["cannot make it"]),
}


@pytest.mark.parametrize("flag", ["vocab_file", "bert_config_file"])
def test_no_file_of_the_model_is_replaced(extract, two_layers, flag):
    path = model_flags(two_layers.model)[flag]
    content = pathlib.Path(path).read_bytes()
    assert_refused(extract(path), f"{path}: is also --{flag}")
    assert pathlib.Path(path).read_bytes() == content


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes(extract, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("empty.txt").write_text("")
    pathlib.Path("bad.txt").write_bytes(b"one\ntwo\n\xff\n")
    pathlib.Path("folder").mkdir()
    os.mkfifo("pipe")
    pathlib.Path("link").symlink_to("pipe")
    flags, fragments = REFUSED[case]
    flags = {"output_file": "out.jsonl", **flags}
    if flags["output_file"] == "bad.txt":
        flags["input_file"] = "bad.txt"
    before = sorted(tmp_path.rglob("*"))
    assert_refused(extract(flags.pop("output_file"), **flags), *fragments)
    assert sorted(tmp_path.rglob("*")) == before


def test_one_layer_and_one_line_are_singular(tiny, started, tmp_path):
    """tiny's model has one layer."""
    (tmp_path / "in.txt").write_text("sun\n")
    flags = model_flags(tiny.model) | {"input_file": tmp_path / "in.txt"}
    flags["output_file"] = tmp_path / "v.jsonl"
    given = as_flags(flags)
    refused = started(extract_features.main, [*given, "--layers=-2"])
    assert_refused(refused, "--layers=-2: the model has 1 layer: pass 0 or -1")
    code, _, err = started(extract_features.main, [*given, "--layers=-1"])
    assert code == 0 and "\n1 line in " in f"\n{err}", err


def test_no_file_is_put_among_the_devices(tmp_path, monkeypatch):
    """Where root could: it would take the place of one, for all programs.

    Here a folder of ours is the one of devices.
    """
    monkeypatch.setattr(flag_checks, "_DEVICES", str(tmp_path / "dev"))
    (tmp_path / "dev" / "net").mkdir(parents=True)
    (tmp_path / "link").symlink_to("dev")
    for name in ("dev/x", "dev/net/x.npy", "dev/new/x.jsonl", "link/x"):
        with pytest.raises(UserError, match="a pipe or a device"):
            flag_checks.check_outputs([("output_file", f"{tmp_path}/{name}")], [])
    for name in ("device", "x.jsonl"):
        flag_checks.check_outputs([("output_file", f"{tmp_path}/{name}")], [])


@pytest.mark.skipif(
    not os.path.ismount("/dev/shm"), reason="there is no /dev/shm of its own"
)
def test_files_in_shared_memory_are_written(extract):
    """/dev/shm is no folder of devices."""
    path = pathlib.Path(f"/dev/shm/bert_mgpu_test_{os.getpid()}.npy")
    try:
        code, _, err = extract(path, layers=None, pooling="mean")
        assert code == 0 and len(np.load(path)), err
    finally:
        path.unlink(missing_ok=True)


def test_a_line_without_finite_vectors_is_named(extract, tmp_path, monkeypatch):
    """In a later block, by its number in the file."""
    blocks = []

    def broken(rows, towers, settings, note):
        done = forward(rows, towers, settings, note=note)
        blocks.append(len(rows))
        done["values"][1] = np.nan if len(blocks) == 3 else 0
        check_finite(done, settings.precision, settings.name)
        return done

    monkeypatch.setattr(runs, "_BLOCK", 3)
    monkeypatch.setattr(vectors, "forward", broken)
    texts = tmp_path / "texts.txt"
    texts.write_text("sun\n" * 9)
    flags = {"input_file": texts, "pooling": "mean", "layers": None, "batch_size": 1}
    monkeypatch.setattr(runs, "_FULL_BATCHES", 1)
    code, _, err = extract(tmp_path / "v.npy", **flags)
    assert code == 3 and blocks == [3, 3, 3]
    wanted = f"error: {texts}:8: its outputs are not finite numbers: pass another model"
    assert err.splitlines()[-1] == wanted
    assert not (tmp_path / "v.npy").exists()
