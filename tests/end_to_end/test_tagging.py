"""Entities from start to end: files, trainings, predictions, streams, Python."""

import importlib.util
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from seqeval import metrics as seqeval

import bert_mgpu
from bert_mgpu.checkpoints import google_read
from bert_mgpu.tasks.tagging import bio
from tests.support import entities
from tests.support.entities import conll, sentences
from tests.support.processes import process
from tests.support.runs import assert_refused
from tests.support.tiny import BAD, GOOD

FLAGS = {"num_train_epochs": 8, "train_batch_size": 8, "learning_rate": 5e-3}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Folders with the files of both forms; some sentences have several windows."""
    root = tmp_path_factory.mktemp("tags")
    for task in entities.FORMS:
        entities.write_task(root / task, task)
    return root


@pytest.fixture
def flags(tiny, data):
    def make(out, task="ner", **changed):
        return tiny.flags(out, task, **{"data_dir": data / task, **FLAGS, **changed})

    return make


@pytest.fixture
def tagger(flags, inside, tmp_path_factory):
    """tagger(task, **flags) -> the output_dir of a training; made once."""

    def make(task="ner", **changed):
        name = "-".join([task, *(f"{key}={value}" for key, value in changed.items())])
        folder = tmp_path_factory.getbasetemp() / name
        if not folder.exists():
            changed = {"do_train": True, "do_eval": True, "do_predict": True, **changed}
            code, _, err = inside(flags(folder, task, **changed))
            assert code == 0, err
            assert "48 examples (58 rows)" in err and "cut into windows of 16" in err
        return folder

    return make


def scores(out):
    lines = (out / "eval_results.txt").read_text().splitlines()
    return {key: float(value) for key, value in (line.split(" = ") for line in lines)}


@pytest.mark.parametrize("task", ["ner", "cluener"])
def test_entities_are_learnt_and_predicted(tagger, data, task):
    out = tagger(task)
    found = scores(out)
    assert found["f1"] > 0.8 and found["eval_accuracy"] > 0.9
    assert [*found][:4] == ["eval_accuracy", "eval_loss", "global_step", "loss"]
    assert {"precision", "recall", "macro_f1", "weighted_f1"} <= {*found}
    assert (out / "label_list.txt").read_text().split() == [
        *("O", "B-BAD", "I-BAD", "B-GOOD", "I-GOOD")
    ]
    lines = [*sentences(9, 2)]
    predicted = (out / "predict.txt").read_text().splitlines()
    records = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    assert len(predicted) == len(records) == 9
    right = 0
    for line, text, record in zip(lines, predicted, records, strict=True):
        words = " ".join(word for word, _ in line)
        if task == "ner":
            assert len(text.split(" ")) == len(line)
            words = record["text"]
        else:
            assert text == " ".join(
                f"{e['start']}:{e['end']}:{e['type']}" for e in record["entities"]
            )
        for entity in record["entities"]:
            assert words[entity["start"] : entity["end"]] == entity["text"]
            assert 0 < entity["probability"] <= 1
            right += {*entity["text"].split(" ")} <= {*GOOD.split(), *BAD.split()}
    assert right > 9
    blocks = (out / "label_test.txt").read_text().removesuffix("\n\n").split("\n\n")
    tagged = [[row.split(" ") for row in block.splitlines()] for block in blocks]
    assert [[(word, true) for word, true, _ in block] for block in tagged] == lines
    sides = [[[row[at] for row in block] for block in tagged] for at in (1, 2)]
    assert seqeval.f1_score(*sides) > 0.8


def test_a_conditional_random_field(tagger):
    """Learns which tags follow each other, and resumes with what it has learnt."""
    out = tagger(crf=True, n_gpus=2, padding="pack")
    assert scores(out)["f1"] > 0.8


def test_towers_windows_and_paddings_change_no_prediction(
    tagger, inside, flags, tmp_path
):
    wanted = (tagger() / "predict.txt").read_bytes()
    for changed in ({"n_gpus": 3, "predict_batch_size": 2}, {"padding": "max_length"},
                    {"padding": "pack", "predict_batch_size": 5}):  # fmt: skip
        out = shutil.copytree(tagger(), tmp_path / str(len([*tmp_path.iterdir()])))
        code, _, err = inside(flags(out, do_predict=True, **changed))
        assert code == 0, err
        assert (out / "predict.txt").read_bytes() == wanted


def test_the_best_weights_are_those_of_the_highest_f1(tagger):
    """Beside the floor of the training set's entities."""
    out = tagger("cluener", eval_steps=9, report=True)
    history = [json.loads(line) for line in (out / "evaluations.jsonl").open()]
    best = json.loads((out / "best" / "best.json").read_text())
    assert best["metric"] == "f1" and best["value"] == max(h["f1"] for h in history)
    floor = json.loads((out / "baseline.json").read_text())["dev"]
    assert 0 < floor["f1"] < 1
    page = (out / "report.html").read_text()
    assert "border and type" in page and "worst sentences" in page


