"""Settings and files of questions that once were taken for something else."""

import json

import pytest

from tests.support.questions import small
from tests.support.runs import assert_refused


@pytest.mark.parametrize(
    ("task", "asked", "words"),
    [
        ("squad", {"max_seq_length": 4}, ("--max_seq_length=4: ", "pass 5 or more")),
        ("squad2", {"n_best_size": 1}, ("--n_best_size=1: ", "pass 2 or more")),
    ],
)
def test_no_room_for_an_answer(flags, inside, tmp_path, task, asked, words):
    own = flags(tmp_path / "out", task, do_train=True, **asked)
    assert_refused(inside(own), *words)


def test_scores_are_those_of_the_evaluated_language(flags, inside, tmp_path):
    """Chinese contexts have CMRC's, whatever the training set has."""
    data = {"train": small(8, 1), "dev": small(8, 2)}
    for paragraph in data["dev"]["data"][0]["paragraphs"]:
        paragraph["context"] += "好" * 200
    (tmp_path / "data").mkdir()
    for part, value in data.items():
        path = tmp_path / "data" / f"{part}-v1.1.json"
        path.write_text(json.dumps(value))
    asked = {"data_dir": tmp_path / "data", "do_train": True, "do_eval": True}
    out = tmp_path / "out"
    code, _, err = inside(flags(out, num_train_epochs=1, **asked))
    assert code == 0 and "cmrc_f1 = " in (out / "eval_results.txt").read_text(), err


def test_files_of_both_forms(flags, inside, tmp_path):
    """JSON lines to train on, SQuAD's form to evaluate, no ids to predict."""
    (tmp_path / "data").mkdir()
    value = small(24, 1)
    lines = [
        json.dumps({"context": one["context"], **question})
        for one in value["data"][0]["paragraphs"]
        for question in one["qas"]
    ]
    names = {"train": "train.jsonl", "dev": "dev.json"}
    contents = {"train": "\n".join(lines), "dev": json.dumps(small(8, 2))}
    contents["task"] = json.dumps({"type": "qa", **names})
    for part, name in {**names, "task": "task.json"}.items():
        (tmp_path / "data" / name).write_text(contents[part])
    asked = {"data_dir": tmp_path / "data", "do_train": True, "do_eval": True}
    out = tmp_path / "out"
    code, _, err = inside(flags(out, "own", num_train_epochs=1, **asked))
    assert code == 0 and (out / "eval_results.txt").exists(), err
    bare = {"question": "it", "context": "the of sun it a"}
    nested = {"data": [{"paragraphs": [{**bare, "qas": [{"question": "it"}] * 2}]}]}
    for name, content in (("new.jsonl", bare), ("nested.json", nested)):
        (tmp_path / name).write_text(json.dumps(content))
        made = [f"--output_dir={out}", f"--predict_file={tmp_path / name}", "--xla=off"]
        code, _, err = inside([*made, "--do_predict=true"])
        assert code == 0 and len((out / "predict.txt").read_text().split()) <= 8, err
        records = (out / "predictions.jsonl").read_text().splitlines()
        answers = json.loads((out / "predictions.json").read_text())
        assert [*answers] == [json.loads(record)["id"] for record in records]
