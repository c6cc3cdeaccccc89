"""Texts rewritten by a folder that a training left."""

import json
import shutil
import subprocess

import numpy as np
import pytest

import bert_mgpu
from bert_mgpu.checkpoints import google_read
from bert_mgpu.cli import run_pretraining, serve
from bert_mgpu.config.serve import ServeConfig
from tests.support import rewriting
from tests.support.processes import process
from tests.support.runs import assert_refused


def predicted(inside, out, file, **flags):
    flags = {"do_predict": True, "predict_file": file, "xla": "off", **flags}
    given = [f"--{n}={str(v).lower() if v is True else v}" for n, v in flags.items()]
    code, _, err = inside([f"--output_dir={out}", *given])
    assert code == 0, err
    (out / "log.txt").write_text(err)
    records = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    return (out / "predict.txt").read_text().split("\n")[:-1], records


@pytest.fixture
def alone(rewriter, tmp_path):
    return shutil.copytree(rewriter(), tmp_path / "alone")


def test_every_line_comes_out_in_its_place(alone, inside, tmp_path):
    """Whatever it holds; targets are not read."""
    rows = [
        {"source": "sun loss", "context": "joy"},
        {"source": "", "context": ""},
        {"source": "  \t ", "context": "joy"},
        {"source": "zebra\nzebra \u200b🎉", "context": "joy", "target": "x"},
        {"source": "Sun  sun\u00a0JOY", "context": ""},
        {"source": "joy " * 40, "context": "rain " * 40},
    ]
    file = tmp_path / "new.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines, records = predicted(inside, alone, file, keep_bias=1e6)
    # Kept everywhere: the texts themselves, whose line ends are blanks in predict.txt.
    assert [record["text"] for record in records] == [row["source"] for row in rows]
    assert lines == [row["source"].replace("\n", " ") for row in rows]
    assert "1 line end became spaces in predict.txt" in (alone / "log.txt").read_text()
    assert all(record["edits"] == [] for record in records)
    lines, records = predicted(inside, alone, file)
    assert len(lines) == 6 and lines[0] != rows[0]["source"]
    assert lines[5].endswith("joy " * 15)  # what the row has no room for


def test_written_words_are_as_probable_as_in_pretraining(
    flags, inside, started, tmp_path
):
    """As run_pretraining_mgpu.py scores the text, with one token type for both."""
    alone, other = tmp_path / "alone", tmp_path / "words"
    rewriting.write_task(tmp_path / "data", text_b=None)
    code, _, err = inside(
        flags(alone, data_dir=tmp_path / "data", do_train=True, max_train_steps=12)
    )
    assert code == 0, err
    (saved,) = alone.glob("model.ckpt-*.index")
    tensors = google_read.read(saved.with_suffix(""))
    types = tensors["bert/embeddings/token_type_embeddings"]
    types[1] = types[0]
    google_read.write(saved.with_suffix(""), tensors)
    file = tmp_path / "new.jsonl"
    file.write_text(json.dumps({"source": "sun [SLOT] joy"}))
    _, (one,) = predicted(inside, alone, file, num_candidates=1, fill_rounds=1)
    _, (found,) = predicted(inside, alone, file, num_candidates=5, fill_rounds=1)
    (score,) = [c["score"] for c in found["candidates"] if c["text"] == one["text"]]
    words = one["text"].split()[1:-1]
    assert 1 <= len(words) <= 3 and "[SLOT]" not in words
    (tmp_path / "lines.txt").write_text(one["text"] + "\n")
    args = [f"--init_checkpoint={alone}", f"--output_dir={other}", "--do_predict=true"]
    args += [f"--predict_file={tmp_path / 'lines.txt'}", "--xla=off"]
    code, _, err = started(run_pretraining.main, args)
    assert code == 0, err
    (line,) = json.loads((other / "test_results.json").read_text())
    written = line["tokens"][1:-1]
    assert [each["token"] for each in written] == words
    mean = np.mean([np.log(each["prob"]) for each in written])
    # With one candidate only its tags are scored.
    assert score - one["score"] == pytest.approx(mean, abs=1e-5)


def test_a_file_without_rows(alone, inside, tmp_path):
    file = tmp_path / "new.jsonl"
    file.write_text("")
    before = (alone / "predict.txt").read_bytes()
    args = [f"--output_dir={alone}", "--do_predict=true", f"--predict_file={file}"]
    assert_refused(inside(args), "new.jsonl: no rows")
    assert (alone / "predict.txt").read_bytes() == before


