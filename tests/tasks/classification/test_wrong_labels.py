"""Labels that were planted wrong are doubted first; sound ones are not."""

import random

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import SGDClassifier

from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.classification import wrong_labels

WORDS = {
    "sport": ["match", "goal", "team", "coach", "win", "league"],
    "money": ["bank", "share", "market", "price", "fund", "loan"],
    "film": ["actor", "scene", "director", "plot", "screen", "cast"],
}


def examples(count, wrong=()):
    """Texts whose words tell their label, but for rows that have the next one.

    Each has a few words of any label, and a number of its own.
    """
    rng, names = random.Random(0), [*WORDS]
    every = [word for words in WORDS.values() for word in words]
    rows = []
    for n in range(count):
        words = rng.choices(WORDS[names[n % 3]], k=6) + rng.choices(every, k=2)
        text = " ".join([*words, str(n)])
        label = names[(n + (n in wrong)) % 3]
        rows.append(Example(n, text, None, label, n + 1))
    return rows


def test_planted_labels_are_the_ones_that_are_doubted():
    wrong = {10, 33, 71, 104, 200}
    actual = wrong_labels.find(examples(300, wrong))
    assert {doubt.row for doubt in actual.found} == wrong
    names = [*WORDS]
    for doubt in actual.found:
        assert doubt.suggested == names[doubt.row % 3] and doubt.probability > 0.6
        assert doubt.label == names[(doubt.row + 1) % 3]
    assert actual.rows == 300 and actual.right == pytest.approx(295 / 300)


def test_sound_labels_are_not_doubted():
    assert wrong_labels.find(examples(300)).found == []


def test_the_same_call_gives_the_same():
    rows = examples(90, {4, 5})
    assert wrong_labels.find(rows) == wrong_labels.find(rows)


def test_a_copy_with_the_same_mistake_is_no_witness():
    """Rows of one text are in one fold: none learns from the other."""
    rows = examples(300)
    copies = [
        Example(300 + n, rows[n].text_a, None, "film", n) for n in (0, 0, 0, 1, 1)
    ]
    found = {doubt.row for doubt in wrong_labels.find([*rows, *copies]).found}
    assert {300, 301, 302, 303, 304} <= found


def test_labels_of_few_rows_are_left_out():
    odd = [Example(n, "a text of another kind", None, "odd", n) for n in range(9)]
    actual = wrong_labels.find([*examples(90), *odd])
    assert actual.rows == 90 and all(doubt.row < 90 for doubt in actual.found)
    assert wrong_labels.find(odd).rows == 0


def test_what_takes_long_is_said_before(monkeypatch):
    said = []
    monkeypatch.setattr(wrong_labels, "fact", lambda *words: said.append(words))
    wrong_labels.find(examples(60))
    assert said == []
    monkeypatch.setattr(wrong_labels, "_STEP", 1.0)
    monkeypatch.setattr(wrong_labels, "_matrix", lambda _: sparse.eye(60, format="csr"))
    wrong_labels.find(examples(60))  # 60 values x 3 labels x 4 folds x 20 epochs
    assert said == [("labels", "60 texts and 3 labels: to check them takes 4.0 hours")]


def test_no_row_is_seen_by_the_model_that_answers_it(monkeypatch):
    seen = []
    fit, predict = SGDClassifier.fit, SGDClassifier.predict_proba

    def learn(model, matrix, truth):
        seen.append(({row.tobytes() for row in matrix.toarray()}, set()))
        return fit(model, matrix, truth)

    def answer(model, matrix):
        seen[-1][1].update(row.tobytes() for row in matrix.toarray())
        return predict(model, matrix)

    monkeypatch.setattr(SGDClassifier, "fit", learn)
    monkeypatch.setattr(SGDClassifier, "predict_proba", answer)
    wrong_labels.find(examples(60))
    assert len(seen) == 5 and not any(learnt & asked for learnt, asked in seen)


def test_the_confident_joint_by_hand():
    """Northcutt et al. 2021, section 3.1, worked out: thresholds 0.6 and 0.7.

    Row 2 reaches the threshold of the other label alone; row 5 that of no label; row 6
    reaches its own too, but the other one is as probable as it is.
    """
    first = [0.9, 0.8, 0.1]  # of the label 0, mean 0.6
    second = [0.95, 0.9, 0.45, 0.5]  # of the label 1, mean 0.7
    probabilities = np.array([[p, 1 - p] for p in first] + [[1 - p, p] for p in second])
    truth = np.array([0, 0, 0, 1, 1, 1, 1])
    assert wrong_labels.doubted(probabilities, truth).tolist() == [2]
    probabilities[6] = [0.62, 0.38]  # now the mean of the label 1 is 0.67
    assert wrong_labels.doubted(probabilities, truth).tolist() == [2, 6]


def test_a_model_of_pairs_sees_what_both_have():
    rng = random.Random(1)
    words = [word for words in WORDS.values() for word in words]
    rows = []
    for n in range(400):
        one = rng.sample(words, 4)
        other = rng.sample(one, 4) if n % 2 else rng.sample(words, 4)
        rows.append(Example(n, " ".join(one), " ".join(other), "ab"[n % 2], n))
    assert wrong_labels.find(rows).right > 0.8
