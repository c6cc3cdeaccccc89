"""A disk that is full wherever a run writes: one line, and the next run goes on."""

import json
import shutil

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read, train_state
from bert_mgpu.cli import (
    create_pretraining_data,
    domain_vocab,
    make_rewrite_data,
)
from tests.robustness.full_disk import full_at
from tests.support.marks import rarely
from tests.support.runs import assert_refused, assert_same_run, tree

# What is written, as the path says it; in the order of a run.
TRAINING = {
    "cache": "/cache/.own-train-",
    "baseline": "/.baseline.json.",
    "settings": "/.run.json.",
    "config": "/.bert_config.json.",
    "labels": "/.label_list.txt.",
    "vocabulary": "/.vocab.txt.",
    "metrics": "/metrics.jsonl",
    "TensorBoard": "/events.out.tfevents.",
    "best weights": "/best/.saving/",
    "best vocabulary": "/best/.vocab.txt.",
    "best": "/.best.json.",
    "history": "/evaluations.jsonl",
    "checkpoint": "out/.saving/model.ckpt-3",
    "checkpoint's list": "out/.checkpoint.",
    "history, resumed": "/.evaluations.jsonl.",
    "metrics, resumed": "/.metrics.jsonl.",
    "next checkpoint": "out/.saving/model.ckpt-6",
}
RESULTS = {
    "evaluation": "/.eval_results.txt.",
    "other evaluation": "/.eval_results_may.txt.",
    "curves": "/.curves.png.",
    "report": "/.report.html.",
    "errors": "/.errors.jsonl.",
}
PREDICTIONS = {
    "predictions": "/.predict.txt.",
    "rows": "/.predictions.jsonl.",
    "exported config": "/new/config.json",
    "exported weights": "/new/model.safetensors",
    "SavedModel": "/.saved.",
    "facts of it": "/new/bert_mgpu.json",
}
PREPARING = {
    "block": "/0.text",
    "part": ".making",
    "records": "/.made.tfrecord.making",
    "facts of them": "/..made.tfrecord.json.",
}
VOCABULARY = {"vocabulary": "/.new.txt.", "config": "/.new.json."}
ADS = {
    "phrases": "/bank.tsv",
    "their texts": "/matches.txt",
    "rows": "train_0620",
    "rows to fill": "infill",
    "task": "/task.json",
}
SEEDS = {"scores": "/.seeds.json."}


def test_places_are_many():
    tables = TRAINING, RESULTS, PREDICTIONS, PREPARING, VOCABULARY, ADS, SEEDS
    assert sum(map(len, tables)) >= 30


EACH = {"eval_steps": 3, "log_steps": 1, "save_checkpoints_steps": 3}


def may(tiny):
    return {"eval_files": f"may={tiny.data('own') / 'test.tsv'}"}


def flags(tiny, out, **changed):
    return tiny.flags(out, "own", **{"do_train": True, **EACH, **may(tiny), **changed})


def refused_at_each(monkeypatch, call, places, after):
    """call() fails with one line at each place in turn; then it does what it should.

    after: what must be so then.
    """
    for what, part in places.items():
        with full_at(monkeypatch, part) as met:
            result = call()
        assert met, f"{what}: nothing is written there"
        full = ("No space left", "File too large")
        assert any(one in result[2] for one in full), (what, result[2])
        assert_refused((result[0], "", result[2]))
        after(what)
    code, _, err = call()
    assert code == 0, err


def whole(out):
    """All that is there can be read, and nothing is left of what is not."""
    for folder in (out, out / "best"):
        for step in train_state.saved_steps(folder):
            google_read.read(folder / f"model.ckpt-{step}")
    left = [path for path in out.rglob(".*") if path.name != ".lock"]
    assert not left
    for name in ("run.json", "best/best.json", "baseline.json", "bert_config.json"):
        if (out / name).exists():
            json.loads((out / name).read_text())


def history(out):
    rows = [json.loads(line) for line in (out / "evaluations.jsonl").open()]
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def losses(out):
    rows = [json.loads(line) for line in (out / "metrics.jsonl").open()]
    return [(row["step"], row["loss"]) for row in rows]


@pytest.fixture(scope="module")
def straight(tiny, trained, tmp_path_factory):
    """A run that nothing disturbs."""
    from bert_mgpu.cli import run_classifier

    out = tmp_path_factory.mktemp("straight") / "out"
    shutil.copytree(trained("own", **EACH, **may(tiny)), out)
    rest = {"do_train": None, "eval_steps": None, "do_predict": True}
    args = flags(tiny, out, **rest, do_eval=True, init_checkpoint=None)
    assert run_classifier.main(["", *args]) == 0
    return out


@pytest.fixture
def unused(tmp_path, straight):
    """That run before it was evaluated and predicted."""
    out = tmp_path / "out"
    unwanted = shutil.ignore_patterns("eval_results*", "predict*", "test_results*")
    return shutil.copytree(straight, out, ignore=unwanted)


def often(places, *names):
    """Some of the places for each commit, all of them for the night."""
    some = {name: places[name] for name in names}
    cases = [some, *rarely(places)]
    return pytest.mark.parametrize("places", cases, ids=["some", "all"])


