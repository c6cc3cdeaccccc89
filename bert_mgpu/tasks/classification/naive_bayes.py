"""Naive Bayes on the same tokens: what a model that reads must beat.

Multinomial naive Bayes of McCallum and Nigam 1998 by scikit-learn, over how often each
token occurs in a row. It is told nothing of their order, and takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_mgpu.core.rows import Features
from bert_mgpu.tasks.classification.problem_type import ProblemType, ScoredRows
from bert_mgpu.tasks.classification.problem_types import MULTI, SINGLE

NAME = "naive Bayes"
_BLOCK = 20_000  # rows


def scores(
    train: Features,
    sets: Mapping[str, Features],
    labels: Sequence[str],
    *,
    kind: ProblemType,
) -> dict[str, dict[str, float]]:
    """Name of a set -> its scores; empty where the task has no labels.

    A label without any row is never predicted; a set that has it gets no `eval_loss`,
    which would be infinite.
    """
    made = {SINGLE.name: _single, MULTI.name: _multi}.get(kind.name)
    if made is None:
        return {}
    width = 1 + max(
        int(rows.ragged["input_ids"].values.max()) for rows in (train, *sets.values())
    )
    counted = {name: _counts(rows, width) for name, rows in sets.items()}
    truth = train.dense["label_ids"]
    logits = made(_counts(train, width), truth, counted, n_labels=len(labels))
    found = {}
    for name, rows in sets.items():
        outputs = ScoredRows(logits[name], labels, truth=rows.dense["label_ids"])
        with np.errstate(invalid="ignore"):
            values = kind.score(outputs)
        found[name] = {key: one for key, one in values.items() if np.isfinite(one)}
    return found


def _counts(rows: Features, width: int) -> Any:
    """How often each token occurs: a sparse matrix [rows, width]."""
    from scipy import sparse

    column = rows.ragged["input_ids"]
    ones = np.ones(len(column.values), np.int32)
    shape = len(rows), width
    return sparse.csr_matrix((ones, column.values, column.offsets), shape=shape)


def _single(
    counts: Any, truth: np.ndarray, sets: Mapping[str, Any], *, n_labels: int
) -> dict[str, np.ndarray]:
    """Log probabilities [rows, labels]."""
    from sklearn.naive_bayes import MultinomialNB

    model = MultinomialNB()
    for first in range(0, len(truth), _BLOCK):  # it makes a dense [rows, labels]
        part = slice(first, first + _BLOCK)
        model.partial_fit(counts[part], truth[part], np.unique(truth))
    found = {}
    for name, rows in sets.items():
        logits = np.full((rows.shape[0], n_labels), -np.inf)
        logits[:, model.classes_] = model.predict_log_proba(rows)
        found[name] = logits
    return found


def _multi(
    counts: Any, truth: np.ndarray, sets: Mapping[str, Any], *, n_labels: int
) -> dict[str, np.ndarray]:
    """Logits [rows, labels], each label by a model of its own."""
    by_label = [
        _single(counts, truth[:, label], sets, n_labels=2) for label in range(n_labels)
    ]
    return {
        name: np.stack([one[name][:, 1] - one[name][:, 0] for one in by_label], -1)
        for name in sets
    }
