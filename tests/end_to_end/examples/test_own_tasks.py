"""own_task.sh with each form of task.json, tagging.sh and questions.sh."""

import json

import pytest
import tensorflow as tf

from tests.support import entities, questions
from tests.support.example_files import LABELS, OWN, SMALL, own_data
from tests.support.paths import EXAMPLES


def test_every_form_of_task_json_is_tried():
    assert {path.stem for path in (EXAMPLES / "task_json").iterdir()} == {*OWN}


@pytest.mark.parametrize("name", [name for name in OWN if name != "single"])
def test_an_own_task(model, tmp_path, recorded, name):
    out = tmp_path / "out"
    settings = {"DATA": own_data(tmp_path, name), "MODEL": model, "OUT": out}
    _, _, output = recorded("own_task.sh", *SMALL, **settings, LENGTH=16, N_GPUS=1)
    assert "batch  16 examples x 1 tower" in output
    assert len((out / "predict.txt").read_text().splitlines()) == 3
    first = json.loads((out / "predictions.jsonl").read_text().splitlines()[0])
    key, kind = {
        "pairs": ("label", str),
        "multi": ("label", list),
        "regression": ("value", float),
        "tags": ("entities", list),
        "qa": ("answer", str),
        "rewrite": ("text", str),
    }[name]
    assert isinstance(first[key], kind)


def test_entities(model, tmp_path, recorded):
    entities.write_task(tmp_path / "data", "ner")
    out, served = tmp_path / "out", tmp_path / "served"
    settings = {"DATA": tmp_path / "data", "MODEL": model, "OUT": out}
    recorded("tagging.sh", *SMALL, "--crf=true", **settings, SERVED=served, LENGTH=16)
    assert len((out / "predict.txt").read_text().splitlines()) == 9
    assert (out / "label_test.txt").exists() and (served / "saved_model.pb").exists()


@pytest.mark.nightly
def test_questions(model, tmp_path, recorded):
    """The SavedModel, and the server that would start, answer as the run predicts."""
    parts = {"train": questions.small(32, 1), "dev": questions.small(9, 2)}
    data = questions.write(tmp_path / "data", "squad", parts)
    out, served = tmp_path / "out", tmp_path / "served"
    settings = {"DATA": data, "MODEL": model, "OUT": out, "SERVED": served}
    small = ("--num_train_epochs=4", "--learning_rate=5e-3", "--xla=off")
    arguments = (*small, "--max_query_length=4")
    recorded("questions.sh", *arguments, **settings, LENGTH=24, PORT=0)
    assert "exact_match" in (out / "eval_results.txt").read_text()
    said = [json.loads(line)["answer"] for line in (out / "predictions.jsonl").open()]
    asked = [
        (paragraph["qas"][0]["question"], paragraph["context"])
        for paragraph in parts["dev"]["data"][0]["paragraphs"]
    ]
    text_a, text_b = map(tf.constant, zip(*asked, strict=True))
    call = tf.saved_model.load(str(served)).signatures["serving_default"]
    found = call(text_a=text_a, text_b=text_b)["answer"].numpy()
    assert [one.decode() for one in found] == said and len({*said}) > 3
    answers = recorded.server.answer([recorded.server.example(*own) for own in asked])
    assert [one["answer"] for one in answers] == said


def test_an_own_task_as_it_stands(tmp_path, settings, real):
    settings |= {"DATA": own_data(tmp_path, "single"), "TASK": "reviews", "LENGTH": 16}
    done = real("own_task.sh", *SMALL, settings=settings)
    assert done.returncode == 0, done.stderr
    assert "\nrows" in done.stdout  # the doctor's table
    assert done.stdout.count("predictions.jsonl <==") == 1
    records = [json.loads(line) for line in done.stdout.splitlines()[-3:]]
    assert {one["label"] for one in records} <= {*LABELS} and len(records) == 3
