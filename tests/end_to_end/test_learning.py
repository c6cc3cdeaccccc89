"""The flags that say how a run learns, end to end: each is resumed exactly."""

import json
import shutil

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read
from bert_mgpu.config.base import fields
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.tensor_names import AVERAGE
from bert_mgpu.model import bert
from tests.support.marks import rarely
from tests.support.runs import assert_same_run, resume_halfway

MORE = {"do_train": True, "num_train_epochs": 3}
RARE_SETTINGS = [
    {"precision": "bfloat16"},
    {"precision": "bfloat16", "xla": "auto"},  # which compiles the update alone
    {"precision": "float16"},
    {"optimizer": "adafactor", "freeze_layers": "embeddings,0"},
]
SETTINGS = [
    {"optimizer": "adamw", "layer_lr_decay": 0.8, "precision": "bfloat16"},
    {"optimizer": "lamb", "slot_bits": 8},
    {
        "train_batch_size": 2,
        "gradient_accumulation_steps": 2,
        "slot_bits": 8,
        "freeze": "pooler",
        "ema_decay": 0.9,
        "precision": "float16",
        "padding": "pack",
    },
    {"optimizer": "lion", "ema_decay": 0.9, "freeze": "pooler", "weight_decay": 0.1},
]


@pytest.fixture
def averaged(trained, tmp_path):
    """A run that keeps a moving average of its weights."""
    run = trained(ema_decay=0.9, do_eval=True, do_predict=True, num_train_epochs=3)
    return shutil.copytree(run, tmp_path / "averaged")


@pytest.mark.parametrize(
    "setting",
    [*SETTINGS, *rarely(*RARE_SETTINGS)],
    ids=lambda s: "-".join(map(str, s.values())),
)
def test_stopped_and_resumed_is_the_straight_run(tiny, tmp_path, inside, setting):
    """Bit for bit, the state of loss scaling and 8-bit moments included.

    And by its own settings alone.
    """
    flags = {"n_gpus": 2, **MORE, **setting}
    whole, copy, output = resume_halfway(inside, tiny.flags, tmp_path, 5, **flags)
    assert "afresh" not in output
    assert_same_run(whole, copy)
    if "slot_bits" in setting:
        assert any(name.endswith("_q8") for name in google_read.read(copy))
    saved = json.loads((copy / "run.json").read_text())
    for name, value in setting.items():
        assert str(saved["flags"][name]) == str(value)
    code, _, err = inside(tiny.flags(copy, n_gpus=2, **MORE))
    assert code == 2
    compared = {f.name for f in fields(FinetuneConfig) if f.metadata["identity"]}
    assert all(f"{name} (was " in err for name in compared & setting.keys())


