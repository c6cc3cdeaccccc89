"""A training that begins anew, in the output_dir of one that saved nothing."""

import json
import types

import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.runs import leftovers

OWN, OTHER = {"seed": 42, "data_dir": "a"}, {"seed": 42, "data_dir": "b"}
ALL = {"best", "evaluations.jsonl", "mlflow.json", "run.json"}
BEGAN = {"began": "now", "seconds": 0.0}


@pytest.fixture
def out(tmp_path):
    """out(identity, ...) -> what is left in a folder for a training that begins."""
    folder = tmp_path / "out"

    def drop(identity, training=BEGAN, best=None, rank=0, **flags):
        (folder / "best").mkdir(parents=True, exist_ok=True)
        facts = {"identity": identity, "training": training}
        (folder / "run.json").write_text(json.dumps(facts))
        facts = {"identity": best or identity, "training": BEGAN}
        (folder / "best" / "run.json").write_text(json.dumps(facts))
        for name in ("evaluations.jsonl", "mlflow.json", "best/vocab.txt"):
            (folder / name).write_text("")
        vocab = flags.pop("vocab", None)
        run = types.SimpleNamespace(
            output_dir=folder,
            config=FinetuneConfig(output_dir=str(folder), **flags),
            model=types.SimpleNamespace(vocab_file=vocab),
            topology=types.SimpleNamespace(group=types.SimpleNamespace(rank=rank)),
        )
        leftovers.drop(run, OWN)
        return {path.name for path in folder.iterdir()}

    drop.folder = folder
    return drop


def test_what_another_training_left_goes(out, capsys):
    assert out(OTHER) == {"run.json"}
    told = " ".join(capsys.readouterr().err.split())
    assert "best, of a training that saved nothing" in told


def test_its_own_best_weights_and_run_in_mlflow_stay(out):
    """The evaluations come again."""
    assert out(OWN) == ALL - {"evaluations.jsonl"}
    assert out({**OWN, "optimizer": FinetuneConfig().optimizer}) == ALL - {
        "evaluations.jsonl"
    }


def test_the_best_weights_of_a_training_that_ended_stay(out):
    left = {"best", "run.json"}
    assert out(OTHER, training={**BEGAN, "ended": "now"}) == left
    assert out(OTHER, training=None) == left  # of an older version
    assert out(OTHER, best={"data_dir": "c"}) == left  # not of the one that ended


@pytest.mark.parametrize("flag", ["init_checkpoint", "vocab_file", "vocab"])
def test_weights_that_a_flag_names_stay(out, flag, monkeypatch):
    inside = out.folder / "best" / "vocab.txt"
    assert out(OTHER, **{flag: str(inside)}) == {"best", "run.json"}
    monkeypatch.chdir(out.folder.parent)
    assert out(OTHER, **{flag: "out/best"}) == {"best", "run.json"}
    assert out(OTHER, **{flag: "out"}) == {"run.json"}


def test_where_something_was_saved_all_stays(out):
    out.folder.mkdir()
    (out.folder / "model.ckpt-3.index").write_text("")
    assert out(OTHER) == {*ALL, "model.ckpt-3.index"}


def test_only_the_first_process_removes_anything(out):
    assert out(OTHER, rank=1) == ALL


def test_a_folder_without_a_run_is_left_alone(out):
    assert out(None) == ALL - {"evaluations.jsonl"}
