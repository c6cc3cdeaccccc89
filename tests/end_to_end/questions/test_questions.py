"""Answers from start to end: files, trainings, predictions, streams, exports."""

import json
import shutil
import subprocess

import numpy as np
import PIL.Image
import pytest

import bert_mgpu
from bert_mgpu.checkpoints import google_read
from bert_mgpu.cli import run_squad
from tests.support.processes import process
from tests.support.questions import small
from tests.support.runs import assert_refused

FILES = ("predict.txt", "predictions.json", "nbest_predictions.json")


def scores(out):
    lines = (out / "eval_results.txt").read_text().splitlines()
    return {key: float(value) for key, value in (line.split(" = ") for line in lines)}


@pytest.mark.parametrize("task", ["squad", "squad2"])
def test_answers_are_learnt_and_predicted(answerer, data, task):
    out, negative = answerer(task), task == "squad2"
    found = scores(out)
    assert found["exact" if negative else "exact_match"] > 80 and found["f1"] > 80
    assert [*found][:3] == ["eval_loss", "global_step", "loss"]
    entries = small(21, 2, 0.4 * negative)["data"][0]["paragraphs"]
    lines = (out / "predict.txt").read_text().removesuffix("\n").split("\n")
    records = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    chosen = json.loads((out / "predictions.json").read_text())
    lists = json.loads((out / "nbest_predictions.json").read_text())
    assert len(lines) == len(records) == len(chosen) == len(lists) == 21
    for entry, line, record in zip(entries, lines, records, strict=True):
        name = entry["qas"][0]["id"]
        assert record["id"] == name and chosen[name] == line
        assert lists[name] and (negative or lists[name][0]["text"] == line)
        if record["start"] is not None:
            text = entry["context"][record["start"] : record["end"]]
            assert text == record["answer"] and " ".join(text.split()) == line
        else:
            assert line == "" == record["answer"]
    assert (out / "null_odds.json").exists() == negative
    if negative:
        assert {"HasAns_f1", "NoAns_exact", "best_f1_thresh"} <= {*found}
    rows = (out / "test_results.tsv").read_text().splitlines()
    assert all(len(row.split("\t")) == 3 for row in rows) and len(rows) == 21


def test_towers_and_paddings_change_no_prediction(answerer, inside, flags, tmp_path):
    wanted = [(answerer() / name).read_bytes() for name in FILES[:2]]
    for changed in (
        {"n_gpus": 3, "predict_batch_size": 2},
        {"padding": "max_length"},
        {"n_gpus": 4, "padding": "pack", "predict_batch_size": 5},
    ):
        out = shutil.copytree(answerer(), tmp_path / str(len([*tmp_path.iterdir()])))
        code, _, err = inside(flags(out, do_predict=True, **changed))
        assert code == 0, err
        assert [(out / name).read_bytes() for name in FILES[:2]] == wanted


def test_four_towers_are_one_batch(flags, inside, tmp_path):
    losses = []
    for towers, size in ((1, 8), (4, 2)):
        out = tmp_path / str(towers)
        changed = {"n_gpus": towers, "train_batch_size": size, "cpu_devices": 2}
        changed |= {"do_train": True, "log_steps": 1, "num_train_epochs": 1}
        code, _, err = inside(flags(out, **changed))
        assert code == 0, err
        lines = (out / "metrics.jsonl").open()
        losses.append([json.loads(line)["loss"] for line in lines])
    assert len(losses[0]) > 10
    assert losses[0] == pytest.approx(losses[1], abs=2e-4)


def test_a_resume_changes_no_bit(flags, inside, tmp_path):
    args = {"do_train": True, "n_gpus": 2, "padding": "pack", "num_train_epochs": 2}
    args |= {"save_checkpoints_steps": 5, "keep_checkpoint_max": 20}
    code, _, err = inside(flags(tmp_path / "straight", **args))
    assert code == 0, err
    broken = shutil.copytree(tmp_path / "straight", tmp_path / "broken")
    for path in broken.glob("model.ckpt-*"):
        if int(path.name.split("-")[1].split(".")[0]) > 5:
            path.unlink()
    code, _, err = inside(flags(broken, **args))
    assert code == 0 and "model.ckpt-5: step 5" in err, err
    wanted, actual = (
        google_read.read(tmp_path / name) for name in ("straight", "broken")
    )
    assert "cls/squad/output_weights/adam_m" in wanted
    for name, value in wanted.items():
        if name != "bert_mgpu/identity":
            assert np.array_equal(actual[name], value), name