@often(TRAINING, "cache", "best", "next checkpoint")
def test_training(tiny, tmp_path, straight, inside, monkeypatch, places):
    """The same command again and again ends as a run that nothing disturbs."""
    out = tmp_path / "out"
    args = flags(tiny, out)
    refused_at_each(monkeypatch, lambda: inside(args), places, lambda _: whole(out))
    assert_same_run(out, straight)
    assert_same_run(out / "best", straight / "best")
    assert history(out) == history(straight)
    assert losses(out) == losses(straight)


def later(tiny, out, **changed):
    rest = {"do_train": None, "eval_steps": None, "init_checkpoint": None}
    return flags(tiny, out, **{**rest, **changed})


def test_evaluation_and_report(tiny, unused, straight, inside, monkeypatch):
    args = later(tiny, unused, do_eval=True, report=True)
    refused_at_each(monkeypatch, lambda: inside(args), RESULTS, lambda _: whole(unused))
    for name in ("eval_results.txt", "eval_results_may.txt"):
        assert (unused / name).read_text() == (straight / name).read_text()
    assert "</html>" in (unused / "report.html").read_text()


@often(PREDICTIONS, "predictions", "exported weights", "SavedModel")
def test_predictions_and_exports(tiny, unused, straight, inside, monkeypatch, places):
    hub, saved = unused.parent / "hub", unused.parent / "saved"
    args = later(
        tiny,
        unused,
        do_predict=True,
        eval_files=None,
        export_hf=hub,
        export_saved_model=saved,
    )

    def after(what):
        whole(unused)
        actual = {path.name for path in unused.parent.iterdir()}
        assert actual <= {"out", "hub", "saved"}, what  # nothing half, nothing hidden

    refused_at_each(monkeypatch, lambda: inside(args), places, after)
    for name in ("predict.txt", "test_results.tsv", "predictions.jsonl"):
        assert (unused / name).read_bytes() == (straight / name).read_bytes()
    assert (hub / "model.safetensors").exists() and (saved / "saved_model.pb").exists()


def test_seeds(tiny, tmp_path, inside, monkeypatch):
    out = tmp_path / "out"
    args = tiny.flags(
        out, "own", seeds=2, do_train=True, do_eval=True, max_train_examples=4
    )
    refused_at_each(monkeypatch, lambda: inside(args), SEEDS, lambda _: None)
    assert json.loads((out / "seeds.json").read_text())["seeds"] == [42, 43]


@pytest.fixture
def corpus(tmp_path, tiny):
    (tmp_path / "text").write_text("sun joy\nthe rain\n\nfear of loss\na win\n\n" * 30)
    words = (tiny.model / "vocab.txt").read_text() + "[unused1]\n"
    (tmp_path / "vocab.txt").write_text(words)
    config = json.loads((tiny.model / "bert_config.json").read_text())
    config["vocab_size"] += 1
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def calling(capfd, main, args):
    def call():
        capfd.readouterr()
        return main(["", *args]), *capfd.readouterr()

    return call


def test_records(corpus, capfd, monkeypatch):
    def args(name):
        return [
            *(f"--input_file={corpus}/text", f"--output_file={corpus}/{name}"),
            *(f"--vocab_file={corpus}/vocab.txt", "--workers=1", "--dupe_factor=2"),
        ]

    made = corpus / "made.tfrecord"
    made.write_bytes(b"earlier ones")

    def after(what):
        assert made.read_bytes() == b"earlier ones" or what == "facts of them"
        hidden = {path.name for path in corpus.iterdir() if path.name[0] == "."}
        assert not hidden

    call = calling(capfd, create_pretraining_data.main, args("made.tfrecord"))
    refused_at_each(monkeypatch, call, PREPARING, after)
    assert calling(capfd, create_pretraining_data.main, args("other"))()[0] == 0
    assert made.read_bytes() == (corpus / "other").read_bytes()
    assert not [*corpus.glob("*.parts")]


def test_vocabulary(corpus, capfd, monkeypatch):
    out = corpus / "new.txt"
    (corpus / "text").write_text("sunny joyful\n" * 30)
    args = [
        *(f"--input_file={corpus}/text", f"--vocab_file={corpus}/vocab.txt"),
        *(f"--output_vocab_file={out}", "--place=append"),
        f"--bert_config_file={corpus}/config.json",
        f"--output_config_file={corpus}/new.json",
    ]

    def after(what):
        assert out.exists() == (what == "config")
        assert not (corpus / "new.json").exists()

    call = calling(capfd, domain_vocab.main, args)
    refused_at_each(monkeypatch, call, VOCABULARY, after)
    assert json.loads((corpus / "new.json").read_text())["vocab_size"] == 28
    assert np.char.count(out.read_text(), "sunny") == 1


def test_rows_of_ads(tmp_path, capfd, monkeypatch):
    """None is kept that is not whole, and those of an earlier call stay."""
    ads = [f"显瘦{n}，很美{n}，百搭{n % 3}。\n" for n in range(40)]
    (tmp_path / "ads.txt").write_text("".join(ads))
    out = tmp_path / "made"
    args = [f"--input_file={tmp_path}/ads.txt", f"--output_dir={out}", "--workers=1"]
    call = calling(capfd, make_rewrite_data.main, args)
    assert call()[0] == 0
    before = tree(out)
    assert len(before) == 8

    def after(what):
        assert tree(out) == before and not [*out.glob(".*")], what

    refused_at_each(monkeypatch, call, ADS, after)
    assert tree(out) == before