def test_slots_are_written_in_and_have_candidates(alone, inside, tmp_path):
    rows = [
        {"source": "sun [SLOT] loss", "context": "joy"},
        {"source": "[SLOT]", "context": "joy"},
        {"source": "sun loss", "context": "joy"},
    ]
    file = tmp_path / "new.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, records = predicted(inside, alone, file)
    assert [len(record["candidates"]) for record in records][2] == 1
    for record in records[:2]:
        texts = [each["text"] for each in record["candidates"]]
        scores = [each["score"] for each in record["candidates"]]
        assert 1 < len({*texts}) == len(texts) <= 5
        assert scores == sorted(scores, reverse=True)
        assert all(text.strip() and "[SLOT]" not in text for text in texts)
    first = records[0]["candidates"]
    assert all(t["text"].startswith("sun ") and t["text"].endswith(" loss")
               for t in first)  # fmt: skip
    _, (record, *_) = predicted(inside, alone, file, num_candidates=2)
    assert len(record["candidates"]) == 2


def test_a_text_a_stream_and_python(alone, inside, tiny):
    """And a server: all say the same."""
    given = [f"--output_dir={alone}", "--xla=off", "--predict_text=sun loss"]
    code, screen, err = inside([*given, "--predict_text_b=joy"])
    assert code == 0, err
    with bert_mgpu.load(alone) as model:
        assert model.predict(("sun [SLOT] loss", "joy")).text != "sun [SLOT] loss"
        found = model.predict(("sun loss", "joy"))
        assert found.text == screen.splitlines()[0] and found.edits
        assert [each["text"] for each in found.candidates] == [found.text]
        both = model.predict([("sun loss", "joy"), ("the sun", "joy")])
        assert both[0].text == found.text and model.predict([]) == []
    with bert_mgpu.load(alone, keep_bias=1e9) as model:
        assert model.predict(("sun loss", "joy")).text == "sun loss"
    with bert_mgpu.load(alone, without_slots="keep") as model:
        assert model.predict(("sun loss", "joy")).text == "sun loss"
    with pytest.raises(TypeError, match="unexpected keyword argument 'do_train'"):
        bert_mgpu.load(alone, do_train=True)
    flags = {"do_predict": True, "predict_file": "-", "data_dir": None}
    flags |= {"vocab_file": None, "bert_config_file": None, "init_checkpoint": None}
    run = process(tiny.flags(alone, "mine", **flags), stdin=subprocess.PIPE)
    output, err = run.communicate("sun loss\tjoy\nthe sun\tjoy\n", 120)
    assert run.returncode == 0, err
    records = [json.loads(line) for line in output.splitlines()]
    assert [record["text"] for record in records] == [each.text for each in both]
    served = serve.LoadedModel(ServeConfig(output_dir=str(alone)))
    assert served.inputs == ("text_a", "text_b")
    asked = [served.example("sun loss", "joy"), served.example("the sun", "joy")]
    for answer, record in zip(served.answer(asked), records, strict=True):
        assert answer == {n: v for n, v in record.items() if n not in ("id", "line")}
    config = ServeConfig(output_dir=str(alone), keep_bias=1e9)
    (answer,) = serve.LoadedModel(config).answer(asked[:1])
    assert answer["text"] == "sun loss"
    shown = served.explain(asked[0])
    assert shown["text"] == found.text
    assert [*map(list, shown["edits"])] == records[0]["edits"]


@pytest.mark.parametrize("flag", ["export_saved_model", "export_onnx", "export_hf"])
def test_exports_are_refused(flags, inside, tmp_path, flag):
    asked = {"do_train": True, flag: tmp_path / "made"}
    assert_refused(inside(flags(tmp_path / "out", **asked)), f"--{flag}")
    assert not (tmp_path / "made").exists()


def test_towers_and_placements_change_no_text(alone, inside, tmp_path, data):
    wanted = (alone / "predict.txt").read_bytes()
    for number, changed in enumerate(
        ({"n_gpus": 3, "predict_batch_size": 2}, {"predict_batch_size": 1})
    ):
        out = shutil.copytree(alone, tmp_path / str(number))
        predicted(inside, out, data / "test.jsonl", **changed)
        assert (out / "predict.txt").read_bytes() == wanted