def test_the_folder_alone_predicts(tagger, inside, tmp_path):
    """Files of words, bare texts, a stream, one text, and from Python."""
    out = shutil.copytree(tagger(), tmp_path / "alone")
    args = [f"--output_dir={out}", "--xla=off"]
    code, screen, err = inside([*args, "--predict_text=sun joy the rain"])
    assert code == 0, err
    found = [words.rpartition(" ") for words in screen.splitlines()[0].split(", ")]
    assert " ".join(text for text, _, _ in found) == "sun joy rain"
    assert [kind for _, _, kind in found] == ["GOOD"] * (len(found) - 1) + ["BAD"]
    file = tmp_path / "new.txt"
    file.write_text("sun joy the rain\n\nthe\n")
    code, _, err = inside([*args, "--do_predict=true", f"--predict_file={file}"])
    assert code == 0, err
    first, *rest = (out / "predict.txt").read_text().splitlines()
    assert first.startswith("0:") and first.endswith(" 12:16:BAD") and rest == ["", ""]
    file.write_text("sun joy O\nthe rain\n")  # a text that ends as a tag does
    code, _, err = inside([*args, "--do_predict=true", f"--predict_file={file}"])
    assert code == 0 and len((out / "predict.txt").read_text().splitlines()) == 2
    file.write_text("sun O\njoy I-GOOD\n\nrain B-BAD\n")  # an orphan
    code, _, err = inside([*args, "--do_predict=true", f"--predict_file={file}"])
    assert code == 0 and f"as some rows have none: {file}:2: 'I-GOOD' without" in err
    tagged = (out / "label_test.txt").read_text().splitlines()
    assert [len(line.split(" ")) for line in tagged if line] == [2, 2, 2]
    rows = [{"text": "sun joy the rain"}, {"text_a": "the"}, {"text": "rain"}]
    file = tmp_path / "new.jsonl"
    for some, wanted in ((rows[:1] + rows[2:], 2), (rows[1:2], 1),
                         ([{"tokens": ["sun", "the", "rain"]}], 1)):  # fmt: skip
        file.write_text("".join(json.dumps(row) + "\n" for row in some))
        code, _, err = inside([*args, "--do_predict=true", f"--predict_file={file}"])
        assert code == 0, err
        lines = (out / "predict.txt").read_text().splitlines()
        assert len(lines) == wanted
    assert lines == ["B-GOOD O B-BAD"]  # of words
    file = tmp_path / "new.txt"
    wrong = [*args, "--predict_text=sun", "--tag_scheme=bioes"]
    assert_refused(inside(wrong), "--tag_scheme=bioes: the trained model has bio")
    for lines, more in (
        (["sun O", "joy O", "", "rain B-BAD"], []),
        (["sun", "joy", "", "rain"], ["--predict_format=conll"]),
    ):
        file.write_text("".join(f"{line}\n" for line in lines))
        made = [*args, "--do_predict=true", f"--predict_file={file}", *more]
        code, _, err = inside(made)
        assert code == 0, err
        first, second = (out / "predict.txt").read_text().splitlines()
        assert len(first.split(" ")) == 2 and second == "B-BAD"
    with bert_mgpu.load(out) as model:
        one = model.predict("sun joy the rain")
        assert [entity["type"] for entity in one.entities][-2:] == ["GOOD", "BAD"]
        assert one.entities[-1]["text"] == "rain"
        assert model.predict("the").entities == []


MISTAKES = {
    "orphan": ("sun O\njoy I-GOOD\n", {}, "train.txt:2: 'I-GOOD' without a B-GOOD"),
    "no entity": ("sun O\n", {}, "no entity in any row: nothing to learn"),
    "columns": ("sun\n", {}, "train.txt:1: 1 column, but 2 are needed"),
}


@pytest.mark.parametrize("name", [*MISTAKES])
def test_mistakes_in_the_data(flags, inside, tmp_path, name):
    text, changed, fragment = MISTAKES[name]
    (tmp_path / "data").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "data" / f"{split}.txt").write_text(text)
    changed = {"data_dir": tmp_path / "data", "do_train": True, **changed}
    out = tmp_path / "out"
    assert_refused(inside(flags(out, **changed)), fragment)
    assert not [*out.glob("model.ckpt*")]


