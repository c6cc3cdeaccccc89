"""Hugging Face folders: what is read and what is refused."""

import json

import ml_dtypes
import numpy as np
import pytest

from bert_mgpu.checkpoints import huggingface_read
from bert_mgpu.core.errors import UserError
from tests.support.tensors import GOLDEN, VOCAB, assert_bit_equal, random_tensors, save

KERNEL = "bert/encoder/layer_2/intermediate/dense/kernel"
KERNEL_THERE = "bert.encoder.layer.2.intermediate.dense.weight"


@pytest.fixture
def tensors():
    return random_tensors(GOLDEN["BertForSequenceClassification"])


def test_names_shapes_and_orientation(tmp_path, tensors):
    actual = huggingface_read.read(save(tmp_path, tensors))
    shapes = {name: list(value.shape) for name, value in actual.items()}
    assert shapes == GOLDEN["google"]
    np.testing.assert_array_equal(actual[KERNEL], tensors[KERNEL_THERE].T)
    assert all(value.flags.c_contiguous for value in actual.values())


def test_a_file_and_an_encoder_without_prefix(tmp_path, tensors):
    whole = huggingface_read.read(save(tmp_path, tensors))
    encoder = {
        name.removeprefix("bert."): value
        for name, value in tensors.items()
        if name.startswith("bert.")
    }
    save(tmp_path, encoder, "encoder.safetensors")
    actual = huggingface_read.read(tmp_path / "encoder.safetensors")
    assert_bit_equal(actual, {n: v for n, v in whole.items() if n.startswith("bert/")})


def test_old_names_of_layer_norm(tmp_path, tensors):
    new = huggingface_read.read(save(tmp_path, tensors))
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): value
        for name, value in tensors.items()
    }
    assert_bit_equal(huggingface_read.read(save(tmp_path, old)), new)


@pytest.mark.parametrize("kind", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_other_floats_become_float32(tmp_path, tensors, kind):
    stored = {name: value.astype(kind) for name, value in tensors.items()}
    actual = huggingface_read.read(save(tmp_path, stored))[KERNEL]
    value = stored[KERNEL_THERE].T
    if kind is ml_dtypes.bfloat16:  # the upper half of a float32, by definition
        wanted = (value.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        wanted = value.astype(np.float32)
    assert actual.tobytes() == np.ascontiguousarray(wanted).tobytes()


def test_shards_are_joined(tmp_path, tensors):
    whole = huggingface_read.read(save(tmp_path, tensors))
    (tmp_path / "model.safetensors").unlink()
    weight_map = save_shards(tmp_path, tensors)
    assert_bit_equal(huggingface_read.read(tmp_path), whole)
    weight_map["classifier.bias"] = "../elsewhere.safetensors"
    write_index(tmp_path, weight_map)
    with pytest.raises(UserError, match="not a file beside the index"):
        huggingface_read.read(tmp_path)


def save_shards(folder, tensors):
    weight_map = {}
    for index in range(3):
        name = f"model-{index + 1:05}-of-00003.safetensors"
        part = dict(list(tensors.items())[index::3])
        save(folder, part, name)
        weight_map |= dict.fromkeys(part, name)
    write_index(folder, weight_map)
    return weight_map


def write_index(folder, weight_map):
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": weight_map})
    )


def test_a_tied_decoder_is_left_out_and_another_is_said(tmp_path):
    shapes = GOLDEN["BertForPreTraining"]
    tied, words = "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings"
    tensors = random_tensors(shapes)
    tensors[tied] = tensors[f"{words}.weight"]
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    tensors["bert.embeddings.position_ids"] = np.arange(512)[None]
    actual = huggingface_read.read(save(tmp_path, tensors))
    assert not [name for name in actual if "." in name]
    assert "cls/predictions/output_bias" in actual

    tensors[tied] = tensors[tied] + 1
    tensors["other.head.weight"] = np.ones(3, np.float32)
    actual = huggingface_read.read(save(tmp_path, tensors))
    assert sorted(n for n in actual if "." in n) == [tied, "other.head.weight"]

    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"] + 1
    with pytest.raises(UserError, match="is there twice, with different values"):
        huggingface_read.read(save(tmp_path, tensors))


def cut(folder, keep):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])


def lose_shard(folder, tensors):
    (folder / "model.safetensors").unlink()
    save_shards(folder, tensors)
    (folder / "model-00002-of-00003.safetensors").unlink()


def misplace_tensor(folder, tensors):
    (folder / "model.safetensors").unlink()
    weight_map = save_shards(folder, tensors)
    write_index(folder, weight_map | {"new": "model-00001-of-00003.safetensors"})


def quantize(folder, tensors):
    save(folder, tensors | {"classifier.weight": np.ones((5, 32), np.int8)})


def only(name):
    def prepare(folder, _):
        (folder / "model.safetensors").unlink()
        if name:
            (folder / name).write_bytes(b"\x80\x04")

    return prepare


FAULTS = {
    "cut off": (lambda folder, _: cut(folder, -100), "not a whole safetensors file"),
    "half": (lambda folder, _: cut(folder, 2000), "not a whole safetensors file"),
    "empty": (lambda folder, _: cut(folder, 0), "not a whole safetensors file"),
    "shard gone": (lose_shard, "00002-of-00003.safetensors: not a whole"),
    "tensor gone": (misplace_tensor, "00001-of-00003.safetensors: has no tensor new"),
    "int8": (quantize, "classifier.weight is of type I8: quantized"),
    "nothing": (only(None), "holds no model.safetensors"),
    "pickle": (only("pytorch_model.bin"), "never read: convert it to"),
    "HDF5": (only("tf_model.h5"), "never read: convert it to"),
    "Keras": (only("model.keras"), "never read: convert it to"),
}


