"""The lines of extract_features.py are those of google-research/bert."""

import json
import subprocess
import sys

import numpy as np
import pytest

from bert_mgpu.cli import extract_features
from bert_mgpu.config import parsing
from bert_mgpu.config.features import FeaturesConfig
from bert_mgpu.model.config import BertConfig
from bert_mgpu.runs import extract_features as runs
from bert_mgpu.runs.vectors import Extractor
from bert_mgpu.tasks.feature_extraction import FeatureExtraction
from bert_mgpu.text.tokenization import Tokenizer
from tests.reference import google_extract
from tests.support.feature_lines import (
    as_flags,
    assert_same_lines,
    model_flags,
    read,
    tokens_of,
)
from tests.support.marks import rarely
from tests.support.paths import DATA, SHARED

DEFAULTS = {  # Google's, but for its TPUs
    "input_file": None,
    "output_file": None,
    "layers": "-1,-2,-3,-4",
    "bert_config_file": None,
    "max_seq_length": 128,
    "init_checkpoint": None,
    "vocab_file": None,
    "do_lower_case": True,
    "batch_size": 32,
}


def test_the_flags_have_googles_defaults():
    config, notes = parsing.parse(["extract_features.py"], "", FeaturesConfig)
    assert {name: getattr(config, name) for name in DEFAULTS} == DEFAULTS
    assert notes == []
    tpu = ["--use_tpu=False", "--master=x", "--num_tpu_cores=8"]
    tpu += ["--use_one_hot_embeddings=True"]
    _, notes = parsing.parse(["extract_features.py", *tpu], "", FeaturesConfig)
    assert len(notes) == 1 and "--use_one_hot_embeddings" in notes[0]


def test_lines_are_googles(extract, lines, tmp_path):
    code, out, err = extract(tmp_path / "out.jsonl", master="none")
    assert code == 0 and out == "", err
    actual = read(tmp_path / "out.jsonl")
    assert len(actual) == lines[1]
    assert_same_lines(actual, lines[2])
    assert "--master: for TPUs only" in err and f"{lines[1]} lines in" in err
    # Text by text: the same bytes but for last digits.
    text = (tmp_path / "out.jsonl").read_text()
    assert text == "".join(json.dumps(line) + "\n" for line in actual)


@pytest.mark.parametrize(
    "changed",
    [
        {"n_gpus": 2, "cpu_devices": 2, "batch_size": 5},
        {"n_gpus": 4, "cpu_devices": 4, "batch_size": 3},
        *rarely(
            {"batch_size": 1},
            {"batch_size": 500},
            {"n_gpus": 3, "cpu_devices": 2},
        ),
    ],
)
def test_batches_and_towers_change_nothing(extract, lines, tmp_path, changed):
    code, _, err = extract(tmp_path / "out.jsonl", **changed)
    assert code == 0, err
    if "n_gpus" in changed:
        assert f"devices  {changed['n_gpus']} towers on" in err
    assert_same_lines(read(tmp_path / "out.jsonl"), lines[2])


def test_blocks_change_nothing(extract, lines, tmp_path, monkeypatch):
    """Of lines, and of tokens within them: two full lines."""
    monkeypatch.setattr(runs, "_BLOCK", 7)
    monkeypatch.setattr(runs, "_FULL_BATCHES", 1)
    assert extract(tmp_path / "out.jsonl", batch_size=2)[0] == 0
    assert_same_lines(read(tmp_path / "out.jsonl"), lines[2])
    assert extract(tmp_path / "out.npz", batch_size=2)[0] == 0
    with np.load(tmp_path / "out.npz") as arrays:
        wanted = np.cumsum([0, *map(len, tokens_of(lines[2]))])
        np.testing.assert_array_equal(arrays["offsets"], wanted)
    pooled = {"layers": None, "pooling": "mean", "batch_size": 2}
    assert extract(tmp_path / "v.npy", **pooled)[0] == 0
    assert len(np.load(tmp_path / "v.npy")) == lines[1]


@pytest.mark.parametrize(
    ("pooling", "batch_size", "wanted"),
    [
        ("none", 32, [1024] * 4 + [904]),  # four batches of 8 x 32, each
        ("mean", 32, [4096, 904]),
        ("none", 1024, [5000]),  # not even one batch
        ("mean", 1024, [5000]),
    ],
)
def test_blocks_fill_all_towers(two_layers, tmp_path, pooling, batch_size, wanted):
    """With BERT-base, four layers and full lines, as Google's flags have them."""
    (tmp_path / "in.txt").write_text(("sun " * 200 + "\n") * 5000)
    config = FeaturesConfig(
        input_file=str(tmp_path / "in.txt"),
        pooling=pooling,
        n_gpus=8,
        batch_size=batch_size,
    )
    task = FeatureExtraction(
        BertConfig(vocab_size=99),
        config.max_seq_length,
        layer_indices=config.layer_indices,
        how=pooling,
    )
    tokenizer = Tokenizer(two_layers.model / "vocab.txt")
    extractor = Extractor(tokenizer, task, towers=None, settings=None)
    assert [len(rows) for rows in runs._parts(config, extractor)] == wanted


def test_lines_are_split_by_tokens():
    lengths = np.array([3, 3, 9, 1, 1, 1])
    parts = [part.tolist() for part in runs.split(lengths, 6)]
    assert parts == [[0, 1], [2], [3, 4, 5]]
    assert [part.tolist() for part in runs.split(lengths, None)] == [[*range(6)]]


def real_lines():
    """500 English and Chinese lines, pairs among them."""
    stsb = (DATA / "chinese_stsb" / "sts-b-test.txt").read_text().splitlines()
    chinese = [line.split("\t")[:2] for line in stsb[:200]]
    titles = (DATA / "thucnews_title" / "sub_dev.txt").read_text().splitlines()
    english = (DATA / "sst2" / "dev.tsv").read_text().splitlines()[1:151]
    texts = [" ||| ".join(pair) for pair in chinese[:150]]
    texts += [text for pair in chinese[150:] for text in pair]
    texts += [line.split("\t")[0] for line in titles[:100]]
    return [*texts, *(line.split("\t")[0] for line in english)]


@pytest.mark.nightly
@pytest.mark.parametrize("cased", [False, True], ids=["uncased", "cased"])
def test_500_real_lines_are_googles(started, tmp_path, cased):
    if not DATA.is_dir():
        pytest.skip("the folder ../shared with data and models is absent")
    script = SHARED / "models" / "make_tf1_checkpoint.py"
    model = tmp_path / "model"
    subprocess.run([sys.executable, script, model], check=True, capture_output=True)
    texts = real_lines()
    assert len(texts) == 500
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n")
    flags = model_flags(model) | {"max_seq_length": 64, "layers": "-1,-4"}
    flags |= {"input_file": tmp_path / "in.txt", "do_lower_case": not cased}
    google_extract.run(**flags, output_file=tmp_path / "google.jsonl")
    flags |= {"output_file": tmp_path / "ours.jsonl"}
    given = as_flags(flags)
    code, _, err = started(extract_features.main, given)
    assert code == 0, err
    assert_same_lines(read(tmp_path / "ours.jsonl"), read(tmp_path / "google.jsonl"))
