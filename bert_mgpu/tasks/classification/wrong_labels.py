"""Labels that are likely wrong, by a quick model that has not seen the row.

The model is a logistic regression on TF-IDF of character n-grams, learnt by stochastic
gradient descent (scikit-learn): for each of five folds it learns from the other four.
Confident learning (Northcutt et al. 2021, "Confident Learning: Estimating Uncertainty
in Dataset Labels") then doubts the label of a row if another label is as probable there
as, on average, in the rows that have that other label.
Letters: R rows, L labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_mgpu.core import hashing, units
from bert_mgpu.core.log import fact
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.data_checks import LabelIssue, LabelIssues

FOLDS = 5
_FEW = 2 * FOLDS  # texts; a label with fewer is neither learnt nor doubted
_LONGEST_GRAM, _MOST_GRAMS = 4, 50_000  # characters; different n-grams
_READ = 1000  # characters of a text that are read
_DECAY, _EPOCHS, _SEED = 1e-4, 20, 0
# Seconds of a step for each n-gram of a text and label, on AMD EPYC; from how many
# seconds on a line says so.
_STEP, _LONG = 2.5e-9, 10.0


def find(examples: Sequence[Example]) -> LabelIssues:
    """Rows whose label is doubted, the most doubtful first. examples: with labels."""
    names, truth = np.unique([str(one.label) for one in examples], return_inverse=True)
    _, first = np.unique(_keys(examples), return_index=True)
    counts = np.bincount(truth[first], minlength=len(names))  # of different texts
    known = np.flatnonzero(counts[truth] >= _FEW)
    labels, own = np.unique(truth[known], return_inverse=True)
    if len(labels) < 2:
        return LabelIssues(0, 0.0, 0.0, found=[], needed=_FEW)
    some = [examples[row] for row in known]
    probabilities = out_of_fold(some, own)
    right = float((probabilities.argmax(1) == own).mean())
    rows = doubted(probabilities, own)
    said = suggested(probabilities, own)
    found = [
        LabelIssue(
            int(known[row]),
            str(names[labels[own[row]]]),
            str(names[labels[said[row]]]),
            probability=float(probabilities[row, said[row]]),
        )
        for row in rows
    ]
    most_common = float(np.bincount(own).max() / len(own))
    return LabelIssues(len(some), right, most_common, found=found, needed=_FEW)


def suggested(probabilities: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The most probable label other than its own, for each row: int64 [R]."""
    others = probabilities.copy()
    others[np.arange(len(truth)), truth] = -1
    return others.argmax(1)


def doubted(probabilities: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Rows off the diagonal of the confident joint, the most doubtful first.

    probabilities: float [R, L], of models that have not seen the row; truth: int [R].
    A label's threshold is its mean probability over the rows that have it. Of the
    labels that reach their thresholds in a row, the most probable one is taken for the
    true one; rows whose own label is another are doubted. They are sorted by how much
    more probable the most probable other label is than the row's own.
    """
    rows = np.arange(len(truth))
    own = probabilities[rows, truth]
    thresholds = np.bincount(truth, own) / np.bincount(truth)  # [L]
    reach = np.where(probabilities >= thresholds, probabilities, -1.0)
    is_meant = (reach.max(1) >= 0) & (reach.argmax(1) != truth)
    margin = own - probabilities[rows, suggested(probabilities, truth)]
    order = np.argsort(margin, kind="stable")
    return order[is_meant[order]]


def out_of_fold(examples: Sequence[Example], truth: np.ndarray) -> np.ndarray:
    """The probabilities of models that have not seen a row's text: float [R, L].

    truth: int [R]; each of the L labels occurs several times.
    """
    from sklearn.linear_model import SGDClassifier
    from sklearn.model_selection import StratifiedKFold

    matrix, labels = _matrix(examples), int(truth.max()) + 1
    seconds = _STEP * (FOLDS - 1) * _EPOCHS * labels * matrix.nnz
    if seconds >= _LONG:
        texts = f"{len(truth)} texts and {labels} labels"
        fact("labels", f"{texts}: to check them takes {units.duration_text(seconds)}")
    keys = _keys(examples)
    _, first, text = np.unique(keys, return_index=True, return_inverse=True)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=_SEED)
    fold = np.empty(len(first), np.int64)  # of each text
    for number, (_, held) in enumerate(folds.split(first, truth[first])):
        fold[held] = number
    probabilities = np.zeros((len(truth), labels))
    for number in range(FOLDS):
        held = fold[text] == number
        model = SGDClassifier(
            loss="log_loss",
            alpha=_DECAY,
            max_iter=_EPOCHS,
            tol=None,
            random_state=_SEED,
        )
        model.fit(matrix[~held], truth[~held])
        rows = np.ix_(np.flatnonzero(held), model.classes_)
        probabilities[rows] = model.predict_proba(matrix[held])
    return probabilities


def _keys(examples: Sequence[Example]) -> list[int]:
    """Hashes of the texts of examples, equal for equal texts."""
    return [hashing.text_key(one.text_a, one.text_b) for one in examples]


def _matrix(examples: Sequence[Example]) -> Any:
    """Sparse [R, features]; for pairs: both texts, their product and difference."""
    from scipy import sparse
    from sklearn.feature_extraction.text import TfidfVectorizer

    cut = TfidfVectorizer(
        analyzer="char_wb",
        ngram_range=(1, _LONGEST_GRAM),
        max_features=_MOST_GRAMS,
        sublinear_tf=True,
        dtype=np.float32,
    )
    texts = [one.text_a[:_READ] for one in examples]
    seconds = [(one.text_b or "")[:_READ] for one in examples]
    cut.fit(texts + seconds)
    first = cut.transform(texts)
    if not any(seconds):
        return first
    second = cut.transform(seconds)
    apart = abs(first - second)
    return sparse.hstack([first.multiply(second), apart, first, second]).tocsr()
