"""run_pretraining_mgpu.py from records to checkpoints, scores and what follows."""

import json
import re
import shutil

import numpy as np
import pytest

from bert_mgpu.data import tfrecord
from bert_mgpu.interop import google_ckpt
from tests.conftest import CONFIG, PRETRAINING, VOCAB, process
from tests.run.conftest import assert_refused, assert_same_run, keep_only

LENGTH, MOST, ROWS = 16, 3, 40
CLS, SEP = VOCAB.index("[CLS]"), VOCAB.index("[SEP]")


def padded(values, size):
    return np.concatenate(
        [values, np.zeros(size - len(values), np.asarray(values).dtype)]
    )


def records(masked=True, follows=True, pairs=True, rows=ROWS):
    rng = np.random.default_rng(11)
    for _ in range(rows):
        length = int(rng.integers(6, LENGTH + 1))
        ids = rng.integers(5, len(VOCAB), length)
        ids[0], ids[-1] = CLS, SEP
        segments = ((np.arange(length) > length // 3) & pairs).astype(int)
        features = {"input_ids": ids, "segment_ids": segments}
        if masked:
            count = int(rng.integers(1, MOST + 1))
            places = np.sort(rng.choice(np.arange(1, length - 1), count, False))
            features = {name: padded(v, LENGTH) for name, v in features.items()}
            features["input_mask"] = padded(np.ones(length, int), LENGTH)
            features["masked_lm_positions"] = padded(places, MOST)
            features["masked_lm_ids"] = padded(ids[places], MOST)
            features["masked_lm_weights"] = padded(np.ones(count, np.float32), MOST)
            features["input_ids"][places] = VOCAB.index("[MASK]")
        if follows:
            features["next_sentence_labels"] = rng.integers(0, 2, 1)
        yield tfrecord.frame(tfrecord.encode(features))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder for each kind of records; `both` is in two files."""
    root = tmp_path_factory.mktemp("records")
    kinds = {
        "both": {},
        "words": {"follows": False},
        "unmasked": {"masked": False},
        "single": {"masked": False, "follows": False, "pairs": False},
    }
    for name, kind in kinds.items():
        (root / name).mkdir()
        made = list(records(**kind))
        (root / name / "a.tfrecord").write_bytes(b"".join(made[:25]))
        (root / name / "b.tfrecord").write_bytes(b"".join(made[25:]))
        (root / name / "note.txt").write_text("no records")
    return root


@pytest.fixture
def flags(tiny, data):
    """flags(output_dir, kind, **changed) -> a command line of 12 steps of 2 towers."""

    def make(output_dir, kind="both", **changed):
        values = {
            "input_file": data / kind,
            "vocab_file": tiny.model / "vocab.txt",
            "bert_config_file": tiny.model / "bert_config.json",
            "init_checkpoint": tiny.model / "bert_model.ckpt",
            "output_dir": output_dir,
            "do_train": True,
            "max_seq_length": LENGTH,
            "max_predictions_per_seq": MOST,
            "num_train_steps": 12,
            "num_warmup_steps": 2,
            "train_batch_size": 4,
            "n_gpus": 2,
            "learning_rate": 1e-3,
            "dynamic_masking": kind in ("unmasked", "single") or None,
            "xla": "off",
            **changed,
        }
        return [
            f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in values.items()
            if value is not None
        ]

    return make


@pytest.fixture
def pretrain(capfd):
    """pretrain(flags) -> (exit code, stdout, stderr), in this process."""
    from bert_mgpu import run

    def call(args):
        capfd.readouterr()
        code = run.pretrain(["run_pretraining_mgpu.py", *args], "usage")
        return code, *capfd.readouterr()

    return call


SCORES = [
    *("global_step", "loss", "masked_lm_accuracy", "masked_lm_loss"),
    *("next_sentence_accuracy", "next_sentence_loss", "perplexity"),
]


def lines_of(path):
    return path.read_text().splitlines()


def scores_of(output_dir):
    path = output_dir / "eval_results.txt"
    return dict(line.split(" = ") for line in lines_of(path))


@pytest.mark.parametrize("kind", ["both", "words", "unmasked"])
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
    saved = google_ckpt.read(out)
    heads = {name for name in saved if name.startswith("cls/") and "adam" not in name}
    assert "cls/predictions/output_bias" in heads
    assert ("cls/seq_relationship/output_weights" in heads) == with_next
    pooler = saved["bert/pooler/dense/kernel"]
    first = google_ckpt.read(tiny.model / "bert_model.ckpt")["bert/pooler/dense/kernel"]
    assert np.array_equal(pooler, first) == (not with_next)
    # The vocabulary, the sizes and the casing come from the folder.
    args = tiny.flags(
        *(tmp_path / "tuned",),
        **{"init_checkpoint": out, "do_train": True, "vocab_file": None},
        **{"bert_config_file": None, "max_seq_length": 16},
    )
    code, _, err = inside(args)
    assert code == 0, err
    assert re.search(r"weights: 39 of 41 start from", err), err
    assert "cls/predictions" in err  # there but not used


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("both", {"padding": "pack"}),
        ("both", {"padding": "bucket", "n_gpus": 1, "train_batch_size": 7}),
        ("unmasked", {"padding": "pack", "masking": "span"}),
        ("unmasked", {"gradient_accumulation_steps": 2, "train_batch_size": 2}),
        ("words", {"precision": "bfloat16", "optimizer": "lamb"}),
    ],
    ids=str,
)
def test_stopped_and_resumed_is_the_straight_run(
    tmp_path, flags, pretrain, kind, changed
):
    """Bit for bit, inside an epoch and across ends of them, with dropout and masks."""
    changed = {"train_batch_size": 3, **changed}  # 40 rows are no multiple of 6
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert pretrain(flags(whole, kind, **changed))[0] == 0
    args = flags(stopped, kind, save_checkpoints_steps=8, **changed)
    assert pretrain(args)[0] == 0
    keep_only(stopped, 8)
    code, _, err = pretrain(args)
    assert code == 0 and "resuming from" in err
    assert_same_run(whole, stopped)


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
    assert code == 0 and "resuming from" in err, err
    assert_same_run(whole, broken)


def test_towers_with_unequal_masks_are_one_tower(tmp_path, flags, pretrain):
    """2 x 4 == 1 x 8 with dropout: masked words are counted over all towers."""
    settings = {"num_train_steps": 20, "padding": "max_length"}
    one, two = tmp_path / "one", tmp_path / "two"
    args = flags(one, **settings, n_gpus=1, train_batch_size=8)
    assert pretrain(args)[0] == 0
    assert pretrain(flags(two, **settings))[0] == 0
    wanted, found = google_ckpt.read(one), google_ckpt.read(two)
    for name, value in wanted.items():
        if value.dtype == np.float32 and not name.endswith("key/bias"):
            limit = 1e-4 * np.abs(value).max() + 1e-6
            assert np.abs(found[name] - value).max() <= limit, name


def test_padding_changes_no_score(tmp_path, flags, pretrain):
    out = tmp_path / "out"
    assert pretrain(flags(out, do_eval=True))[0] == 0
    wanted = scores_of(out)
    for padding in ("max_length", "pack"):
        args = flags(out, do_train=None, do_eval=True, padding=padding, n_gpus=3)
        code, _, err = pretrain(args)
        assert code == 0, err
        found = scores_of(out)
        for name, value in wanted.items():
            assert float(found[name]) == pytest.approx(float(value), abs=2e-5)


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
    assert code == 0 and "dev: 12 rows of" in err
    other = data / "both" / "b.tfrecord"
    args = flags(tmp_path / "out", do_eval=True, eval_input_file=other)
    code, _, err = pretrain(args)
    assert code == 0 and f"dev: 15 rows of {other}" in err


def test_lines_are_scored_as_bert_ad_did(tmp_path, tiny, flags, pretrain):
    """Against one forward pass for every word, with the masks put by hand."""
    from bert_mgpu.config import BertConfig
    from bert_mgpu.nn import bert, heads

    out, texts = tmp_path / "out", ["sun joys 好", "", "the rain xyz of loss"]
    assert pretrain(flags(out))[0] == 0
    (tmp_path / "lines.txt").write_text("".join(f"{text}\n" for text in texts))
    args = ["--do_predict", f"--predict_file={tmp_path / 'lines.txt'}"]
    code, _, err = pretrain([*args, f"--output_dir={out}", "--xla=off"])
    assert code == 0, err
    assert f"--max_seq_length={LENGTH}, as the model was trained" in err
    found = json.loads((out / "test_results.json").read_text())
    lines = [json.loads(line) for line in lines_of(out / "predictions.jsonl")]
    assert [{"line": n + 1, **one} for n, one in enumerate(found)] == lines
    assert found[1] == {"tokens": [], "ppl": None}
    params = google_ckpt.read(out)
    config = BertConfig.from_dict(CONFIG, "test")
    tokens = {0: ["sun", "joy", "##s", "好"], 2: ["the", "rain", "[UNK]", "of", "loss"]}
    words = {0: [(1,), (2, 3), (4,)], 2: [(1,), (2,), (3,), (4,), (5,)]}
    for line, row in tokens.items():
        assert [one["token"] for one in found[line]["tokens"]] == row
        ids = np.array([CLS, *map(VOCAB.index, row), SEP])
        losses = []
        for word in words[line]:
            masked = ids.copy()
            masked[list(word)] = VOCAB.index("[MASK]")
            batch = {"input_ids": masked[None], "segment_ids": 0 * masked[None]}
            batch["input_mask"] = np.ones_like(masked[None])
            last = bert.encode(params, config, batch)[-1][0].numpy()
            logits = heads.predict_words(params, config, last[list(word)]).numpy()
            shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
            losses += [-np.log(shares[n, ids[at]]) for n, at in enumerate(word)]
        probs = [one["prob"] for one in found[line]["tokens"]]
        np.testing.assert_allclose(probs, np.exp(-np.array(losses)), rtol=1e-4)
        ppl = np.exp(sum(losses) / len(words[line]))
        assert found[line]["ppl"] == pytest.approx(ppl, rel=1e-4)


@pytest.mark.parametrize(
    ("changed", "fragments"),
    [
        ({"input_file": None}, ("--input_file is missing",)),
        ({"input_file": "/no/such"}, ("--input_file=/no/such", "pass the files")),
        ({"max_seq_length": 8}, ("a.tfrecord at byte", "--max_seq_length=16")),
        ({"max_predictions_per_seq": 9}, ("--max_predictions_per_seq=3",)),
        ({"dynamic_masking": True}, ("it holds masks", "--dynamic_masking")),
        ({"do_train": None}, ("nothing to do",)),
        ({"predict_file": "x"}, ("pass --do_predict=true",)),
        ({"do_predict": True}, ("pass --predict_file",)),
        ({"do_predict": True, "predict_file": "/no/such"}, ("/no/such",)),
        ({"eval_input_file": "x"}, ("pass --do_eval=true",)),
        ({"input_file": None, "do_train": None, "do_eval": True}, ("--input_file",)),
        ({"num_train_step": 3}, ("did you mean --num_train_steps",)),
    ],
    ids=str,
)
def test_mistakes_are_one_line(tmp_path, flags, pretrain, changed, fragments):
    assert_refused(pretrain(flags(tmp_path / "out", **changed)), *fragments)


def test_googles_script_names_no_vocabulary(tmp_path, tiny, data, flags, pretrain):
    """It is taken from where the records were made, else the run goes without."""
    folder = tmp_path / "records"
    shutil.copytree(data / "both", folder)
    settings = {"input_file": folder, "vocab_file": None, "init_checkpoint": None}
    code, _, err = pretrain(flags(tmp_path / "out", **settings))
    assert code == 0 and "no --vocab_file" in err, err
    assert not (tmp_path / "out" / "vocab.txt").exists()
    vocabulary = tiny.model / "vocab.txt"
    made = {"vocab_file": str(vocabulary), "do_lower_case": False}
    (folder / ".a.tfrecord.json").write_text(json.dumps({"settings": made}))
    settings["do_lower_case"] = False
    code, _, err = pretrain(flags(tmp_path / "other", **settings))
    assert code == 0, err
    copied = (tmp_path / "other" / "vocab.txt").read_bytes()
    assert copied == vocabulary.read_bytes()
    settings["do_lower_case"] = True
    result = pretrain(flags(tmp_path / "another", **settings))
    assert_refused(result, "--do_lower_case=true", "is cased")


def test_googles_script_on_a_cased_model(tmp_path, tiny, flags, pretrain):
    """It has neither --vocab_file nor --do_lower_case, and reads no text."""
    folder = tmp_path / "cased_L-2_H-32_A-2"
    shutil.copytree(tiny.model, folder)
    (folder / "vocab.txt").unlink()
    start = {"vocab_file": None, "init_checkpoint": folder / "bert_model.ckpt"}
    code, _, err = pretrain(flags(tmp_path / "out", **start))
    assert code == 0, err
    kept = json.loads((tmp_path / "out" / "run.json").read_text())["flags"]
    assert "do_lower_case" not in kept


def test_records_of_another_casing(tmp_path, tiny, data, flags, pretrain):
    folder = tmp_path / "cased_L-2_H-32_A-2"
    shutil.copytree(tiny.model, folder)
    records = tmp_path / "records"
    shutil.copytree(data / "both", records)
    made = {"vocab_file": str(folder / "vocab.txt"), "do_lower_case": True}
    (records / ".a.tfrecord.json").write_text(json.dumps({"settings": made}))
    start = {"vocab_file": None, "init_checkpoint": folder / "bert_model.ckpt"}
    result = pretrain(flags(tmp_path / "out", input_file=records, **start))
    assert_refused(result, "made with --do_lower_case=true, but", "is cased")


def test_masks_must_fit_the_records(tmp_path, data, flags, pretrain):
    result = pretrain(flags(tmp_path / "out", "single", masking="infill"))
    assert_refused(result, "rows without a second text", "--masking")
    folder = tmp_path / "records"
    shutil.copytree(data / "unmasked", folder)
    made = {"settings": {"objective": "infill"}}
    (folder / ".a.tfrecord.json").write_text(json.dumps(made))
    result = pretrain(flags(tmp_path / "out", input_file=folder, dynamic_masking=True))
    assert_refused(result, "made with --objective=infill")
    code, _, err = pretrain(flags(tmp_path / "out", "unmasked", masking="infill"))
    assert code == 0, err


def test_a_trained_model_is_exported_whole(tmp_path, flags, pretrain):
    """With its head for next sentences, and without any records."""
    out, folder = tmp_path / "out", tmp_path / "hf"
    assert pretrain(flags(out))[0] == 0
    code, _, err = pretrain([f"--output_dir={out}", f"--export_hf={folder}"])
    assert code == 0, err
    architectures = json.loads((folder / "config.json").read_text())["architectures"]
    assert architectures == ["BertForPreTraining"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    result = pretrain(flags(tmp_path / "new", export_hf=tmp_path / "other"))
    assert_refused(result, "other")
    assert not list((tmp_path / "new").glob("model.ckpt*"))


def test_records_of_another_vocabulary(tmp_path, data, flags, pretrain):
    folder = tmp_path / "records"
    shutil.copytree(data / "both", folder)
    (folder / ".b.tfrecord.json").write_text(json.dumps({"vocabulary": "0" * 64}))
    result = pretrain(flags(tmp_path / "out", input_file=folder))
    assert_refused(result, "b.tfrecord: made with another vocabulary", "--vocab_file")


def test_two_kinds_of_records_do_not_mix(tmp_path, data, flags, pretrain):
    both = f"{data / 'both'},{data / 'words'}"
    result = pretrain(flags(tmp_path / "out", input_file=both))
    assert_refused(result, "has next_sentence_labels", "without")
    (tmp_path / "empty").mkdir()
    result = pretrain(flags(tmp_path / "out", input_file=tmp_path / "empty"))
    assert_refused(result, "no file of the folder ends in .tfrecord")


def test_other_settings_do_not_resume(tmp_path, data, flags, pretrain):
    out = tmp_path / "out"
    assert pretrain(flags(out))[0] == 0
    for changed in ({"num_warmup_steps": 3}, {"input_file": data / "both/a.tfrecord"}):
        result = pretrain(flags(out, **changed))
        assert_refused(result, "holds a run with other settings", next(iter(changed)))
    code, _, err = pretrain(flags(out, num_train_steps=14))
    assert code == 0 and "training: steps 13 to 14" in err
    code, _, err = pretrain(flags(tmp_path / "further", init_checkpoint=out))
    assert code == 0 and "weights: 46 of 46 start from" in err
    assert "--freeze" not in err


def test_a_fine_tuning_does_not_go_on_from_pretraining(
    tmp_path, tiny, flags, pretrain, inside
):
    out = tmp_path / "out"
    assert pretrain(flags(out))[0] == 0
    result = inside(tiny.flags(out, do_train=True))
    assert_refused(result, "task_name (was pretraining, is mrpc)")


def test_plan_trains_nothing(tmp_path, flags, pretrain):
    code, _, err = pretrain(flags(tmp_path / "out", plan=True))
    assert code == 0, err
    assert "12: 40 rows, 2.4 epochs" in " ".join(err.split())
    assert not list((tmp_path / "out").glob("model.ckpt*"))
