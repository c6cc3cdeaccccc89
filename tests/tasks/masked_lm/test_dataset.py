"""The files that records come from, and the facts written beside them."""

import json
import types

import numpy as np
import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Features, Ragged
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


def model(words_hash):
    words = types.SimpleNamespace(words_hash=words_hash)
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
    assert "2 of the 3 that were written" in capfd.readouterr().err


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


@pytest.mark.parametrize("masking", ["token", "infill"])
def test_masks_that_are_drawn_know_the_unknown_token(masking):
    words = types.SimpleNamespace(
        mask_id=4, unk_id=1, cls_id=2, sep_id=3, tokens=[""] * 50
    )
    config = types.SimpleNamespace(
        dynamic_masking=True,
        masking=masking,
        masked_lm_prob=1.0,
        max_predictions_per_seq=99,
        seed=1,
        random_numbers="counters",
    )
    pretrained = types.SimpleNamespace(required_tokenizer=words)
    made = dataset.RecordDataset._make_masking(config, pretrained)
    assert made.special == (2, 3)
    ids, segments = [2, 9, 9, 3, 8, 8, 8, 1, 1, 1, 8, 8, 3], [0] * 4 + [1] * 9
    rows = Features(
        {
            "input_ids": Ragged(np.array(ids, np.int32), np.array([0, 13])),
            "segment_ids": Ragged(np.array(segments, np.int32), np.array([0, 13])),
        },
        {},
        lines=np.array([1]),
    )
    masked = set()
    for number in range(99):
        starts = Ragged(np.zeros(0, np.int32), np.array([0, 0]))
        labels = made.masked(rows, starts, np.array([number])).targets
        masked |= {*labels["masked_lm_ids"].values.tolist()}
    assert (1 in masked) == (masking == "token") and 8 in masked
