"""A SavedModel answers raw questions as the run does; ONNX gives logits of ids."""

import importlib.util
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.cli import run_squad
from tests.support.marks import rarely
from tests.support.questions import small

LIKES = {"n_best_size": 5, "max_answer_length": 2, "null_score_diff_threshold": 0.5}


@pytest.mark.parametrize(
    ("task", "tokenizer"),
    [("squad2", "tf_text"), *rarely(("squad2", "tf"), ("squad", "tf_text"))],
)
def test_a_saved_model_answers_as_the_run(
    answerer, flags, inside, tmp_path, task, tokenizer
):
    """With the flags of the command that exports."""
    out, negative = shutil.copytree(answerer(task), tmp_path / "out"), task == "squad2"
    asked = {"do_predict": True, "export_saved_model": tmp_path / "served", **LIKES}
    asked["export_tokenizer"] = tokenizer
    if importlib.util.find_spec("tf2onnx"):
        asked["export_onnx"] = tmp_path / "onnx"
    code, _, err = inside(flags(out, task, **asked))
    assert code == 0, err
    gaps = re.findall("given the ids of 21 examples, its outputs differ by (.+)", err)
    assert len(gaps) == 1 + ("export_onnx" in asked)
    assert all(float(gap) < 1e-5 for gap in gaps)
    entries = small(21, 2, 0.4 * negative)["data"][0]["paragraphs"]
    records = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    served = tf.saved_model.load(str(tmp_path / "served"))
    for size in (21, 1):  # questions at once
        actual = served.signatures["serving_default"](
            text_a=tf.constant(
                [entry["qas"][0]["question"] for entry in entries[:size]]
            ),
            text_b=tf.constant([entry["context"] for entry in entries[:size]]),
        )
        actual = {name: value.numpy() for name, value in actual.items()}
        assert ("null_odds" in actual) == negative
        for number, record in enumerate(records[:size]):
            assert actual["answer"][number].decode() == record["answer"]
            for name in ("start", "end"):
                wanted = -1 if record[name] is None else record[name]
                assert actual[name][number] == wanted
            for name in ("probability", *["null_odds"] * negative):
                wanted = pytest.approx(record[name], abs=1e-4)
                assert actual[name][number] == wanted
    assert len({record["answer"] for record in records}) > 5
    facts = json.loads((tmp_path / "served" / "bert_mgpu.json").read_text())
    wanted = {**LIKES, "doc_stride": 8, "max_query_length": 4}
    wanted |= {"type": "qa", "version_2_with_negative": negative}
    assert facts.items() >= wanted.items()


def test_an_exported_model_cuts_the_windows_of_its_training(
    data, inside, started, tiny, tmp_path
):
    """By run_squad.py, too, whose own --doc_stride is longer than these rows."""
    out, folder, file = tmp_path / "out", tmp_path / "hf", data / "squad"
    asked = {"do_train": True, "do_predict": True, "export_hf": folder}
    asked |= {"data_dir": file, "max_seq_length": 24, "max_query_length": 4}
    code, _, err = inside(tiny.flags(out, "squad", **asked))
    assert code == 0, err
    none = dict.fromkeys(("vocab_file", "bert_config_file", "task_name", "data_dir"))
    none |= {"init_checkpoint": folder, "max_seq_length": None, "do_predict": True}
    again = tmp_path / "again"
    flags = tiny.flags(again, "squad", **none)
    given = [*flags, f"--predict_file={file / 'dev-v1.1.json'}"]
    code, _, err = started(run_squad.main, given)
    assert code == 0 and "no --doc_stride, as the model was trained" in err, err
    assert "windows of a context do not overlap" not in err
    name = "predictions.json"
    assert (again / name).read_bytes() == (out / name).read_bytes()


def test_onnx_gives_logits(answerer, flags, inside, tmp_path):
    """Those of the SavedModel's signature of ids, for rows of any lengths."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="make test installs it")
    out = shutil.copytree(answerer("squad2"), tmp_path / "out")
    asked = {
        "export_onnx": tmp_path / "onnx",
        "export_saved_model": tmp_path / "served",
    }
    code, _, err = inside(flags(out, "squad2", **asked))
    assert code == 0, err
    session = onnxruntime.InferenceSession(
        str(tmp_path / "onnx" / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    (output,) = session.get_outputs()
    assert (output.name, output.shape) == ("logits", ["rows", "tokens", 2])
    names = [path.name for path in (tmp_path / "served", tmp_path / "onnx")]
    one, other = (
        json.loads((tmp_path / name / "bert_mgpu.json").read_text()) for name in names
    )
    assert one == other and one["n_best_size"] == 20
    call = tf.saved_model.load(str(tmp_path / "served")).signatures["ids"]
    for shape in ((1, 6), (3, 11)):
        ids = np.random.default_rng(1).integers(5, 20, shape).astype(np.int32)
        mask = np.ones(shape, np.int32)
        mask[-1, 4:] = 0
        rows = {"input_ids": ids * mask, "input_mask": mask}
        rows["segment_ids"] = mask * (np.arange(shape[1]) > 2).astype(np.int32)
        (logits,) = session.run(["logits"], rows)
        wanted = call(**{name: tf.constant(value) for name, value in rows.items()})
        assert {*wanted} == {"logits"}
        inside_ = mask > 0
        assert logits[inside_] == pytest.approx(
            wanted["logits"].numpy()[inside_], abs=1e-5
        )
