"""Long texts as rows of several segments, from start to end."""

import dataclasses
import json
import random
import re
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf

import bert_mgpu
from bert_mgpu.checkpoints import google_read
from bert_mgpu.cli import convert
from tests.support.marks import rarely
from tests.support.processes import process
from tests.support.runs import assert_refused
from tests.support.tiny import BAD, GOOD, OTHER, TASK_JSON, edit_config

# Texts have up to 15 words: three segments of six.
LONG = {"max_seq_length": 8, "max_segments": 3, "segment_pooling": "attention"}
LEARNS = {"num_train_epochs": 12, "learning_rate": 2e-3}
NO_FILES = dict.fromkeys(("vocab_file", "bert_config_file", "init_checkpoint"))
ALONE = NO_FILES | dict.fromkeys(("data_dir", "max_seq_length", "train_batch_size"))


def predicted(out):
    return (out / "predict.txt").read_bytes(), np.loadtxt(out / "test_results.tsv")


@pytest.fixture(scope="module")
def made():
    return {}


@pytest.fixture(scope="module")
def data(tiny, tmp_path_factory):
    """What a text says stands at its end; one does not fit into three segments."""
    folder, draw = tmp_path_factory.mktemp("data"), random.Random(4)
    (folder / "task.json").write_text(json.dumps(TASK_JSON))
    for name, count in (("train", 96), ("dev", 40), ("test", 21)):
        with (folder / f"{name}.tsv").open("w") as file:
            for number in range(count):
                many = 30 if (name, number) == ("test", 4) else draw.randint(2, 12)
                words = draw.choices(OTHER.split(), k=many)
                last = draw.choices((BAD, GOOD)[number % 2].split(), k=3)
                file.write(f"{('no', 'yes')[number % 2]}\t{' '.join(words + last)}\n")
    return folder


@pytest.fixture
def trained_on(tiny, data, inside, tmp_path_factory, made):
    """trained_on(**flags) -> (its output_dir, the log), to look at only."""

    def make(**changed):
        asked = repr(sorted(changed.items()))
        if asked not in made:
            out = tmp_path_factory.mktemp("long") / "out"
            stages = {"do_train": True, "do_eval": True, "do_predict": True}
            stages["data_dir"] = data
            args = tiny.flags(out, "own", **LONG | LEARNS | stages | changed)
            code, _, err = inside(args)
            assert code == 0, err
            made[asked] = out, err
        return made[asked]

    return make


@pytest.mark.parametrize("how", ["max", "attention", *rarely("mean")])
def test_long_texts_are_learnt_to_their_end(trained_on, how):
    out, err = trained_on(segment_pooling=how)
    assert "0.0% truncated at 20 (3 x 8)" in err
    lines = (out / "eval_results.txt").read_text().splitlines()
    assert float(dict(line.split(" = ") for line in lines)["eval_accuracy"]) > 0.9
    assert len(predicted(out)[0].splitlines()) == 21
    weights = google_read.read(out)
    learnt = "segments/query" in weights and np.abs(weights["segments/query"]).max() > 0
    assert learnt == (how == "attention")


def test_towers_and_batches_change_no_prediction(
    trained_on, tiny, data, inside, tmp_path
):
    text, shares = predicted(trained_on()[0])
    for number, changed in enumerate(
        ({"n_gpus": 2, "predict_batch_size": 3}, {"n_gpus": 4, "predict_batch_size": 1})
    ):
        out = shutil.copytree(trained_on()[0], tmp_path / str(number))
        args = tiny.flags(out, "own", **LONG, data_dir=data, do_predict=True, **changed)
        code, _, err = inside(args)
        assert code == 0, err
        assert predicted(out)[0] == text
        np.testing.assert_allclose(predicted(out)[1], shares, atol=2e-6)


