"""Models of entities for other programs."""

import importlib.util
import json
import re
import shutil

import pytest
import tensorflow as tf

import bert_mgpu
from bert_mgpu.tasks.tagging import bio
from tests.support.entities import sentences
from tests.support.marks import rarely
from tests.support.runs import assert_refused


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
    asked = ["sun joy the rain", "the of", "win", "the suns joys rain"]  # ##s: a piece
    with bert_mgpu.load(out) as model:
        wanted = model.predict(asked)
    for folder in ("hf", "google"):
        with bert_mgpu.load(tmp_path / folder) as model:
            assert model.predict(asked) == wanted


@pytest.mark.parametrize(
    ("task", "tokenizer"),
    [("cluener", "tf_text"), *rarely(("ner", "tf"), ("cluener", "tf"))],
)
def test_a_saved_model_tags_as_the_run(
    tagger, flags, inside, data, tmp_path, task, tokenizer
):
    """Texts of one row; of longer ones it says that they are cut. ONNX gives logits."""
    out = shutil.copytree(tagger(task), tmp_path / "out")
    asked = {"do_predict": True, "export_saved_model": tmp_path / "served"}
    asked["export_tokenizer"] = tokenizer
    if importlib.util.find_spec("tf2onnx"):
        asked["export_onnx"] = tmp_path / "onnx"
    code, _, err = inside(flags(out, task, **asked))
    assert code == 0, err
    gaps = re.findall("given the ids of 9 examples, its outputs differ by (.+)", err)
    assert len(gaps) == 1 + ("export_onnx" in asked)
    assert all(float(gap) < 1e-5 for gap in gaps)
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
