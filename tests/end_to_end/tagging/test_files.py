"""Files of entities: faults, repairs, shares and strides."""

import json
import shutil

import pytest

from bert_mgpu.cli.doctor import task_data
from tests.support.runs import assert_refused
from tests.support.tiny import VOCAB

MISTAKES = {
    "orphan": ("sun O\njoy I-GOOD\n", {}, "train.txt:2: 'I-GOOD' without a B-GOOD"),
    "no entity": ("sun O\n", {}, "no entity in any row: nothing to learn"),
    "columns": ("sun\n", {}, "train.txt:1: 1 column, but 2 are needed"),
}


@pytest.mark.parametrize("name", [*MISTAKES])
def test_mistakes_in_the_data(flags, inside, tmp_path, name):
    text, changed, fragment = MISTAKES[name]
    (tmp_path / "data").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "data" / f"{split}.txt").write_text(text)
    changed = {"data_dir": tmp_path / "data", "do_train": True, **changed}
    out = tmp_path / "out"
    assert_refused(inside(flags(out, **changed)), fragment)
    assert not [*out.glob("model.ckpt*")]


def test_repairs_are_logged_and_belong_to_the_run(flags, inside, tmp_path, data):
    """A run goes on only with the same repair."""
    folder = shutil.copytree(data / "ner", tmp_path / "data")
    (folder / "train.txt").write_text("sun I-GOOD\n\n" * 8)
    out = tmp_path / "out"
    args = {"data_dir": folder, "do_train": True, "repair_bio": "begin"}
    code, _, err = inside(flags(out, **args))
    assert code == 0 and "8 tags or spans repaired (--repair_bio)" in err
    changed = {**args, "repair_bio": "outside", "num_train_epochs": 9}
    assert_refused(inside(flags(out, **changed)), "no entity in any row")
    (folder / "train.txt").write_text("sun I-GOOD\njoy B-GOOD\n\n" * 8)
    assert_refused(inside(flags(out, **changed)), "repair_bio")


def test_a_share_of_the_training_file_is_the_dev_set(flags, data, inside, tmp_path):
    """The entities of a text are no labels by which it is divided."""
    (tmp_path / "data").mkdir()
    shutil.copy(data / "ner" / "train.txt", tmp_path / "data" / "train.txt")
    task = {"type": "tags", "train": "train.txt"}
    (tmp_path / "data" / "task.json").write_text(json.dumps(task))
    asked = {"data_dir": tmp_path / "data", "do_train": True, "do_eval": True}
    asked |= {"dev_share": 0.25, "num_train_epochs": 1}
    code, _, err = inside(flags(tmp_path / "out", "mine", **asked))
    assert code == 0, err
    assert "train  36 examples" in err and "dev  12 examples" in err


def test_a_stride_beyond_the_row_is_refused(flags, inside, tmp_path, capfd):
    """Before windows are cut: a core beyond its window would fit into no row."""
    (tmp_path / "data").mkdir()
    for split in ("train", "dev", "test"):
        (tmp_path / "data" / f"{split}.txt").write_text("sun B-GOOD\n" + "joy O\n" * 20)
    asked = {"data_dir": tmp_path / "data", "doc_stride": 15}
    for stages in (["do_train"], ["do_train", "do_eval"], ["do_train", "do_predict"]):
        done = inside(flags(tmp_path / "out", **asked, **dict.fromkeys(stages, True)))
        assert_refused(done, "pass at most that")
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("".join(f"{token}\n" for token in VOCAB))
    given = {"task_name": "ner", "max_seq_length": 16, "vocab_file": vocab, **asked}
    assert task_data.main([f"--{key}={value}" for key, value in given.items()]) == 2
    assert "pass at most that" in capfd.readouterr().err
