"""A family of one's own: everything that a run does works for it."""

import json
import re
import shutil

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read
from bert_mgpu.cli import convert
from bert_mgpu.cli.doctor import environment
from bert_mgpu.config import base, finetuning
from bert_mgpu.config.span_qa import Choice
from bert_mgpu.core.rows import Features
from bert_mgpu.data import tables
from bert_mgpu.tasks import registry
from bert_mgpu.tasks.classification.problem_types import PROBLEM_TYPES
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.tasks.span_qa.task import SpanQa
from bert_mgpu.tasks.tagging.task import Tagging
from bert_mgpu.tasks.task_json import TaskType
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.pointing.family import Pointing
from tests.support.rewriting import rewriting
from tests.support.runs import assert_refused
from tests.support.standard_input import typed
from tests.support.tiny import rows, small_config

TASK_JSON = {
    "train": "train.tsv",
    "dev": "dev.tsv",
    "test": "test.tsv",
    "type": "pointing",
    "text_a": 1,
    "label": 0,
}
FLAGS = {"num_train_epochs": 20, "train_batch_size": 8, "max_seq_length": 18}


def longest(text):
    return max(text.split(), key=len)


def test_help_names_every_type_and_format():
    flags = {field.name: field for field in base.fields(finetuning.FinetuneConfig)}
    for name, wanted in {
        "task_type": registry.TYPES,
        "file_format": tables.FORMATS,
    }.items():
        words = re.findall(r"\w+", flags[name].metadata["help"])
        assert {*wanted} <= {*words}, name


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pointing")
    (folder / "task.json").write_text(json.dumps(TASK_JSON))
    for seed, (name, count) in enumerate({"train": 48, "dev": 13, "test": 11}.items()):
        lines = [f"{longest(a)}\t{a}\n" for _, a, _ in rows(count, seed)]
        (folder / f"{name}.tsv").write_text("".join(lines))
    return folder


@pytest.fixture
def flags(tiny, data, monkeypatch):
    kind = TaskType("tests.support.pointing.family", names_labels=False)
    monkeypatch.setitem(registry.TYPES, "pointing", kind)

    def make(out, **changed):
        return tiny.flags(out, "points", data_dir=data, **{**FLAGS, **changed})

    return make


@pytest.fixture
def out(flags, inside, data, tmp_path_factory):
    """The output_dir of a run that did all that it can; made once."""
    folder = tmp_path_factory.getbasetemp() / "pointed"
    if not folder.exists():
        asked = {
            **dict.fromkeys(("do_train", "do_eval", "do_predict", "report"), True),
            "eval_steps": 20,
            "eval_files": f"seen={data / 'train.tsv'}",
            "export_saved_model": f"{folder}-served",
            "export_hf": f"{folder}-hf",
        }
        code, _, err = inside(flags(folder, **asked))
        assert code == 0, err
        (folder / "said").write_text(err)
    return folder


def results_of(path):
    lines = (line.split(" = ") for line in path.read_text().splitlines())
    return {name: float(value) for name, value in lines}


def test_trains_evaluates_and_predicts(out, data):
    assert "the first word, dev: eval_accuracy" in (out / "said").read_text()
    losses = [json.loads(line)["loss"] for line in (out / "metrics.jsonl").open()]
    assert losses[-1] < 0.75 * losses[0]
    assert (out / "eval_results_seen.txt").exists()
    results = results_of(out / "eval_results.txt")
    assert [*results][:4] == ["eval_accuracy", "eval_loss", "global_step", "loss"]
    best = json.loads((out / "best" / "best.json").read_text())
    assert best["metric"] == "eval_accuracy"
    texts = [line.split("\t")[1] for line in (data / "test.tsv").open()]
    answers = (out / "predict.txt").read_text().splitlines()
    assert len(answers) == len(texts)
    pairs = zip(answers, texts, strict=True)
    assert all(word in text.split() for word, text in pairs)
    lines = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    assert [line["value"] for line in lines] == answers


def test_best_weights_several_files_and_a_stream(out, data, flags, inside, tmp_path):
    copy = tmp_path / "out"
    shutil.copytree(out, copy)
    code, _, err = inside(flags(copy, do_eval=True, use_best=True))
    best = json.loads((copy / "best" / "best.json").read_text())["value"]
    accuracy = results_of(copy / "eval_results.txt")["eval_accuracy"]
    assert code == 0 and accuracy == best, err
    names = f"{data / 'test.tsv'},{data / 'dev.tsv'}"
    code, _, err = inside(
        flags(copy, do_predict=True, use_best=True, predict_file=names)
    )
    assert code == 0, err
    wanted = (copy / "predicted" / "test.tsv" / "predict.txt").read_text().splitlines()
    words = (copy / "predicted" / "dev.tsv" / "predict.txt").read_text().splitlines()
    truth = [line.split("\t")[0] for line in (data / "dev.tsv").open()]
    hits = [word == true for word, true in zip(words, truth, strict=True)]
    assert sum(hits) / len(hits) == pytest.approx(accuracy)
    with typed(data / "test.tsv"):
        code, answers, err = inside(
            flags(copy, do_predict=True, use_best=True, predict_file="-")
        )
    assert code == 0, err
    assert [json.loads(line)["value"] for line in answers.splitlines()] == wanted


