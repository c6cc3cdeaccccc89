"""The baseline on rows whose tokens give the labels away."""

import dataclasses

import numpy as np
import pytest

from bert_mgpu.core.rows import Features, Ragged
from bert_mgpu.tasks.classification import naive_bayes
from bert_mgpu.tasks.classification.problem_types import PROBLEM_TYPES

LABELS = ("no", "yes")


def features(rows, label_ids):
    column = {"input_ids": Ragged.from_rows(rows)}
    return Features(column, {"label_ids": label_ids}, np.arange(len(rows)))


def scored(train, dev, problem_type):
    sets = {"dev": dev}
    problem_type = PROBLEM_TYPES[problem_type]
    return naive_bayes.scores(train, sets, LABELS, problem_type=problem_type)["dev"]


def test_smoothed_counts_of_tokens_give_the_probabilities():
    """By hand: P(token 3 | no) = (2 + 1) / (3 + 5) of ids 0 to 4, P(no) = 1/2."""
    train = features([[3, 3, 4], [4, 4, 4]], np.array([0, 1], np.int32))
    dev = features([[3]], np.array([0], np.int32))
    loss = -np.log((3 / 8) / (3 / 8 + 1 / 8))
    actual = scored(train, dev, "single")
    assert actual["eval_loss"] == pytest.approx(loss)
    assert actual["eval_accuracy"] == 1.0


def test_what_stands_behind_masks_is_counted():
    """Token 9 masks 3 or 4, which tell the labels apart."""
    label_ids = np.arange(20, dtype=np.int32) % 2
    hidden = {
        "masked_lm_positions": Ragged.from_rows([[1]] * 20),
        "masked_lm_ids": Ragged.from_rows([[3 + y] for y in label_ids]),
    }
    rows = features([[5, 9]] * 20, label_ids)
    assert scored(rows, rows, "single")["eval_accuracy"] == 0.5
    known = dataclasses.replace(rows, targets=hidden)
    assert scored(known, known, "single")["eval_accuracy"] == 1.0


def test_all_rows_are_counted_whatever_the_size_of_the_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    rows, label_ids = rng.integers(1, 9, (25, 6)).tolist(), np.arange(25) % 2
    train = features(rows, label_ids.astype(np.int32))
    whole = scored(train, train, "single")
    monkeypatch.setattr(naive_bayes, "_BLOCK", 3)
    assert scored(train, train, "single") == pytest.approx(whole)


def test_labels_whose_table_has_no_room_have_no_baseline(monkeypatch, capfd):
    train = features([[1], [2]], np.array([0, 1], np.int32))
    monkeypatch.setattr(naive_bayes, "_MOST_CELLS", 6)
    assert scored(train, train, "single")["eval_accuracy"] == 1.0
    monkeypatch.setattr(naive_bayes, "_MOST_CELLS", 5)
    single = PROBLEM_TYPES["single"]
    assert naive_bayes.scores(train, {"dev": train}, LABELS, problem_type=single) == {}
    assert (
        "no naive Bayes: 2 labels of 3 tokens make a table of 6"
        in capfd.readouterr().err
    )
    several = features([[1], [2]], np.array([[1, 0], [0, 1]], np.uint8))
    sets, multi = {"dev": several}, PROBLEM_TYPES["multi"]
    assert naive_bayes.scores(several, sets, LABELS, problem_type=multi) == {}
    assert "2 labels of 4 rows make a table of 8" in capfd.readouterr().err


def test_each_of_several_labels_has_a_model_of_its_own():
    label_ids = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], np.uint8)
    train = features([[1], [2], [1, 2], [3]] * 3, np.tile(label_ids, (3, 1)))
    dev = features([[1], [2]], np.array([[1, 0], [0, 1]], np.uint8))
    assert scored(train, dev, "multi")["eval_accuracy"] == 1.0


def test_a_set_with_an_unknown_label_has_no_loss():
    train = features([[1], [2]], np.array([0, 0], np.int32))
    dev = features([[1]], np.array([1], np.int32))
    assert "eval_loss" not in scored(train, dev, "single")


def test_values_have_no_baseline():
    rows = features([[1], [2]], np.zeros(2, np.float32))
    regression = PROBLEM_TYPES["regression"]
    assert naive_bayes.scores(rows, {"dev": rows}, (), problem_type=regression) == {}
