"""Naive Bayes on the same tokens, the baseline that a model has to beat.

Multinomial naive Bayes (McCallum and Nigam 1998) by scikit-learn, over the counts of
tokens in each row. It ignores their order, and takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_mgpu.core.log import fact
from bert_mgpu.core.rows import Features, Ragged
from bert_mgpu.tasks.classification import ranking
from bert_mgpu.tasks.classification.problem_type import ProblemType, ScoredRows
from bert_mgpu.tasks.classification.problem_types import MULTI, SINGLE

NAME = "naive Bayes"
_BLOCK = 20_000  # rows
# Of a table of labels by tokens, of which a model of type single holds three, 1.2 GB;
# or of labels by rows, for which those of type multi take a minute.
_MOST_CELLS = 50_000_000


def scores(
    train: Features,
    sets: Mapping[str, Features],
    labels: Sequence[str],
    *,
    problem_type: ProblemType,
) -> dict[str, dict[str, float]]:
    """Name of a set -> its scores; empty if the task has no labels, or too many.

    A label without training rows is never predicted; a set that has it gets no
    `eval_loss`, which would be infinite.
    """
    predict = {SINGLE.name: _single, MULTI.name: _multi}.get(problem_type.name)
    if predict is None:
        return {}
    width = 1 + max(
        int(column.values.max(initial=0))
        for rows in (train, *sets.values())
        for column in _tokens(rows)
    )
    size, what = width, "tokens"
    if predict is _multi:
        size, what = sum(map(len, (train, *sets.values()))), "rows"
    if (cells := len(labels) * size) > _MOST_CELLS:
        fact(
            "baseline",
            f"no {NAME}: {len(labels)} labels of {size} {what} make a table of"
            f" {cells:,} numbers",
        )
        return {}
    truth = train.dense["label_ids"]
    counts = {name: _counts(rows, width) for name, rows in sets.items()}
    logits = predict(_counts(train, width), truth, counts, n_labels=len(labels))
    finite = {}
    for name, rows in sets.items():
        scored = ScoredRows(
            logits[name],
            labels,
            truth=rows.dense["label_ids"],
            groups=ranking.groups_of(rows),
        )
        with np.errstate(invalid="ignore"):
            values = problem_type.score(scored)
        finite[name] = {key: v for key, v in values.items() if np.isfinite(v)}
    return finite


def _counts(rows: Features, width: int) -> Any:
    """The counts of tokens in rows: a sparse matrix [rows, width]."""
    from scipy import sparse

    shape = len(rows), width
    return sum(
        sparse.csr_matrix(
            (np.ones(len(column.values), np.int32), column.values, column.offsets),
            shape=shape,
        )
        for column in _tokens(rows)
    )


def _tokens(rows: Features) -> list[Ragged]:
    """The tokens of each row, and those that stand behind its masks."""
    behind = rows.targets.get("masked_lm_ids")
    return [rows.ragged["input_ids"], *([] if behind is None else [behind])]


def _single(
    counts: Any, truth: np.ndarray, sets: Mapping[str, Any], *, n_labels: int
) -> dict[str, np.ndarray]:
    """Name of a set -> log probabilities [rows, labels]."""
    from sklearn.naive_bayes import MultinomialNB

    model = MultinomialNB()
    for first in range(0, len(truth), _BLOCK):  # partial_fit allocates [rows, labels]
        part = slice(first, first + _BLOCK)
        model.partial_fit(counts[part], truth[part], np.unique(truth))
    log_probs = {}
    for name, rows in sets.items():
        log_probs[name] = np.full((rows.shape[0], n_labels), -np.inf)
        log_probs[name][:, model.classes_] = model.predict_log_proba(rows)
    return log_probs


def _multi(
    counts: Any, truth: np.ndarray, sets: Mapping[str, Any], *, n_labels: int
) -> dict[str, np.ndarray]:
    """Name of a set -> logits [rows, labels], from a model for each label."""
    models = [
        _single(counts, truth[:, label], sets, n_labels=2) for label in range(n_labels)
    ]
    return {
        name: np.stack([of[name][:, 1] - of[name][:, 0] for of in models], -1)
        for name in sets
    }
