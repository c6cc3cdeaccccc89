"""Texts of the command line and of files, predicted by a trained folder."""

import json
import shutil

import pytest

from tests.support.runs import assert_refused, tree
from tests.support.tiny import rows


@pytest.fixture
def model(trained, tmp_path):
    return shutil.copytree(trained("own", num_train_epochs=4), tmp_path / "model")


ANSWERS = {
    "yes": (["sun joy"], "yes\nyes"),
    "no": (["rain loss"], "no\nno"),
}


@pytest.mark.parametrize("label", [*ANSWERS])
def test_one_text_is_answered_on_the_screen(model, inside, label):
    (text,), start = ANSWERS[label]
    before = tree(model)
    code, out, err = inside([f"--output_dir={model}", f"--predict_text={text}",
                             "--xla=off"])  # fmt: skip
    assert code == 0 and out.startswith(start), err
    bars = [line.split() for line in out.splitlines()[1:]]
    assert {name for name, *_ in bars} == {"yes", "no"}
    assert sum(float(share.rstrip("%")) for _, share, *_ in bars) == pytest.approx(100)
    assert tree(model) == before


def test_a_second_text_may_be_empty(trained, inside, tmp_path):
    """And a text may begin with dashes."""
    model = shutil.copytree(trained("mrpc"), tmp_path / "pairs")
    args = [f"--output_dir={model}", "--xla=off", "--predict_text=-- sun joy"]
    code, out, err = inside([*args, "--predict_text_b="])
    assert code == 0 and len(out.splitlines()) == 3, err
    (tmp_path / "new.tsv").write_text("-- sun joy\t\n")
    more = [f"--predict_file={tmp_path / 'new.tsv'}", "--predict_format=text"]
    code, _, err = inside([*args[:2], "--do_predict=true", *more])
    assert code == 0, err
    record = json.loads((model / "predictions.jsonl").read_text())
    assert out.splitlines()[0] == record["label"]
    for label, share in record["probabilities"].items():
        assert f"{label} {share:7.1%}" in out
    assert_refused(inside(args), "mrpc is a task of pairs of texts: pass both")


def test_texts_of_a_file(model, inside, tmp_path):
    """A file .txt of bare lines; one with tabs is rows, as it has always been."""
    args = [f"--output_dir={model}", "--do_predict=true", "--xla=off"]
    predicted = []
    for name, lines in (("bare.txt", "sun joy\n\nrain\n"),
                        ("rows.txt", "?\tsun joy\n?\t\n?\train\n"),
                        ("rows.tsv", "?\tsun joy\n?\t\n?\train\n"),
                        ("bare.csv", "sun joy\n\nrain\n")):  # fmt: skip
        (tmp_path / name).write_text(lines)
        more = ["--predict_format=text"] if name == "bare.csv" else []
        code, _, err = inside([*args, f"--predict_file={tmp_path / name}", *more])
        assert code == 0, err
        assert ("one text per line" in err) == (name == "bare.txt"), err
        predicted.append((model / "predictions.jsonl").read_text())
    assert len(predicted[0].splitlines()) == 3
    assert {*predicted} == {predicted[0]}


def test_several_files_by_one_model(tiny, model, inside, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(model, out)
    (out / "predict.txt").unlink(missing_ok=True)
    paths = []
    for name, count in (("a.tsv", 3), ("b.tsv", 9)):
        paths.append(tmp_path / name)
        lines = [f"?\t{text}\n" for _, text, _ in rows(count, count)]
        paths[-1].write_text("".join(lines))
    args = {"do_predict": True, "predict_file": ",".join(map(str, paths))}
    code, _, err = inside(tiny.flags(out, "own", **args))
    assert code == 0, err
    assert not (out / "predict.txt").exists()
    for path in paths:
        folder = out / "predicted" / path.name
        args["predict_file"] = path
        assert inside(tiny.flags(out, "own", **args))[0] == 0
        for name in ("predict.txt", "test_results.tsv", "predictions.jsonl"):
            assert (folder / name).read_bytes() == (out / name).read_bytes()
    lines = (out / "predicted" / "b.tsv" / "predict.txt").read_text().splitlines()
    assert len(lines) == 9


@pytest.mark.parametrize(
    ("flags", "fragment"),
    [
        (
            {"predict_file": "-", "do_eval": True},
            "--predict_file=- needs a trained model",
        ),
        (
            {"predict_text": "sun", "do_predict": False, "do_eval": True},
            "--predict_text needs a trained model",
        ),
        ({"predict_text": "sun"}, "--predict_text and --do_predict"),
        (
            {"predict_text": "a", "predict_text_b": "b", "do_predict": False},
            "own is a task of single texts: leave --predict_text_b out",
        ),
        ({"predict_text_b": "b"}, "--predict_text_b does nothing without"),
        ({"strict": True}, "--strict does nothing without --predict_file=-"),
        ({"predict_format": "csv"}, "--predict_format does nothing without"),
        ({"predict_file": "a/x.tsv,b/x.tsv"}, "two files have the same name"),
        ({"predict_file": "none.tsv,other.tsv"}, "none.tsv: no such file"),
    ],
)
def test_mistakes(tiny, model, inside, flags, fragment):
    flags = {"do_predict": True, **flags}
    assert_refused(inside(tiny.flags(model, "own", **flags)), fragment)