def test_repairs_are_logged_and_belong_to_the_run(flags, inside, tmp_path, data):
    """A run goes on only with the same repair."""
    folder = shutil.copytree(data / "ner", tmp_path / "data")
    (folder / "train.txt").write_text("sun I-GOOD\n\n" * 8)
    out = tmp_path / "out"
    args = {"data_dir": folder, "do_train": True, "repair_bio": "begin"}
    code, _, err = inside(flags(out, **args))
    assert code == 0 and "8 tags or spans repaired (--repair_bio)" in err
    changed = {**args, "repair_bio": "outside", "num_train_epochs": 9}
    assert_refused(inside(flags(out, **changed)), "no entity in any row")
    (folder / "train.txt").write_text("sun I-GOOD\njoy B-GOOD\n\n" * 8)
    assert_refused(inside(flags(out, **changed)), "repair_bio")


def test_exports_and_conversions_predict_the_same(tagger, flags, inside, tmp_path):
    """The folder for transformers, and what `convert` makes of it."""
    from bert_mgpu.cli import convert

    out = tagger()
    code, _, err = inside(flags(out, do_predict=True, export_hf=tmp_path / "hf"))
    assert code == 0, err
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["architectures"] == ["BertForTokenClassification"]
    assert config["id2label"]["1"] == "B-BAD"
    made = [
        f"--init_checkpoint={tmp_path / 'hf'}",
        f"--export_google={tmp_path / 'google'}",
    ]
    assert convert.main(made) == 0
    asked = ["sun joy the rain", "the of", "win"]
    with bert_mgpu.load(out) as model:
        wanted = model.predict(asked)
    for folder in ("hf", "google"):
        with bert_mgpu.load(tmp_path / folder) as model:
            assert model.predict(asked) == wanted


@pytest.mark.parametrize("task", ["ner", "cluener"])
def test_a_saved_model_tags_as_the_run(tagger, flags, inside, data, tmp_path, task):
    """Texts of one row; of longer ones it says that they are cut. ONNX gives logits."""
    out = shutil.copytree(tagger(task), tmp_path / "out")
    asked = {"do_predict": True, "export_saved_model": tmp_path / "served"}
    if importlib.util.find_spec("tf2onnx"):
        asked["export_onnx"] = tmp_path / "onnx"
    code, _, err = inside(flags(out, task, **asked))
    assert code == 0, err
    gaps = re.findall("given the ids of 9 examples, its outputs differ by (.+)", err)
    assert len(gaps) == len(asked) - 1 and all(float(gap) < 1e-5 for gap in gaps)
    records = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    texts = [" ".join(word for word, _ in line) for line in sentences(9, 2)]
    texts = [own.get("text", text) for own, text in zip(records, texts, strict=True)]
    served = tf.saved_model.load(str(tmp_path / "served"))
    answers = served.signatures["serving_default"](text_a=tf.constant(texts))
    answers = {name: value.numpy() for name, value in answers.items()}
    compared = 0
    for number, record in enumerate(records):
        if answers["truncated"][number]:
            continue
        tags = [tag.decode() for tag in answers["tags"][number] if tag]
        places = [answers[name][number] for name in ("starts", "ends", "probabilities")]
        found = [
            [int(places[0][span.start]), int(places[1][span.end - 1]), span.type,
             pytest.approx(min(places[2][span.start : span.end]), abs=1e-5)]
            for span in bio.read_spans(tags, "bio").spans
        ]  # fmt: skip
        wanted = record["entities"]
        names = ("start", "end", "type", "probability")
        assert [[one[name] for name in names] for one in wanted] == found
        compared += len(found)
    assert compared > 5 and answers["truncated"].any()


def test_a_field_is_not_exported(tagger, flags, inside, tmp_path):
    """For transformers; Google's format keeps it."""
    from bert_mgpu.cli import convert

    asked = {"crf": True, "do_train": True, "export_hf": tmp_path / "hf"}
    assert_refused(inside(flags(tmp_path / "out", **asked)), "no conditional random")
    out = tagger(crf=True, n_gpus=2, padding="pack")
    made = [f"--init_checkpoint={out}", f"--export_hf={tmp_path / 'hf'}"]
    assert convert.main(made) == 2 and not (tmp_path / "hf").exists()
    made[1] = f"--export_google={tmp_path / 'google'}"
    assert convert.main(made) == 0
    with (
        bert_mgpu.load(out) as one,
        bert_mgpu.load(tmp_path / "google") as other,
    ):
        assert one.predict("sun joy the rain") == other.predict("sun joy the rain")


def test_a_stride_beyond_the_row_is_refused(flags, inside, tmp_path):
    asked = {"do_train": True, "doc_stride": 15}
    assert_refused(inside(flags(tmp_path / "out", **asked)), "pass at most that")