def test_report_and_exports(out, tmp_path, capfd):
    output = (out / "said").read_text()
    far = re.search(
        r"given the texts of 11 examples, its outputs differ by (\S+)", output
    )[1]
    assert float(far) < 1e-5
    report = (out / "report.html").read_text()
    assert (
        "points: " in report
        and "dev eval_accuracy" in report
        and "the first word" in report
    )
    served = out.with_name("pointed-served")
    assert json.loads((served / "bert_mgpu.json").read_text())["type"] == "pointing"
    args = [f"--init_checkpoint={out}", f"--export_google={tmp_path / 'google'}"]
    assert convert.main(args) == 0
    shown = capfd.readouterr().out
    assert "left out, as they are not BERT's: pointing/" in shown
    assert "largest difference: hidden states 0.0e+00" in shown


def test_plan_seeds_and_the_doctor(flags, inside, tiny, data, tmp_path, capfd):
    code, _, err = inside(flags(tmp_path / "plan", do_train=True, plan=True))
    assert code == 0 and "parameters" in err, err
    some = {"do_train": True, "do_eval": True, "num_train_epochs": 1}
    code, _, err = inside(flags(tmp_path / "seeds", seeds=2, **some))
    assert code == 0, err
    scores = json.loads((tmp_path / "seeds" / "seeds.json").read_text())["scores"]
    assert {"eval_accuracy", "eval_loss"} <= {*scores["dev"]}
    args = ["--task_name=points", f"--data_dir={data}"]
    args += [f"--vocab_file={tiny.model / 'vocab.txt'}", "--max_seq_length=18"]
    capfd.readouterr()
    assert environment.main(["data", *args]) == 0
    assert "have at most (tokens)" in capfd.readouterr().out


def test_a_resume_knows_the_family(out, flags, inside, tiny, data, tmp_path):
    copy = tmp_path / "out"
    shutil.copytree(out, copy)
    code, _, err = inside(flags(copy, do_train=True))
    assert code == 0 and "nothing left to train" in err, err
    assert "pointing/output_weights" in google_read.read(copy)
    other = [flag for flag in flags(copy, do_predict=True) if "data_dir" not in flag]
    other += [f"--data_dir={tiny.data('own')}"]
    assert_refused(inside(other), "task_type")


def test_what_stands_in_task_json_of_other_types_is_refused(
    flags, inside, tmp_path, data
):
    folder = tmp_path / "data"
    shutil.copytree(data, folder)
    task = {**TASK_JSON, "labels": ["a", "b"]}
    (folder / "task.json").write_text(json.dumps(task))
    args = [f for f in flags(tmp_path / "out", do_train=True) if "data_dir" not in f]
    assert_refused(inside([*args, f"--data_dir={folder}"]), "labels", "'pointing'")


def test_the_table_names_transformers_types():
    named = {name: one.huggingface_problem_type for name, one in registry.TYPES.items()}
    own = "tags", "qa", "rewrite"  # with classes of their own, or none
    assert [named.pop(name) for name in own] == [None] * 3
    assert named == {
        name: kind.huggingface_problem_type for name, kind in PROBLEM_TYPES.items()
    }


def test_an_export_that_could_not_be_compared_is_refused(flags, inside, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pointing, "answers", lambda self, outputs: {})
        asked = {"do_train": True, "num_train_epochs": 1}
        asked["export_saved_model"] = tmp_path / "served"
        code, _, err = inside(flags(tmp_path / "out", **asked))
    assert code == 1 and "answers() of points has none of ['logits']" in err


def test_the_best_loss_of_every_type_is_the_lowest(tiny):
    """Of whatever --best_metric may name."""
    config = small_config()
    labels = {
        "single": np.array([0, 1, 1, 0]),
        "multi": np.eye(4, 2, dtype=np.uint8),
        "regression": np.array([0.5, 1.0, 2.0, 0.0], np.float32),
    }
    tasks = {
        name: Classification(
            "x", config, ["a", "b"], max_seq_length=8, problem_type=PROBLEM_TYPES[name]
        )
        for name in labels
    }
    tasks["tags"] = Tagging(
        "x", config, ["O", "B-A"], max_seq_length=8, units="pieces", has_crf=False
    )
    choice = Choice(20, 30, False, null_score_diff_threshold=0.0)
    tasks["qa"] = SpanQa("x", config, max_seq_length=8, choice=choice)
    tasks["rewrite"] = rewriting(Tokenizer(tiny.model / "vocab.txt", True))
    assert tasks.keys() == registry.TYPES.keys()
    for name, task in tasks.items():
        dense = {"label_ids": labels[name]} if name in labels else {}
        rows = Features({}, dense, np.arange(4), notes={"without": 1})
        names = task.metrics(rows)
        losses = {one for one in names if one.endswith("loss")}
        assert losses and losses <= task.lower_is_better, name
