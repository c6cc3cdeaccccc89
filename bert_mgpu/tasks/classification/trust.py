"""How far scores can be trusted: intervals, floors, and one answer for all rows.

Letters: R rows, C classes, L labels, T draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bert_mgpu.core import intervals
from bert_mgpu.core.task import Trust
from bert_mgpu.tasks.classification import label_tables, metrics, ranking
from bert_mgpu.tasks.classification.problem_type import ScoredRows

_FEWEST = 20  # rows; one answer for fewer of them means little
_NEARLY_ALL = 0.95
_TOO_OFTEN = 1.1  # how many times as often an answer is given as it is true
_DRAWN = "labels drawn at random"
_NARROW = 0.1  # standard deviation of predictions, relative to that of the labels
_LEAST_PROBABILITIES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


def of_classes(
    truth: np.ndarray, predicted: np.ndarray, labels: Sequence[str]
) -> Trust:
    """How far scores of single labels can be trusted. truth, predicted: int [R]."""
    right, rows = int((truth == predicted).sum()), len(truth)
    found = {"eval_accuracy": intervals.wilson(right, rows)}
    if not rows:
        return Trust(found)
    # A model that finds rare classes may give fewer right answers than always the most
    # common one.
    judged = ["eval_accuracy", "macro_f1"]
    sizes, answers = (
        np.bincount(classes, minlength=len(labels)) for classes in (truth, predicted)
    )
    occurs = sizes + answers > 0
    found["macro_f1"] = intervals.of_classes(
        truth,
        predicted,
        lambda draws: macro_f1(draws, occurs),
        classes=len(labels),
    )
    if len(labels) == 2:
        found["f1"] = intervals.of_classes(truth, predicted, positive_f1, classes=2)
    said = int(answers.argmax())
    line = _one_answer(labels[said], int(answers[said]), int(sizes[said]), rows=rows)
    return Trust(found, _floors(sizes, labels), one_answer=line, judged=judged)


def _floors(sizes: np.ndarray, labels: Sequence[str]) -> dict[str, dict[str, float]]:
    """The scores of one answer for all rows, and of labels drawn as often as they are.

    sizes: the number of rows of each label, int [C].
    """
    shares = sizes / sizes.sum()
    most, classes = int(shares.argmax()), int(np.count_nonzero(sizes))
    always = f'always "{labels[most]}"'
    largest = float(shares[most])
    floors = {
        "eval_accuracy": {always: largest},
        "micro_f1": {always: largest},
        "macro_f1": {
            always: 2 * largest / (1 + largest) / classes,
            _DRAWN: 1 / classes,
        },
        "mcc": {_DRAWN: 0.0},
    }
    if len(labels) == 2:
        second = float(shares[1])
        floors["f1"] = {f'always "{labels[1]}"': 2 * second / (1 + second)}
        floors["auc"] = {_DRAWN: 0.5}
    return floors


def of_single(scored: ScoredRows, predicted: np.ndarray) -> Trust:
    """Like `of_classes`; where rows are ranked, by the order in their groups."""
    truth, groups = scored.truth, scored.groups
    found = of_classes(truth, predicted, scored.labels)
    if groups is None:
        return found
    each = ranking.group_scores(groups, scored.margins, truth=truth)
    if not each:
        return found
    ranked = {name: intervals.of_mean(scores) for name, scores in each.items()}
    random = ranking.random_scores(groups, truth)
    floors: dict[str, Mapping[str, float]] = {
        name: {"rows in a random order": score} for name, score in random.items()
    }
    floors = {**found.floors, **floors}
    return Trust({**found.intervals, **ranked}, floors, judged=["mrr"])


def confidence_cells(
    truth: np.ndarray, predicted: np.ndarray, logits: np.ndarray
) -> label_tables.Cells:
    """How many predictions reach a probability, and how many of those are right.

    A line for each least probability that some rows reach; the first is for all rows.
    truth, predicted: int [R]; logits: [R, C].
    """
    log_probs = metrics.log_softmax(logits)
    probabilities = np.exp(log_probs[np.arange(len(predicted)), predicted])
    lines: label_tables.Cells = [("probability", "predictions", "of all", "right")]
    for least in _LEAST_PROBABILITIES:
        if (kept := probabilities >= least).any():
            shares = (kept.mean(), (truth == predicted)[kept].mean())
            name = f"at least {least:g}" if least else "any"
            lines.append((name, f"{kept.sum():,}", *(f"{s:.1%}" for s in shares)))
    return lines


def _f1(drawn: intervals.Drawn) -> np.ndarray:
    """F1 of each class, 0 for those that do not occur: [T, C]."""
    both = drawn.predicted + drawn.true
    return 2 * drawn.right / np.maximum(both, 1)


def positive_f1(drawn: intervals.Drawn) -> np.ndarray:
    """F1 of the second class, as in scikit-learn; 0 if it does not occur: [T]."""
    return _f1(drawn)[:, 1]


def macro_f1(drawn: intervals.Drawn, classes: np.ndarray) -> np.ndarray:
    """Macro F1, as in scikit-learn, over these classes: bool [C] -> [T]."""
    return _f1(drawn)[:, classes].mean(-1)


def of_label_sets(
    truth: np.ndarray, chosen: np.ndarray, labels: Sequence[str]
) -> Trust:
    """How far scores of label sets can be trusted. truth, chosen: 0 or 1, [R, L]."""
    rows = len(truth)
    right = int((truth == chosen).all(-1).sum())
    found = {"eval_accuracy": intervals.wilson(right, rows)}
    if not rows:
        return Trust(found)
    sums = [(truth & chosen).sum(-1), chosen.sum(-1), truth.sum(-1)]
    found["micro_f1"] = intervals.of_rows(np.stack(sums, -1), intervals.f1)
    sets, counts = np.unique(chosen, axis=0, return_counts=True)
    said = sets[counts.argmax()]
    names = ", ".join(labels[n] for n in np.flatnonzero(said)) or "no label"
    true = int((truth == said).all(-1).sum())
    line = _one_answer(names, int(counts.max()), true, rows=rows)
    return Trust(found, _floors_of_sets(truth, labels), one_answer=line)


def _floors_of_sets(
    truth: np.ndarray, labels: Sequence[str]
) -> dict[str, dict[str, float]]:
    """The best scores of one set of labels for all rows. truth: 0 or 1, [R, L]."""

    def always(chosen: np.ndarray) -> str:
        names = ", ".join(labels[n] for n in np.flatnonzero(chosen))
        return f'always "{names}"' if names else "always no label"

    sets, counts = np.unique(truth, axis=0, return_counts=True)
    # The best micro F1 is that of the most common labels, for some number of them.
    sizes = truth.sum(0, dtype=np.int64)
    order = np.argsort(-sizes, kind="stable")
    given = len(truth) * np.arange(1, len(labels) + 1)
    f1 = 2 * sizes[order].cumsum() / (given + sizes.sum())
    most = np.isin(np.arange(len(labels)), order[: f1.argmax() + 1])
    accuracy = float(counts.max() / len(truth))
    return {
        "eval_accuracy": {always(sets[counts.argmax()]): accuracy},
        "micro_f1": {always(most): float(f1.max())},
    }


def of_values(truth: np.ndarray, predicted: np.ndarray) -> Trust:
    """How far the mean squared error of a regression can be trusted: float [R].

    Its interval is that of its ratio to the variance of the same rows' labels, times
    the variance of all labels: the labels that a set happens to hold change both.
    """
    if not len(truth):
        return Trust()
    truth, predicted = truth.astype(np.float64), predicted.astype(np.float64)
    variance, found = float(truth.var()), dict[str, intervals.Interval]()
    if variance:
        sums = np.stack([(truth - predicted) ** 2, (truth - truth.mean()) ** 2], -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = intervals.of_rows(sums, lambda own: own[:, 0] / own[:, 1])
        found["eval_loss"] = (low * variance, high * variance)
    line = ""
    if len(truth) >= _FEWEST and predicted.std() < _NARROW * truth.std():
        low, high = np.quantile(predicted, (0.025, 0.975))
        line = (
            f"nearly one value for all: 95 % of the predictions are {low:.4g} to"
            f" {high:.4g}, the labels {truth.min():.4g} to {truth.max():.4g}"
        )
    floors = {"eval_loss": {"always the mean label": variance}}
    return Trust(found, floors, one_answer=line)


def _one_answer(name: str, said: int, true: int, *, rows: int) -> str:
    if rows < _FEWEST or said < _NEARLY_ALL * rows or said < _TOO_OFTEN * true:
        return ""
    return f"{said} of {rows} rows are predicted as {name}, but only {true} are"
