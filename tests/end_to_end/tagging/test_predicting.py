"""Entities of new texts, by a folder that a training left."""

import json
import shutil
import subprocess

import pytest

import bert_mgpu
from tests.support.entities import conll, sentences
from tests.support.processes import process
from tests.support.runs import assert_refused


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
    file.write_text('{"text": "sun joy"\n')  # cut off: by its name it is no bare text
    refused = inside([*args, "--do_predict=true", f"--predict_file={file}"])
    assert_refused(refused, f"{file}:1: ", "JSON")
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
