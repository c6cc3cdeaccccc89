"""Exports: Hugging Face folders that read back, whole or not written."""

import dataclasses
import json

import numpy as np
import pytest
import safetensors.numpy

from bert_mgpu.checkpoints import huggingface_read, huggingface_write
from bert_mgpu.core.errors import UserError
from tests.reference import cases
from tests.support.tensors import GOLDEN, VOCAB, assert_bit_equal, random_tensors, save

LABELS = ["no", "yes", "может", "也许", "b"]


@pytest.fixture
def arguments(tmp_path):
    """What export takes, after the directory."""
    vocab = tmp_path / "vocab.txt"
    vocab.write_text(VOCAB, encoding="utf-8")
    params = random_tensors(GOLDEN["google"])
    return {
        "params": params,
        "bert_config": cases.MODEL,
        "vocab_file": vocab,
        "do_lower_case": False,
        "labels": LABELS,
    }


def test_an_export_reads_back(tmp_path, arguments):
    params = arguments["params"]
    directory = tmp_path / "new" / "export"
    arguments["params"] = {**params, "global_step": 3}
    huggingface_write.export(directory, **arguments)
    assert_bit_equal(huggingface_read.read(directory), params)
    assert huggingface_read.folder_settings(directory) == {
        "vocab_file": str(directory / "vocab.txt"),
        "config_file": str(directory / "config.json"),
        "do_lower_case": False,
        "labels": LABELS,
        "problem_type": None,
    }
    assert (directory / "vocab.txt").read_text(encoding="utf-8") == VOCAB


@pytest.mark.parametrize(("kept", "side"), [("tail", "left"), ("head", "right")])
def test_transformers_keeps_the_same_end_of_a_long_text(
    tmp_path, arguments, kept, side
):
    facts = {"flags": {"truncation": kept, "max_seq_length": 9}}
    huggingface_write.export(tmp_path / "new", **arguments, facts=facts)
    settings = json.loads((tmp_path / "new/tokenizer_config.json").read_text())
    assert (settings["truncation_side"], settings["model_max_length"]) == (side, 9)
    assert settings["split_special_tokens"] is True


def test_an_export_has_the_names_and_shapes_of_transformers(tmp_path, arguments):
    huggingface_write.export(tmp_path / "export", **arguments)
    file = tmp_path / "export" / "model.safetensors"
    with safetensors.safe_open(file, "numpy") as opened:
        assert opened.metadata()["format"] == "pt"
    tensors = safetensors.numpy.load_file(file)
    shapes = {name: list(value.shape) for name, value in tensors.items()}
    assert shapes == GOLDEN["BertForSequenceClassification"]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("gelu_erf", "gelu"), ("gelu_tanh", "gelu_new"), ("relu", "relu")],
)
def test_the_config_of_an_export_means_the_same(tmp_path, arguments, ours, theirs):
    arguments["bert_config"] = dataclasses.replace(
        arguments["bert_config"], hidden_act=ours, layer_norm_eps=1e-5
    )
    huggingface_write.export(tmp_path / "export", **arguments)
    path = tmp_path / "export" / "config.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    assert raw["hidden_act"] == theirs
    assert raw["architectures"] == ["BertForSequenceClassification"]
    assert raw["pad_token_id"] == 1  # where VOCAB has [PAD]
    assert (
        type(arguments["bert_config"]).from_json_file(path) == arguments["bert_config"]
    )


def test_an_export_replaces_only_an_export(tmp_path, arguments):
    directory = tmp_path / "export"
    directory.mkdir()
    huggingface_write.export(directory, **arguments)  # an empty one is free
    arguments["labels"] = [label * 2 for label in LABELS]
    huggingface_write.export(directory, **arguments)
    assert huggingface_read.folder_settings(directory)["labels"] == arguments["labels"]
    (directory / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="exists and is not just an export"):
        huggingface_write.export(directory, **arguments)
    assert (directory / "notes.txt").read_text() == "mine"

    foreign = tmp_path / "foreign"
    foreign.mkdir()
    save(foreign, {"x": np.ones(2)})
    with pytest.raises(UserError, match="exists and is not just an export"):
        huggingface_write.export(foreign, **arguments)


def test_an_export_that_fails_leaves_the_old_one(tmp_path, arguments, monkeypatch):
    directory = tmp_path / "export"
    huggingface_write.export(directory, **arguments)
    before = {p.name: p.read_bytes() for p in directory.iterdir()}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.numpy, "save_file", full)
    with pytest.raises(UserError, match="cannot export: .*No space left"):
        huggingface_write.export(directory, **arguments)
    assert {p.name: p.read_bytes() for p in directory.iterdir()} == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["export", "vocab.txt"]


def test_what_is_no_classifier_is_not_exported(tmp_path, arguments):
    params = dict(arguments["params"])
    del params["output_weights"]
    with pytest.raises(UserError, match="has no output_weights, which Bert"):
        huggingface_write.export(tmp_path / "a", **{**arguments, "params": params})
    with pytest.raises(UserError, match="2 labels for a classifier with 5"):
        huggingface_write.export(tmp_path / "b", **{**arguments, "labels": LABELS[:2]})
    assert [p.name for p in tmp_path.iterdir()] == ["vocab.txt"]
