"""The files that records come from, and the facts written beside them."""

import json
import types

import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks.masked_lm import dataset


@pytest.fixture
def file(tmp_path):
    """file(**facts) -> a file of records with these facts beside it."""

    def make(**facts):
        path = tmp_path / "a.tfrecord"
        path.touch()
        (tmp_path / ".a.tfrecord.json").write_text(json.dumps(facts))
        return str(path)

    return make


def model(fingerprint):
    words = types.SimpleNamespace(fingerprint=fingerprint)
    return types.SimpleNamespace(tokenizer=words, vocab_file="vocab.txt")


def test_records_of_another_vocabulary_are_refused(file):
    path = file(vocabulary="abc")
    dataset._check_vocabulary(path, model("abc"))
    with pytest.raises(UserError, match="made with another vocabulary or casing"):
        dataset._check_vocabulary(path, model("xyz"))
    dataset._check_vocabulary(file(), model("xyz"))  # made by other code


def test_a_copy_has_as_many_records_as_were_written(file, capfd):
    path = file(rows=3)
    dataset._check_count(path, 3, skip_bad=False)
    for count, skip_bad in ((2, False), (4, False), (4, True)):
        with pytest.raises(UserError, match=f"{count} records, but"):
            dataset._check_count(path, count, skip_bad)
    dataset._check_count(path, 2, skip_bad=True)
    assert "2 of the 3 records" in capfd.readouterr().err


def test_a_folder_names_its_records_and_a_glob_what_it_matches(tmp_path):
    for name in ("b.tfrecord", "a.tfrecord", "c.txt"):
        (tmp_path / name).touch()
    both = [str(tmp_path / name) for name in ("a.tfrecord", "b.tfrecord")]
    assert dataset.find_files(str(tmp_path), "input_file") == both
    assert dataset.find_files(f"{tmp_path}/?.tfrecord", "input_file") == both
    with pytest.raises(UserError, match=r"--input_file=.*/x: there is no such file"):
        dataset.find_files(f"{both[0]},{tmp_path}/x", "input_file")


def test_facts_that_are_not_ours_are_left_alone(file):
    path = file(rows="three", settings=[1], vocabulary=None)
    assert dataset._facts(path) == {}
