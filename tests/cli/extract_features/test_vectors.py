"""The same numbers in files of NumPy, and one vector a line."""

import numpy as np
import pytest

import bert_mgpu
from bert_mgpu.cli import extract_features
from bert_mgpu.model.config import BertConfig
from bert_mgpu.tasks.feature_extraction import FeatureExtraction
from tests.support.feature_lines import (
    as_flags,
    model_flags,
    read,
    tokens_of,
    values_of,
)
from tests.support.runs import assert_refused


def pooled(lines, how, layer):
    """The vectors that follow from the answers for tokens."""
    shares = []
    for line in lines:
        own = values_of([line])[:, layer]
        shares.append({"cls": own[0], "mean": own.mean(0), "max": own.max(0)}[how])
    return np.array(shares)


def test_all_forms_hold_the_same_numbers(extract, lines, tmp_path):
    assert extract(tmp_path / "out.npz")[0] == 0
    with np.load(tmp_path / "out.npz") as arrays:
        found = dict(arrays)
    known = tokens_of(lines[2])
    assert found["tokens"].tolist() == [token for line in known for token in line]
    wanted = values_of(lines[2])
    np.testing.assert_allclose(found["values"], wanted, atol=1e-5)
    assert extract(tmp_path / "half.npz", output_dtype="float16")[0] == 0
    with np.load(tmp_path / "half.npz") as arrays:
        assert arrays["values"].dtype == np.float16
        np.testing.assert_allclose(arrays["values"], wanted, atol=5e-3)


@pytest.mark.parametrize("how", ["cls", "mean", "max"])
@pytest.mark.parametrize("layer", [None, 0])
def test_pooled_vectors(extract, lines, tmp_path, how, layer):
    flags = {"pooling": how, "layers": layer, "normalize": how == "max"}
    assert extract(tmp_path / "v.npy", **flags)[0] == 0
    assert extract(tmp_path / "v.jsonl", **flags)[0] == 0
    actual = np.load(tmp_path / "v.npy")
    wanted = pooled(lines[2], how, 0 if layer is None else 1)
    if how == "max":
        wanted = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, wanted, atol=1e-5)
    records = read(tmp_path / "v.jsonl")
    assert [record["linex_index"] for record in records] == [*range(lines[1])]
    values = [record["values"] for record in records]
    np.testing.assert_allclose(values, actual, atol=6e-7)


def test_the_shape_of_values(two_layers):
    config = BertConfig.from_json_file(two_layers.model / "bert_config.json")
    assert FeatureExtraction(config, 16, how="mean").value_shape == (32,)
    task = FeatureExtraction(config, 16, layer_indices=(0, -1))
    assert task.value_shape == (2, 32) and task.token_outputs == {"values"}


def test_a_trained_folder_and_its_vectors(trained, started, tmp_path):
    """A fine-tuned run has all that the script needs."""
    (tmp_path / "in.txt").write_text("sun joy\nrain\n")
    flags = [f"--input_file={tmp_path / 'in.txt'}", "--max_seq_length=16"]
    flags += [f"--init_checkpoint={trained('own')}", "--pooling=cls"]
    output = tmp_path / "v.npy"
    code, _, err = started(extract_features.main, [*flags, f"--output_file={output}"])
    assert code == 0, err
    with bert_mgpu.load(trained("own")) as model:
        wanted = model.encode(["sun joy", "rain"], "cls")
    np.testing.assert_allclose(np.load(output), wanted, atol=1e-5)


def test_a_model_without_a_pooler(started, two_layers, tmp_path):
    from bert_mgpu.checkpoints import google_read

    stored = google_read.read(two_layers.model / "bert_model.ckpt")
    kept = {n: v for n, v in stored.items() if "pooler" not in n}
    google_read.write(tmp_path / "bert_model.ckpt", kept)
    flags = model_flags(two_layers.model) | {"init_checkpoint": tmp_path}
    (tmp_path / "in.txt").write_text("sun\n")
    flags |= {"input_file": tmp_path / "in.txt", "output_file": tmp_path / "v.npy"}
    given = as_flags(flags)
    refused = started(extract_features.main, [*given, "--pooling=pooler"])
    assert_refused(refused, "has no bert/pooler/dense/bias", "--pooling=cls")
    assert started(extract_features.main, [*given, "--pooling=cls"])[0] == 0


def test_a_lower_precision_gives_the_same_roughly(extract, lines, tmp_path):
    flags = {"precision": "bfloat16", "pooling": "mean", "layers": None}
    assert extract(tmp_path / "v.npy", **flags)[0] == 0
    actual, wanted = np.load(tmp_path / "v.npy"), pooled(lines[2], "mean", 0)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, wanted, atol=0.1)
    assert np.abs(actual - wanted).max() > 1e-4