@pytest.mark.parametrize(("fault", "words"), FAULTS.values(), ids=FAULTS)
def test_faults_are_one_line(tmp_path, tensors, fault, words):
    fault(save(tmp_path, tensors), tensors)
    with pytest.raises(UserError, match=words) as caught:
        huggingface_read.read(tmp_path)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_pickle_is_refused_by_its_own_name_too(tmp_path):
    with pytest.raises(UserError, match="never read"):
        huggingface_read.read(tmp_path / "pytorch_model.bin")


CONFIG = {"model_type": "bert", "vocab_size": 7}


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, {}),
        ({"tokenizer_config.json": {"do_lower_case": False}}, {"lower": False}),
        (
            {"tokenizer.json": {"normalizer": {"lowercase": True}}},
            {"lower": True},
        ),
        (
            {
                "tokenizer_config.json": {"do_lower_case": False},
                "tokenizer.json": {"normalizer": {"lowercase": True}},
            },
            {"lower": False},
        ),
        ({"tokenizer.json": {"normalizer": None}}, {}),
        (
            {
                "tokenizer.json": {
                    "normalizer": {
                        "type": "Sequence",
                        "normalizers": [{"type": "BertNormalizer", "lowercase": False}],
                    }
                }
            },
            {"lower": False},
        ),
        (
            {"config.json": CONFIG | {"id2label": {"10": "k", "9": "j"}}},
            {"labels": ["j", "k"]},
        ),
        ({"config.json": CONFIG | {"id2label": {"0": "LABEL_0"}}}, {}),
        (
            {"config.json": CONFIG | {"id2label": {"0": "LABEL_0"}}, "run.json": {}},
            {"labels": ["LABEL_0"]},
        ),
    ],
)
def test_folder_settings(tmp_path, files, wanted):
    for name, value in files.items():
        (tmp_path / name).write_text(json.dumps(value))
    (tmp_path / "vocab.txt").write_text(VOCAB)
    assert huggingface_read.folder_settings(tmp_path) == {
        "vocab_file": str(tmp_path / "vocab.txt"),
        "config_file": str(tmp_path / "config.json")
        if "config.json" in files
        else None,
        "do_lower_case": wanted.get("lower"),
        "labels": wanted.get("labels"),
        "problem_type": None,
    }


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "tokenizer_config.json",
            {"do_lower_case": True, "strip_accents": False},
            "strip_accents is false: the tokenizer of an uncased BERT has true",
        ),
        (
            "tokenizer_config.json",
            {"do_lower_case": True, "tokenize_chinese_chars": False},
            "tokenize_chinese_chars is false",
        ),
        (
            "tokenizer_config.json",
            {"tokenizer_class": "BertJapaneseTokenizer"},
            "tokenizer_class is BertJapaneseTokenizer",
        ),
        (
            "tokenizer.json",
            {"normalizer": {"lowercase": False, "strip_accents": True}},
            "strip_accents is true: the tokenizer of a cased BERT has false",
        ),
        (
            "tokenizer.json",
            {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 2}},
            "normalizer is 'Sequence': only BertNormalizer is supported",
        ),
        (
            "tokenizer.json",
            {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]}},
            "normalizer is 'NFC'",
        ),
        (
            "tokenizer.json",
            {"normalizer": {"lowercase": True, "handle_chinese_chars": False}},
            "handle_chinese_chars is false",
        ),
    ],
)
def test_tokenizers_that_are_not_berts(tmp_path, name, value, words):
    """What they would make of a text is not what ours makes."""
    (tmp_path / name).write_text(json.dumps(value))
    with pytest.raises(UserError, match=words):
        huggingface_read.folder_settings(tmp_path)


def test_tokenizers_that_say_what_bert_does(tmp_path):
    own = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
    own["tokenizer_class"] = "BertTokenizer"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(own))
    normalizer = {"lowercase": True, "strip_accents": True}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"normalizer": normalizer}))
    assert huggingface_read.folder_settings(tmp_path)["do_lower_case"] is True


def test_tokens_that_only_tokenizer_json_has_are_told(tmp_path):
    """A text that has them is cut in other places than by its own tokenizer."""
    file, known = str(tmp_path / "vocab.txt"), ["[PAD]", "sun"]
    assert huggingface_read.ignored_tokens(file, known) == []
    (tmp_path / "tokenizer.json").write_text('{"added_tokens": 5}')
    assert huggingface_read.ignored_tokens(file, known) == []
    added = [{"id": 0, "content": "[PAD]"}, {"id": 9, "content": "[E1]"}]
    for tokens, said in ((added[:1], []), (added, ["[E1]"])):
        text = json.dumps({"added_tokens": tokens})
        (tmp_path / "tokenizer.json").write_text(text)
        found = huggingface_read.ignored_tokens(file, known)
        assert len(found) == len(said) and all("'[E1]'" in line for line in found)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model_type", "roberta"),
        ("position_embedding_type", "relative_key"),
        ("is_decoder", True),
    ],
)
def test_models_that_only_look_like_bert_are_refused(tmp_path, key, value):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {key: value}))
    with pytest.raises(UserError, match=f"{key} is {value!r}; only"):
        huggingface_read.folder_settings(tmp_path)


def test_settings_that_are_no_json_are_named(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="config.json: not a JSON file"):
        huggingface_read.folder_settings(tmp_path)