def test_the_folder_alone_predicts(answerer, inside, tmp_path):
    """One question, files of several forms, and from Python."""
    out = shutil.copytree(answerer(), tmp_path / "alone")
    args = [f"--output_dir={out}", "--xla=off"]
    context = "the of sun it a"
    asked = ["--predict_text=it", f"--predict_text_b={context}"]
    code, screen, err = inside([*args, *asked])
    assert code == 0 and screen.startswith("sun"), err
    record = {"question": "it", "context": context}
    nested = {"data": [{"paragraphs": [{"context": context, "qas": [
        {"id": "n", "question": "it"}]}]}]}  # fmt: skip
    for name, text in (
        ("new.jsonl", json.dumps(record) + "\n" + json.dumps(record) + "\n"),
        ("new.json", json.dumps(nested)),
        ("new.txt", f"it\t{context}\n"),
    ):
        (tmp_path / name).write_text(text)
        made = [*args, "--do_predict=true", f"--predict_file={tmp_path / name}"]
        code, _, err = inside(made)
        assert code == 0, err
        lines = (out / "predict.txt").read_text().splitlines()
        assert lines == ["sun"] * text.count(context)
    with bert_mgpu.load(out) as model:
        one = model.predict(("it", context))
        assert (one.answer, context[one.start : one.end]) == ("sun", "sun")


def test_questions_without_ids_and_questions_that_are_no_text(
    answerer, inside, tmp_path
):
    """JSON lines need no id to be answered, whatever their file is called."""
    out = shutil.copytree(answerer(), tmp_path / "alone")
    record = {"question": "it", "context": "the of sun it a"}
    said = {}
    for name in ("new.json", "new.jsonl"):
        lines = [json.dumps(record), json.dumps({**record, "answers": []}), ""]
        (tmp_path / name).write_text("\n".join(lines))
        made = [f"--output_dir={out}", f"--predict_file={tmp_path / name}", "--xla=off"]
        code, _, err = inside([*made, "--do_predict=true"])
        assert code == 0, err
        assert (out / "predict.txt").read_text() == "sun\nsun\n"
        records = [json.loads(line) for line in (out / "predictions.jsonl").open()]
        assert len({one.pop("id") for one in records}) == 2
        said[name] = records
    assert said["new.json"] == said["new.jsonl"]
    for key, words in (("question", ["it", "of"]), ("context", ["the", "sun"])):
        (tmp_path / "words.jsonl").write_text(json.dumps({**record, key: words}) + "\n")
        made = [f"--output_dir={out}", f"--predict_file={tmp_path / 'words.jsonl'}"]
        assert_refused(
            inside([*made, "--do_predict=true", "--xla=off"]),
            f"words.jsonl:1: column '{key}' is a list, {words}: pass one text",
        )


def test_a_stream_of_questions(answerer, tiny, tmp_path):
    out = shutil.copytree(answerer("squad2"), tmp_path / "model")
    flags = {"do_predict": True, "predict_file": "-", "data_dir": None}
    flags |= {"vocab_file": None, "bert_config_file": None, "init_checkpoint": None}
    flags |= {"max_seq_length": None, "train_batch_size": None}
    run = process(tiny.flags(out, "squad2", **flags), stdin=subprocess.PIPE)
    asked = [
        {"id": "one", "question": "it", "context": "the of loss a"},
        {"id": "two", "question": "it", "context": "the of a"},
    ]
    output, err = run.communicate("".join(json.dumps(q) + "\n" for q in asked), 120)
    assert run.returncode == 0, err
    first, second = map(json.loads, output.splitlines())
    assert (first["id"], first["answer"], first["start"]) == ("one", "loss", 7)
    assert (second["id"], second["answer"], second["start"]) == ("two", "", None)


def test_questions_with_one_id(answerer, inside, tmp_path):
    """From Python none has an id; those of a file would hide each other's answers."""
    out = shutil.copytree(answerer("squad2"), tmp_path / "model")
    with bert_mgpu.load(out) as model:
        first, second = model.predict([("it", "the of loss a"), ("it", "the of a")])
    assert (first.answer, second.answer) == ("loss", "")
    record = {"question": "it", "context": "the of a"}
    lines = [json.dumps({"id": own, **record}) for own in (1, "1")]
    (tmp_path / "new.jsonl").write_text("\n".join(lines))
    made = [f"--output_dir={out}", f"--predict_file={tmp_path / 'new.jsonl'}"]
    assert_refused(
        inside([*made, "--do_predict=true", "--xla=off"]),
        "new.jsonl:2: the id '1' is that of line 1, too",
    )


@pytest.mark.parametrize("chosen", [0.25, -1e6])
def test_a_report_has_the_curve_of_thresholds(
    answerer, flags, inside, tmp_path, chosen
):
    out = shutil.copytree(answerer("squad2"), tmp_path / "out")
    asked = {"do_eval": True, "report": True, "null_score_diff_threshold": chosen}
    code, _, err = inside(flags(out, "squad2", **asked))
    assert code == 0, err
    page = (out / "report.html").read_text()
    assert page.count('alt="exact and f1 over --null_score_diff_threshold"') == 1
    with PIL.Image.open(out / "report" / "thresholds_dev.png") as picture:
        assert picture.size[0] > 800
        colours = {
            tuple(own[:3]) for own in np.asarray(picture).reshape(-1, 4).tolist()
        }
        # The two lines, and the dashed one.
        assert {(31, 119, 180), (255, 127, 14), (77, 77, 77)} <= colours