@pytest.mark.parametrize(
    "setting",
    [
        {"precision": "bfloat16"},
        {"optimizer": "adamw"},
        {"slot_bits": 8},
        {"layer_lr_decay": 0.5},
        {"weight_decay": 0.5},
        {"freeze_layers": "embeddings"},
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)
def test_each_flag_changes_what_is_learned(trained, setting):
    straight, other = (
        trained(num_train_epochs=3),
        trained(num_train_epochs=3, **setting),
    )
    name = "bert/encoder/layer_0/output/dense/kernel"
    wanted, actual = (google_read.read(run)[name] for run in (straight, other))
    assert 1e-7 < np.abs(actual - wanted).max() < 0.1


def test_layers_and_the_head_learn_at_their_own_rates(two_layers, tmp_path, inside):
    """The first step of a bias is the rate times nearly 1 / sqrt(0.1)."""
    flags = {"train_batch_size": 24, "warmup_proportion": 0}
    flags |= {"layer_lr_decay": 0.5, "head_lr_factor": 10}
    assert inside(two_layers.flags(tmp_path, do_train=True, **flags))[0] == 0
    before, after = (google_read.read(run) for run in (two_layers.model, tmp_path))
    assert after["global_step"] == 1

    def moved(name):
        return np.abs(after[name] - before.get(name, 0)).max()  # biases begin at 0

    layers = [f"bert/encoder/layer_{n}/output/dense/bias" for n in range(2)]
    assert moved(layers[0]) / moved(layers[1]) == pytest.approx(0.5, rel=0.02)
    assert moved("output_bias") / moved(layers[1]) == pytest.approx(20, rel=0.02)


@pytest.mark.parametrize(
    ("recompute", "layers"), [("none", 0), ("attention", 2), ("block", 2)]
)
def test_recompute_is_done(
    two_layers, tmp_path, inside, monkeypatch, recompute, layers
):
    """Counts the layers of the one shape that is traced."""
    wrapped, done = bert.recomputed, []
    count = lambda *args: (done.append(1), wrapped(*args))[1]  # noqa: E731
    monkeypatch.setattr(bert, "recomputed", count)
    flags = {"do_train": True, "recompute": recompute, "padding": "max_length"}
    assert inside(two_layers.flags(tmp_path, **flags))[0] == 0
    assert len(done) == layers


def test_the_average_is_what_is_used(tiny, averaged, tmp_path, inside):
    """At the end of training, later, and by --export_hf: never the last weights."""
    tensors = google_read.read(averaged)
    mean = tensors[f"output_weights/{AVERAGE}"]
    assert not np.array_equal(mean, tensors["output_weights"])
    at_once = (averaged / "test_results.tsv").read_text()
    export = {"do_predict": True, "export_hf": tmp_path / "hf"}
    assert inside(tiny.flags(averaged, **export))[0] == 0
    assert (averaged / "test_results.tsv").read_text() == at_once
    flags = {"init_checkpoint": averaged, "do_predict": True}
    code, _, err = inside(tiny.flags(tmp_path / "elsewhere", **flags))
    assert code == 0 and "not used" not in err
    assert (tmp_path / "elsewhere" / "test_results.tsv").read_text() == at_once
    # A checkpoint in which the averages are the weights predicts the same.
    plain = {
        name: tensors.get(f"{name}/{AVERAGE}", value)
        for name, value in tensors.items()
        if not name.startswith("bert_mgpu/") and "/adam_" not in name
    }
    plain = {name: v for name, v in plain.items() if not name.endswith(AVERAGE)}
    (tmp_path / "plain").mkdir()
    google_read.write(tmp_path / "plain" / "bert_model.ckpt", plain)
    flags = {"init_checkpoint": tmp_path / "plain" / "bert_model.ckpt"}
    flags |= {"do_predict": True}
    assert inside(tiny.flags(tmp_path / "other", **flags))[0] == 0
    assert (tmp_path / "other" / "test_results.tsv").read_text() == at_once


def test_frozen_parameters_are_listed(two_layers, tmp_path, inside):
    flags = {"freeze_layers": "embeddings,0", "freeze": "pooler", "do_train": True}
    code, _, err = inside(two_layers.flags(tmp_path, **flags))
    assert code == 0, err
    assert "frozen  embeddings, layer 0, pooler (23 of 41 parameters)" in err
    saved = json.loads((tmp_path / "run.json").read_text())
    names = saved["frozen"]
    assert "bert/pooler/dense/kernel" in names and len(names) == 5 + 16 + 2
    first = google_read.read(two_layers.model / "bert_model.ckpt")
    last = google_read.read(tmp_path)
    for name in first:
        assert np.array_equal(first[name], last[name]) == (name in names), name
        assert (f"{name}/adam_m" in last) == (name not in names), name


@pytest.mark.parametrize(
    ("flags", "fragments"),
    [
        ({"freeze_layers": "embeddings,7"}, ["--freeze_layers", "7"]),
        ({"freeze_layers": "encoder"}, ["--freeze_layers", "encoder", "embeddings"]),
        ({"freeze": "nowhere"}, ["--freeze", "nowhere"]),
        ({"freeze": "("}, ["--freeze", "("]),
        ({"freeze": "."}, ["--freeze=.", "all 25"]),
        ({"optimizer": "lion", "slot_bits": 8}, ["--slot_bits=8", "lion"]),
        ({"optimizer": "sgd"}, ["--optimizer=sgd", "adamw_google"]),
        ({"precision": "half"}, ["--precision=half", "bfloat16"]),
        ({"slot_bits": 16}, ["--slot_bits=16", "8"]),
        ({"layer_lr_decay": 1.5}, ["--layer_lr_decay=1.5", "at most 1"]),
        ({"ema_decay": 1}, ["--ema_decay=1", "at most"]),
    ],
)
def test_mistakes(work, expect_refused, flags, fragments):
    expect_refused(work, *fragments, **flags)