@pytest.mark.parametrize("crf", [False, True])
def test_four_towers_are_one_batch(flags, inside, tmp_path, crf):
    """The same rows and masks, whichever tower has them; losses by all units."""
    losses = []
    for towers, size in ((1, 8), (4, 2)):
        out = tmp_path / str(towers)
        changed = {"n_gpus": towers, "train_batch_size": size, "cpu_devices": 2}
        changed |= {"do_train": True, "log_steps": 1, "num_train_epochs": 2}
        code, _, err = inside(flags(out, crf=crf, **changed))
        assert code == 0, err
        lines = (out / "metrics.jsonl").open()
        losses.append([json.loads(line)["loss"] for line in lines])
    assert len(losses[0]) > 10
    assert losses[0] == pytest.approx(losses[1], abs=2e-4)


def test_a_resume_changes_no_bit(flags, inside, tmp_path):
    """With a random field, whose slots are saved like others."""
    args = {"crf": True, "do_train": True, "head_lr_factor": 10, "n_gpus": 2}
    args |= {"save_checkpoints_steps": 5, "keep_checkpoint_max": 20}
    code, _, err = inside(flags(tmp_path / "straight", **args))
    assert code == 0, err
    broken = shutil.copytree(tmp_path / "straight", tmp_path / "broken")
    for path in broken.glob("model.ckpt-*"):
        if int(path.name.split("-")[1].split(".")[0]) > 10:
            path.unlink()
    code, _, err = inside(flags(broken, **args))
    assert code == 0 and "model.ckpt-10: step 10" in err, err
    wanted, actual = (
        google_read.read(tmp_path / name) for name in ("straight", "broken")
    )
    assert {"crf/follow", "crf/follow/adam_m"} <= {*wanted}
    assert np.abs(wanted["crf/follow"]).max() > 1e-3  # it has learnt
    for name, value in wanted.items():
        if name != "bert_mgpu/identity":
            assert np.array_equal(actual[name], value), name


@pytest.mark.parametrize("sent", ["sun O\njoy O\n\nrain O\n\n", "sun joy\nrain\n"])
def test_a_stream_of_words_or_texts(tagger, tiny, tmp_path, sent):
    """A sentence of words is answered at its blank line, a text at its end."""
    out = shutil.copytree(tagger(), tmp_path / "model")
    flags = {"do_predict": True, "predict_file": "-", "data_dir": None}
    flags |= {"vocab_file": None, "bert_config_file": None, "init_checkpoint": None}
    run = process(tiny.flags(out, "ner", **flags), stdin=subprocess.PIPE)
    output, err = run.communicate(sent, 120)
    assert run.returncode == 0, err
    first, second = map(json.loads, output.splitlines())
    assert [entity["text"] for entity in second["entities"]] == ["rain"]
    assert " ".join(entity["text"] for entity in first["entities"]) == "sun joy"
    assert ("text" in first) == ("O" in sent)


def test_the_pattern_of_words_is_not_that_of_texts(flags, inside, tmp_path):
    """Training files have `sun0`, texts to predict have not; nor have their words."""
    data = tmp_path / "data"
    data.mkdir()
    lines = conll(
        [(f"{word}0", tag) for word, tag in line] for line in sentences(24, 1)
    )
    (data / "train.txt").write_text(lines)
    task = {"type": "tags", "train": "train.txt", "token_pattern": "(.+)[0-9]"}
    (data / "task.json").write_text(json.dumps(task))
    out, new = tmp_path / "out", tmp_path / "new.txt"
    code, _, err = inside(flags(out, "mine", data_dir=data, do_train=True))
    assert code == 0, err
    new.write_text("sun joy\nthe rain\n")
    words = tmp_path / "words.jsonl"
    words.write_text('{"tokens": ["sun", "joy"]}\n{"tokens": ["rain"]}\n')
    args = [f"--output_dir={out}", "--xla=off", "--do_predict=true"]
    for file, more in ((new, []), (new, ["--predict_format=text"]), (words, [])):
        code, _, err = inside([*args, f"--predict_file={file}", *more])
        assert code == 0, err
        assert len((out / "predict.txt").read_text().splitlines()) == 2


def test_a_share_of_the_training_file_is_the_dev_set(flags, data, inside, tmp_path):
    """The entities of a text are no labels by which it is divided."""
    (tmp_path / "data").mkdir()
    shutil.copy(data / "ner" / "train.txt", tmp_path / "data" / "train.txt")
    task = {"type": "tags", "train": "train.txt"}
    (tmp_path / "data" / "task.json").write_text(json.dumps(task))
    asked = {"data_dir": tmp_path / "data", "do_train": True, "do_eval": True}
    asked |= {"dev_share": 0.25, "num_train_epochs": 1}
    code, _, err = inside(flags(tmp_path / "out", "mine", **asked))
    assert code == 0, err
    assert "train: 36 examples" in err and "dev: 12 examples" in err
