"""run_pretraining_mgpu.py from records to checkpoints, scores and what follows."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read
from bert_mgpu.data import dynamic_masking
from bert_mgpu.runs import identity
from tests.support.logged import files_of, only_run_of, stored, written
from tests.support.marks import rarely
from tests.support.pretraining import CLS, LENGTH, SCORES, SEP, lines_of, scores_of
from tests.support.processes import PRETRAINING, process
from tests.support.runs import assert_same_run, keep_only, resume_halfway
from tests.support.tiny import CONFIG, VOCAB


@pytest.mark.parametrize("kind", ["both", "words", *rarely("unmasked")])
def test_it_learns_measures_and_leaves_what_fine_tuning_starts_from(
    tiny, tmp_path, flags, pretrain, inside, kind
):
    out = tmp_path / "out"
    code, _, err = pretrain(flags(out, kind, do_eval=True, num_train_steps=40))
    assert code == 0, err
    assert "--freeze=^bert/" in err  # the checkpoint has no head
    with_next = kind != "words"
    scores = scores_of(out)
    wanted = [name for name in SCORES if with_next or "next" not in name]
    assert list(scores) == wanted
    losses = [json.loads(x)["masked_lm_loss"] for x in lines_of(out / "metrics.jsonl")]
    assert losses[-1] < losses[0]
    total = float(scores["masked_lm_loss"])
    assert float(scores["perplexity"]) == pytest.approx(np.exp(total))
    if with_next:
        total += float(scores["next_sentence_loss"])
    assert float(scores["loss"]) == pytest.approx(total)
    saved = google_read.read(out)
    heads = {name for name in saved if name.startswith("cls/") and "adam" not in name}
    assert "cls/predictions/output_bias" in heads
    assert ("cls/seq_relationship/output_weights" in heads) == with_next
    pooler = saved["bert/pooler/dense/kernel"]
    first = google_read.read(tiny.model / "bert_model.ckpt")["bert/pooler/dense/kernel"]
    assert np.array_equal(pooler, first) == (not with_next)
    # The vocabulary, the sizes and the casing come from the folder.
    args = tiny.flags(
        tmp_path / "tuned",
        init_checkpoint=out,
        do_train=True,
        vocab_file=None,
        bert_config_file=None,
        max_seq_length=16,
    )
    code, _, err = inside(args)
    assert code == 0, err
    assert re.search(r"weights  23 of 25 loaded from", err), err
    assert "cls/predictions" in err  # in the checkpoint but not used


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("unmasked", {"padding": "pack", "masking": "span"}),
        ("words", {"precision": "bfloat16", "optimizer": "lamb"}),
        *rarely(
            ("both", {"padding": "pack"}),
            ("both", {"padding": "bucket", "n_gpus": 1, "train_batch_size": 7}),
            ("unmasked", {"gradient_accumulation_steps": 2, "train_batch_size": 2}),
            ("both", {"precision": "float16", "optimizer": "adamw"}),
        ),
    ],
    ids=str,
)
def test_stopped_and_resumed_is_the_straight_run(
    tmp_path, flags, pretrain, kind, changed
):
    """Bit for bit, inside an epoch and across ends of them, with dropout and masks."""
    changed = {"train_batch_size": 3, **changed}  # 40 rows are no multiple of 6
    of_kind = lambda out, **more: flags(out, kind, **more)  # noqa: E731
    whole, copy, _ = resume_halfway(pretrain, of_kind, tmp_path, 8, **changed)
    assert_same_run(whole, copy)


@pytest.mark.parametrize("masking", ["span", *rarely("token", "infill")])
def test_a_run_of_before_keeps_numpys_rows_and_masks(
    tmp_path, flags, pretrain, monkeypatch, masking
):
    """One whose identity does not name its random numbers."""
    settings = {"masking": masking, "save_checkpoints_steps": 8}
    whole, stopped, new = (tmp_path / name for name in ("whole", "stopped", "new"))
    with monkeypatch.context() as patch:
        patch.setattr(
            identity,
            "with_original_random_numbers",
            lambda run, *_: dataclasses.replace(run, random_numbers="numpy"),
        )
        patch.delitem(dynamic_masking._DRAWS, "counters")
        assert pretrain(flags(whole, "unmasked", **settings))[0] == 0
    shutil.copytree(whole, stopped)
    keep_only(stopped, 8)
    with monkeypatch.context() as patch:
        patch.delitem(dynamic_masking._DRAWS, "counters")
        code, _, err = pretrain(flags(stopped, "unmasked", **settings))
    assert code == 0 and "resuming  from" in err, err
    assert_same_run(whole, stopped)
    assert pretrain(flags(new, "unmasked", **settings))[0] == 0
    old, other = google_read.read(whole), google_read.read(new)
    bias = "cls/predictions/output_bias"
    assert not np.array_equal(old[bias], other[bias])


@pytest.mark.nightly
def test_killed_and_started_again_it_ends_with_the_same_bits(tmp_path, flags):
    settings = {"num_train_steps": 300, "save_checkpoints_steps": 10, "log_steps": 1}
    whole, broken = tmp_path / "whole", tmp_path / "broken"

    def ends(run):
        _, err = run.communicate(timeout=300)
        return run.returncode, err

    args = flags(whole, "unmasked", **settings)
    assert ends(process(args, program=PRETRAINING))[0] == 0
    args = flags(broken, "unmasked", **settings)
    run = process(args, program=PRETRAINING)
    while not list(broken.glob("model.ckpt-*.index")) and run.poll() is None:
        pass
    assert run.poll() is None
    run.kill()
    ends(run)
    code, err = ends(process(args, program=PRETRAINING))
    assert code == 0 and "resuming  from" in err, err
    assert_same_run(whole, broken)


def test_out_of_memory_takes_smaller_parts(tmp_path, flags, pretrain, request):
    """Of the same steps, with the same drawn masks."""
    changed = {"padding": "max_length", "train_batch_size": 2}
    parts = {"gradient_accumulation_steps": 2}
    assert pretrain(flags(tmp_path / "told", "unmasked", **changed, **parts))[0] == 0
    request.getfixturevalue("little_memory")
    changed["train_batch_size"] = 4
    code, _, err = pretrain(flags(tmp_path / "caught", "unmasked", **changed))
    assert code == 0, err
    assert "--train_batch_size=2 --gradient_accumulation_steps=2" in err
    assert_same_run(tmp_path / "told", tmp_path / "caught")


def test_towers_with_unequal_masks_are_one_tower(tmp_path, flags, pretrain):
    """2 x 4 == 1 x 8 with dropout: masked words are counted over all towers."""
    settings = {"num_train_steps": 20, "padding": "max_length"}
    one, two = tmp_path / "one", tmp_path / "two"
    args = flags(one, **settings, n_gpus=1, train_batch_size=8)
    assert pretrain(args)[0] == 0
    assert pretrain(flags(two, **settings))[0] == 0
    wanted, actual = google_read.read(one), google_read.read(two)
    for name, value in wanted.items():
        if value.dtype == np.float32 and not name.endswith("key/bias"):
            limit = 1e-4 * np.abs(value).max() + 1e-6
            assert np.abs(actual[name] - value).max() <= limit, name


def test_padding_changes_no_score(tmp_path, flags, pretrain):
    out = tmp_path / "out"
    assert pretrain(flags(out, do_eval=True))[0] == 0
    wanted = scores_of(out)
    for padding in ("max_length", "pack"):
        args = flags(out, do_train=None, do_eval=True, padding=padding, n_gpus=3)
        code, _, err = pretrain(args)
        assert code == 0, err
        actual = scores_of(out)
        for name, value in wanted.items():
            assert float(actual[name]) == pytest.approx(float(value), abs=2e-5)


def test_an_evaluation_alone_masks_as_the_training_did(tmp_path, data, flags, pretrain):
    out = tmp_path / "out"
    masks = {"masking": "span", "masked_lm_prob": 0.4, "do_eval": True}
    assert pretrain(flags(out, "unmasked", **masks))[0] == 0
    wanted = scores_of(out)
    args = ["--do_eval", f"--input_file={data / 'unmasked'}", "--n_gpus=2"]
    code, _, err = pretrain([*args, f"--output_dir={out}", "--xla=off"])
    assert code == 0 and "--masking=span, as the model was trained" in err, err
    assert scores_of(out) == wanted


def test_evaluation_reads_the_first_rows(tmp_path, data, flags, pretrain):
    settings = {"do_eval": True, "max_eval_steps": 2, "eval_batch_size": 3}
    code, _, err = pretrain(flags(tmp_path / "out", **settings))
    assert code == 0 and "dev  12 rows of" in err
    other = data / "both" / "b.tfrecord"
    args = flags(tmp_path / "out", do_eval=True, eval_input_file=other)
    code, _, err = pretrain(args)
    assert code == 0 and f"dev  15 rows of {other}" in err


def test_what_is_frozen_in_training_does_not_hinder_scoring(tmp_path, flags, pretrain):
    """Scoring has fewer parameters: none that the pattern names."""
    (tmp_path / "lines.txt").write_text("sun joys\n")
    scoring = {"do_predict": True, "predict_file": tmp_path / "lines.txt"}
    for name, pattern in (("a", "seq_relationship"), ("b", "^(bert|cls/predictions)/")):
        args = flags(tmp_path / name, freeze=pattern, num_train_steps=2, **scoring)
        code, _, err = pretrain(args)
        assert code == 0, err
        assert len(json.loads((tmp_path / name / "test_results.json").read_text())) == 1


def test_lines_are_scored_as_bert_ad_did(tmp_path, tiny, flags, pretrain):
    """Against one forward pass for every word, with the masks put by hand."""
    from bert_mgpu.model import bert, heads
    from bert_mgpu.model.config import BertConfig

    out, texts = tmp_path / "out", ["sun joys 好", "", "the rain xyz of loss"]
    assert pretrain(flags(out))[0] == 0
    (tmp_path / "lines.txt").write_text("".join(f"{text}\n" for text in texts))
    args = ["--do_predict", f"--predict_file={tmp_path / 'lines.txt'}"]
    code, _, err = pretrain([*args, f"--output_dir={out}", "--xla=off"])
    assert code == 0, err
    assert f"--max_seq_length={LENGTH}, as the model was trained" in err
    actual = json.loads((out / "test_results.json").read_text())
    lines = [json.loads(line) for line in lines_of(out / "predictions.jsonl")]
    assert [{"line": n + 1, **one} for n, one in enumerate(actual)] == lines
    assert actual[1] == {"tokens": [], "ppl": None}
    params = google_read.read(out)
    config = BertConfig.from_dict(CONFIG, "test")
    tokens = {0: ["sun", "joy", "##s", "好"], 2: ["the", "rain", "[UNK]", "of", "loss"]}
    words = {0: [(1,), (2, 3), (4,)], 2: [(1,), (2,), (3,), (4,), (5,)]}
    for line, row in tokens.items():
        assert [one["token"] for one in actual[line]["tokens"]] == row
        ids = np.array([CLS, *map(VOCAB.index, row), SEP])
        losses = []
        for word in words[line]:
            masked = ids.copy()
            masked[list(word)] = VOCAB.index("[MASK]")
            batch = {"input_ids": masked[None], "segment_ids": 0 * masked[None]}
            batch["input_mask"] = np.ones_like(masked[None])
            last = bert.encode(params, config, batch)[-1][0].numpy()
            logits = heads.masked_lm_logits(params, config, last[list(word)]).numpy()
            shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
            losses += [-np.log(shares[n, ids[at]]) for n, at in enumerate(word)]
        probs = [one["prob"] for one in actual[line]["tokens"]]
        np.testing.assert_allclose(probs, np.exp(-np.array(losses)), rtol=1e-4)
        ppl = np.exp(sum(losses) / len(words[line]))
        assert actual[line]["ppl"] == pytest.approx(ppl, rel=1e-4)


def test_mlflow_gets_a_pretraining(tmp_path, flags, pretrain, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    out, store = tmp_path / "out", tmp_path / "store"
    code, _, err = pretrain(flags(out, do_eval=True, log_steps=3, mlflow=store))
    assert code == 0, err
    client, run = only_run_of(store)
    actual = stored(client, run)
    assert actual == written(out)
    assert [*actual["train/masked_lm_loss"]] == [3, 6, 9, 12]
    assert [*actual["eval_results/perplexity"]] == [12]
    wanted = {
        name: (out / name).read_bytes() for name in ("run.json", "eval_results.txt")
    }
    assert files_of(client, run) == wanted
    assert run.data.params["num_train_steps"] == "12"
