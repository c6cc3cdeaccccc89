"""Runs that cannot go on: out of memory (exit 4), diverged (exit 3)."""

import json
import resource

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.checkpoints import google_read
from bert_mgpu.core import errors
from bert_mgpu.training.towers import Towers
from tests.support import memory
from tests.support.runs import assert_same_run
from tests.support.tiny import CONFIG, edit_config


@pytest.mark.nightly
def test_the_planted_error_is_tensorflows():
    with pytest.raises(tf.errors.ResourceExhaustedError) as raised:
        tf.zeros(memory.SHAPE).numpy()
    assert raised.value.message == memory.TEXT


def test_out_of_memory_takes_smaller_parts(tiny, tmp_path, inside, request):
    """Of the same steps: the run that was told so from the start has the same bits."""
    flags = {"do_train": True, "do_predict": True, "num_train_epochs": 3}
    flags |= {"n_gpus": 2, "padding": "bucket", "save_checkpoints_steps": 2}
    parts = {"train_batch_size": 3, "gradient_accumulation_steps": 2}
    code, _, err = inside(tiny.flags(tmp_path / "told", **parts, **flags))
    assert code == 0, err
    request.getfixturevalue("little_memory")
    flags |= {"train_batch_size": 6, "predict_batch_size": 5}
    code, _, err = inside(tiny.flags(tmp_path / "caught", **flags))
    assert code == 0, err
    training, predicting = (line for line in err.splitlines() if "continuing" in line)
    assert training.startswith("OOM when allocating")
    assert "--train_batch_size=3 --gradient_accumulation_steps=2" in training
    assert "batches of 2 rows per tower" in predicting
    assert google_read.read(tmp_path / "told")["global_step"] == 6
    assert_same_run(tmp_path / "told", tmp_path / "caught")
    predicted = [tmp_path / name / "predict.txt" for name in ("told", "caught")]
    assert predicted[0].read_text() == predicted[1].read_text()


def test_out_of_memory_while_packing_takes_smaller_parts(
    tiny, tmp_path, inside, request
):
    """The same losses, but for dropout, which this model is trained without."""
    edit = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (tmp_path / "model").mkdir()
    config = tmp_path / "model" / "bert_config.json"
    config.write_text(json.dumps({**CONFIG, **edit}))
    flags = {"do_train": True, "num_train_epochs": 2, "padding": "pack", "log_steps": 1}
    flags |= {"bert_config_file": config, "train_batch_size": 12}
    assert inside(tiny.flags(tmp_path / "whole", **flags))[0] == 0
    request.getfixturevalue("little_memory")
    code, _, err = inside(tiny.flags(tmp_path / "caught", **flags))
    assert code == 0 and "--gradient_accumulation_steps=" in err, err
    whole, caught = (
        [json.loads(line)["loss"] for line in (tmp_path / name).open()]
        for name in ("whole/metrics.jsonl", "caught/metrics.jsonl")
    )
    np.testing.assert_allclose(caught, whole, rtol=1e-5)


@pytest.mark.nightly
def test_out_of_memory_with_one_row_says_what_to_do(work, script):
    """Attention of 1,024 heads over 512 tokens: 1 GB for every copy of the scores.

    Those of eight layers are one buffer, larger than the limit: XLA itself refuses it.
    """

    def six_gigabytes():
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))

    edit_config(
        work,
        hidden_size=1024,
        num_attention_heads=1024,
        num_hidden_layers=8,
        max_position_embeddings=512,
    )
    flags = {"do_train": True, "xla": "on", "padding": "max_length"}
    flags |= {"max_seq_length": 512, "train_batch_size": 1, "init_checkpoint": None}
    args = work.flags(work.root / "new", **flags)
    code, _, err = script(args, preexec_fn=six_gigabytes)
    assert code == 4, err
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("error: Out of memory while trying to allocate")
    assert "one row at a time" in last and "--recompute=block" in last


@pytest.mark.parametrize("save_every", [1, 1000])
def test_diverged_names_the_step_and_saves_nothing_of_it(
    tiny, tmp_path, inside, save_every
):
    args = tiny.flags(
        tmp_path,
        do_train=True,
        learning_rate=1e30,
        warmup_proportion=0.0,
        num_train_epochs=5,
        save_checkpoints_steps=save_every,
    )
    code, _, err = inside(args)
    assert code == 3
    last = err.splitlines()[-1]
    assert last.startswith("error: step 2: loss nan")
    assert "--learning_rate" in last
    saved = sorted(path.stem for path in tmp_path.glob("model.ckpt-*.index"))
    assert saved == (["model.ckpt-1"] if save_every == 1 else [])
    for path in saved:
        assert google_read.read(tmp_path / path)["global_step"] == 1


def test_predicting_says_what_one_row_would_need_less_of(resumed, inside, monkeypatch):
    out = resumed.root / "out"
    before = (out / "predict.txt").read_text()
    monkeypatch.setattr(Towers, "launch_outputs", memory.no_memory)
    code, _, err = inside(resumed.flags(out, do_predict=True))
    assert code == 4
    (line,) = (line for line in err.splitlines() if line.startswith("error: "))
    assert "predict: OOM" in line and "--max_seq_length" in line
    assert "--recompute" not in line and "--slot_bits" not in line
    assert (out / "predict.txt").read_text() == before


@pytest.mark.parametrize("do", ["do_eval", "do_predict"])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_no_class_follows_from_what_is_no_number(tiny, tmp_path, inside, do, precision):
    weights = google_read.read(tiny.model / "bert_model.ckpt")
    weights["output_weights"] = np.full((2, 32), 3e38, "f")
    weights["output_bias"] = np.zeros(2, "f")
    weights["output_weights"][0] = 0
    google_read.write(tmp_path / "bert_model.ckpt", weights)
    flags = {"init_checkpoint": tmp_path / "bert_model.ckpt", do: True}
    out = tmp_path / "out"
    code, _, err = inside(tiny.flags(out, precision=precision, **flags))
    assert code == 3 and "are not finite" in err and "nothing is written" in err
    assert ("--precision=float32" in err) == (precision == "float16")
    written = {"predict.txt", "test_results.tsv", "eval_results.txt"}
    assert not written & {path.name for path in out.iterdir()}


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("OOM when allocating tensor with shape[1]", "OOM when allocating"),
        ("Out of memory while trying to allocate 9 bytes.", "Out of memory while"),
        ("Dst tensor is not initialized.", "Dst tensor is not initialized"),
        ("unable to allocate output tensor", "unable to allocate"),
        ("CUBLAS_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED"),
        ("the room is empty", None),
        ("shapes do not match", None),
    ],
)
def test_what_lack_of_memory_is_called(message, found):
    for error in (RuntimeError(message), tf.errors.InternalError(None, None, message)):
        reported = errors.out_of_memory(error)
        assert reported.startswith(found) if found else reported is None
    assert errors.out_of_memory(errors.UserError(message)) is None