def test_padding_changes_no_loss(tiny, data, inside, work):
    """Without dropout, whose masks depend on the width; order as in the file."""
    edit_config(work, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    losses = {}
    for padding in ("longest", "max_length"):
        out = work.root / padding
        changed = {"do_train": True, "log_steps": 1, "padding": padding}
        args = work.flags(out, "own", **LONG | {"data_dir": data} | changed)
        code, _, err = inside(args)
        assert code == 0, err
        lines = (out / "metrics.jsonl").open()
        losses[padding] = [json.loads(line)["loss"] for line in lines]
    assert losses["longest"] == pytest.approx(losses["max_length"], abs=2e-5)
    assert len(losses["longest"]) == 24


def test_four_towers_are_one_batch(tiny, inside, tmp_path):
    """Dropout and attention among it, in groups of similar lengths."""
    losses = []
    for towers, size in ((1, 8), (4, 2)):
        out = tmp_path / str(towers)
        changed = {"n_gpus": towers, "train_batch_size": size, "cpu_devices": 2}
        changed |= {"do_train": True, "log_steps": 1, "padding": "bucket"}
        code, _, err = inside(tiny.flags(out, "own", **LONG, **changed))
        assert code == 0, err
        lines = (out / "metrics.jsonl").open()
        losses.append([json.loads(line)["loss"] for line in lines])
    assert len(losses[0]) == 3
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_a_resume_changes_no_bit(tiny, inside, tmp_path):
    args = {**LONG, "do_train": True, "n_gpus": 2, "padding": "pack"}
    args |= {"save_checkpoints_steps": 2, "recompute": "block", "train_batch_size": 2}
    code, _, err = inside(tiny.flags(tmp_path / "straight", "own", **args))
    assert code == 0, err
    broken = shutil.copytree(tmp_path / "straight", tmp_path / "broken")
    for path in broken.glob("model.ckpt-[46]*"):
        path.unlink()
    code, _, err = inside(tiny.flags(broken, "own", **args))
    assert code == 0 and "model.ckpt-2: step 2" in err, err
    wanted, actual = (
        google_read.read(tmp_path / name) for name in ("straight", "broken")
    )
    assert "segments/query/adam_m" in wanted
    for name, value in wanted.items():
        if name != "bert_mgpu/identity":
            assert np.array_equal(actual[name], value), name


def test_the_folder_alone_reads_long_texts(trained_on, tiny, tmp_path):
    """From Python, and as a stream: the segments are the model's."""
    folder = trained_on()[0]
    texts = [
        "the of a in it the " * 2 + word for word in ("sun joy win", "rain loss fear")
    ]
    with bert_mgpu.load(folder) as model:
        labels = [answer.label for answer in model.predict(texts)]
        first, cut_off = model.encode([texts[0], " ".join(texts[0].split()[:6])])
        np.testing.assert_allclose(first, cut_off, atol=1e-5)  # of the first segment
        whole = model.predictor.explain(model.predictor.data.example(texts[0]))
        cut = model.predictor.explain(model.predictor.data.example("sun " + "a " * 20))
    assert labels == ["yes", "no"]
    assert (whole["tokens"], whole["of"], whole["cut"]) == (15, 15, "")
    assert (cut["tokens"], cut["of"], cut["cut"]) == (18, 21, "a a a")
    out = shutil.copytree(folder, tmp_path / "model")
    flags = {"do_predict": True, "predict_file": "-", **ALONE}
    run = process(tiny.flags(out, "own", **flags), stdin=subprocess.PIPE)
    output, err = run.communicate("\n".join(texts) + "\n", 120)
    assert run.returncode == 0, err
    assert [json.loads(line)["label"] for line in output.splitlines()] == labels


def test_odd_segments_are_no_wider_than_they_are(trained_on):
    """Streams pad to powers of two, files to even widths: 7 tokens would be 8."""
    folder = trained_on(max_seq_length=7, max_segments=4, num_train_epochs=1)[0]
    text = " ".join(["sun"] * 5)  # 7 tokens
    with bert_mgpu.load(folder) as model:
        seen = []
        launch = model.predictor.towers.launch_outputs

        def launched(batch):
            seen.append(batch.columns[0]["input_ids"].shape[2])
            return launch(batch)

        model.predictor.towers.launch_outputs = launched
        model.predict(text)
        model.predict(f"{text} {text}")
        settings = dataclasses.replace(model.predictor.settings, streams=False)
        predictor = dataclasses.replace(model.predictor, settings=settings)
        predictor.predict([predictor.data.example(f"{text} " * 3)])
    assert seen == [7, 14, 21]


def test_a_document_of_10000_characters(trained_on):
    """5,000 tokens in 834 segments: none is lost, and the last one counts."""
    flags = {"segment_pooling": "max", "max_segments": 900, "num_train_epochs": 1}
    folder = trained_on(**flags)[0]
    with bert_mgpu.load(folder) as model:
        texts = ["a " * 5000, "a " * 4999 + "sun", "sun " + "a " * 4999]
        whole, end, beginning = (
            answer.record["probabilities"] for answer in model.predict(texts)
        )
        shown = model.predictor.explain(model.predictor.data.example(texts[1]))
        alone = model.predict(texts[1]).record["probabilities"]
    assert (shown["tokens"], shown["of"], shown["cut"]) == (5000, 5000, "")
    assert end != whole != beginning and alone == pytest.approx(end, abs=1e-5)


def test_exports_read_long_texts(trained_on, tiny, data, inside, tmp_path):
    """One for transformers is read back; the others are compared with the run."""
    folder = shutil.copytree(trained_on(segment_pooling="mean")[0], tmp_path / "model")
    hf, served, onnx = (tmp_path / name for name in ("hf", "served", "onnx"))
    flags = {**LONG, "segment_pooling": "mean", "do_predict": True, "export_hf": hf}
    flags["data_dir"] = data
    flags |= {"export_saved_model": served, "export_onnx": onnx}
    code, _, err = inside(tiny.flags(folder, "own", **flags))
    assert code == 0, err
    gaps = re.findall(r"its outputs differ by (\S+)", err)
    assert len(gaps) == 2 and max(map(float, gaps)) < 1e-5
    assert "transformers reads one segment of a text there" in err
    facts = json.loads((served / "bert_mgpu.json").read_text())
    assert (facts["max_seq_length"], facts["max_segments"]) == (8, 3)
    assert facts["doc_stride"] == 6  # none was asked for: they do not overlap
    none = tf.saved_model.load(str(served)).signatures["serving_default"]
    assert none(text_a=tf.constant([], tf.string))["logits"].shape == (0, 2)
    out = tmp_path / "again"
    again = tiny.flags(
        out, "own", **ALONE | {"init_checkpoint": hf, "do_predict": True}
    )
    code, _, err = inside([*again, f"--predict_file={data / 'test.tsv'}"])
    assert code == 0 and "--max_segments=3, as the model was trained" in err, err
    assert predicted(out)[0] == predicted(folder)[0]
    np.testing.assert_allclose(predicted(out)[1], predicted(folder)[1], atol=2e-6)


def test_a_model_of_segments_is_converted(trained_on, data, inside, tiny, tmp_path):
    """With the query of its attention in Google's names; not for transformers."""
    folder, google = trained_on()[0], tmp_path / "google"
    given = [f"--init_checkpoint={folder}"]
    assert convert.main([*given, f"--export_google={google}"]) == 0
    query = "segments/query"
    np.testing.assert_array_equal(
        google_read.read(google)[query], google_read.read(folder)[query]
    )
    assert convert.main([*given, f"--export_hf={tmp_path / 'hf'}"]) == 2
    flags = LONG | NO_FILES | {"init_checkpoint": google, "do_predict": True}
    flags["data_dir"] = data
    code, _, err = inside(tiny.flags(tmp_path / "out", "own", **flags))
    assert code == 0, err
    actual, wanted = predicted(tmp_path / "out"), predicted(folder)
    assert actual[0] == wanted[0]
    np.testing.assert_allclose(actual[1], wanted[1], atol=2e-6)


def test_another_pooling_or_cached_segments_are_not_used(
    trained_on, tiny, data, inside, tmp_path
):
    """Rows that the cache holds are of another --doc_stride."""
    out = shutil.copytree(trained_on()[0], tmp_path / "out")
    flags = {**LONG, "data_dir": data, "do_predict": True}
    result = inside(tiny.flags(out, "own", **flags | {"segment_pooling": "max"}))
    assert_refused(result, "--segment_pooling (was attention, is max)")
    code, _, err = inside(tiny.flags(out, "own", **flags, doc_stride=4))
    assert code == 0, err
    assert not np.array_equal(predicted(out)[1], predicted(trained_on()[0])[1])


def test_segments_that_lose_words_are_not_exported(trained_on, inside, tmp_path):
    """An export reads no rows, whose features are refused."""
    out, served = (
        shutil.copytree(trained_on()[0], tmp_path / "out"),
        tmp_path / "served",
    )
    asked = [f"--output_dir={out}", f"--export_saved_model={served}"]
    result = inside([*asked, "--doc_stride=6", "--max_seq_length=7"])
    assert_refused(result, "--doc_stride=6: a segment has 5 tokens of text")
    assert not served.exists()


@pytest.mark.parametrize(
    ("task", "changed", "fragment"),
    [
        ("mrpc", {}, "--max_segments=3: mrpc has pairs of texts"),
        ("own", {"doc_stride": 7}, "--doc_stride=7: a segment has 6 tokens of text"),
        ("own", {"export_hf": "hf"}, "--export_hf with --segment_pooling=attention"),
        ("own", {"task_type": "tags"}, "the type 'tags' reads long texts in"),
        ("own", {"max_segments": 0}, "--max_segments=0"),
        (
            "own",
            {"max_segments": 1},
            "--segment_pooling=attention does nothing without",
        ),
        (
            "own",
            {"max_segments": 1, "segment_pooling": None, "doc_stride": 4},
            "--doc_stride=4 does nothing without --max_segments",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(work, expect_refused, task, changed, fragment):
    if "task_type" in changed:  # a file of entities
        (work.data("own") / "task.json").unlink()
        for name in ("train", "dev", "test"):
            (work.data("own") / f"{name}.txt").write_text("sun B-X\n\n")
        changed, task = {}, "ner"
        shutil.move(work.data("own"), work.data("ner"))
    expect_refused(work, fragment, task=task, **LONG | changed)


@pytest.mark.parametrize(
    ("kind", "labels", "score"),
    [
        ("multi", {"no": "any", "yes": "any,good"}, "micro_f1"),
        *rarely(("regression", {"no": "-1", "yes": "1"}, "pearson")),
    ],
)
def test_several_labels_and_numbers(tiny, data, inside, tmp_path, kind, labels, score):
    folder = shutil.copytree(data, tmp_path / "data")
    for path in folder.glob("*.tsv"):
        rows = [line.split("\t") for line in path.read_text().splitlines()]
        text = "".join(f"{labels[label]}\t{words}\n" for label, words in rows)
        path.write_text(text)
    (folder / "task.json").write_text(json.dumps(TASK_JSON | {"type": kind}))
    stages = {"do_train": True, "do_eval": True, "do_predict": True}
    out = tmp_path / "out"
    flags = LONG | LEARNS | stages | {"data_dir": folder}
    code, _, err = inside(tiny.flags(out, "own", **flags))
    assert code == 0, err
    lines = (out / "eval_results.txt").read_text().splitlines()
    found = dict(line.split(" = ") for line in lines)
    assert float(found[score]) > 0.9, found
    with bert_mgpu.load(out) as model:
        text = (folder / "test.tsv").read_text().splitlines()[0].split("\t")[1]
        record = model.predict(text).record
    line = json.loads((out / "predictions.jsonl").read_text().splitlines()[0])
    key = "value" if kind == "regression" else "probabilities"
    assert record[key] == pytest.approx(line[key], abs=1e-5)