def test_exports_for_transformers_and_google(answerer, flags, inside, tmp_path):
    from bert_mgpu.cli import convert

    out = shutil.copytree(answerer(), tmp_path / "out")
    code, _, err = inside(flags(out, do_predict=True, export_hf=tmp_path / "hf"))
    assert code == 0, err
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["architectures"] == ["BertForQuestionAnswering"]
    made = [f"--init_checkpoint={tmp_path / 'hf'}"]
    assert convert.main([*made, f"--export_google={tmp_path / 'google'}"]) == 0
    made = [f"--init_checkpoint={out}", f"--export_hf={tmp_path / 'converted'}"]
    assert convert.main(made) == 0
    asked = [("it", "the of sun a"), ("it", "rain of")]
    with bert_mgpu.load(out) as model:
        wanted = model.predict(asked)
    assert [one.answer for one in wanted] == ["sun", "rain"]
    for folder in ("hf", "google", "converted"):
        with bert_mgpu.load(tmp_path / folder) as model:
            assert model.predict(asked) == wanted


def changed(**answer):
    value = small(8, 1)
    question = value["data"][0]["paragraphs"][3]["qas"][0]
    question["answers"] = [{**question["answers"][0], **answer}]
    return value


MISTAKES = {
    "no answer": (small(8, 1, 0.9), "needs --version_2_with_negative=true"),
    "an offset as text": (changed(answer_start="4"), "answer_start is '4'"),
    "an empty answer": (changed(text=""), "the answer '' is empty"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_the_data(flags, inside, tmp_path, name):
    value, fragment = MISTAKES[name]
    (tmp_path / "data").mkdir()
    for part in ("train", "dev"):
        text = json.dumps(value, indent=1)
        (tmp_path / "data" / f"{part}-v1.1.json").write_text(text)
    out = tmp_path / "out"
    asked = flags(out, data_dir=tmp_path / "data", do_train=True)
    assert_refused(inside(asked), fragment)
    assert not [*out.glob("model.ckpt*")]


def test_misplaced_answers_are_named(flags, inside, tmp_path, data):
    folder = shutil.copytree(data / "squad", tmp_path / "data")
    value = small(64, 1)
    for index in (3, 5):
        value["data"][0]["paragraphs"][index]["qas"][0]["answers"][0][
            "answer_start"
        ] += 1
    value["data"][0]["paragraphs"][7]["qas"][0]["answers"] = [
        {"text": "the fear of", "answer_start": 0}
    ]
    (folder / "train-v1.1.json").write_text(json.dumps(value))
    out = tmp_path / "out"
    asked = {"data_dir": folder, "do_train": True, "num_train_epochs": 1}
    code, _, err = inside(flags(out, **asked))
    assert code == 0, err
    assert "3 of 64 answers are not at their place" in err
    assert "q1-3: the answer" in err and ", off by one" in err
    assert "1 question whose answers are not in the context" in err


def test_a_stride_beyond_the_row_is_refused(flags, inside, tmp_path):
    asked = {"do_train": True, "doc_stride": 22}
    assert_refused(inside(flags(tmp_path / "out", **asked)), "pass at most 21")


def test_the_default_stride_goes_on_in_a_short_row(flags, started, tmp_path):
    """As in run_squad.py, whose default is 128."""
    asked = flags(tmp_path / "out", do_train=True, num_train_epochs=1)
    asked = [flag for flag in asked if not flag.startswith("--doc_stride")]
    code, _, err = started(run_squad.main, asked)
    assert code == 0, err
    assert "windows of a context do not overlap: --doc_stride=128" in err


def test_a_share_of_the_training_file_has_its_own_contexts(flags, inside, tmp_path):
    paragraphs = small(12, 1)["data"][0]["paragraphs"]
    for number, paragraph in enumerate(paragraphs):
        first = paragraph["qas"][0]
        paragraph["qas"] = [
            {**first, "id": f"{number}-{index}", "question": question}
            for index, question in enumerate(("it", "the it", "it of"))
        ]
    (tmp_path / "data").mkdir()
    value = {"data": [{"paragraphs": paragraphs}]}
    (tmp_path / "data" / "train.json").write_text(json.dumps(value))
    task = {"type": "qa", "train": "train.json"}
    (tmp_path / "data" / "task.json").write_text(json.dumps(task))
    asked = {"data_dir": tmp_path / "data", "do_train": True, "do_eval": True}
    asked |= {"dev_share": 0.25, "num_train_epochs": 1}
    code, _, err = inside(flags(tmp_path / "out", "mine", **asked))
    assert code == 0, err
    assert "train  27 examples" in err and "dev  9 examples" in err
