"""The best answers of each question, found as google-research/bert's run_squad.py does.

In each window, the `n_best` highest starts and ends are paired. A pair is an answer if
its start lies in the window's core, its end is not before the start, and it is not too
long. The pairs of all windows of a question are sorted by the sum of their two logits;
of equal texts, the first is kept. The score of "no answer" is the lowest sum of the
logits at [CLS] over all windows. Letters: W windows, B windows of a block, n = n_best,
A answers.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rows import Ragged
from bert_mgpu.tasks.span_qa.dataset import WindowTokens

# That are paired at once, at most: windows, and tokens.
_BLOCK, _CELLS = 512, 1 << 20
NO_BEST = 1e6  # null odds if only "no answer" is found; Google's code fails there


class Pairs(NamedTuple):
    """Possible answers, the best of each question first: arrays [A]."""

    questions: np.ndarray  # int64
    windows: np.ndarray  # int64
    starts: np.ndarray  # int64: the first token, among those of all contexts
    ends: np.ndarray  # int64: the last token, likewise
    start_logits: np.ndarray  # float64
    end_logits: np.ndarray  # float64

    @property
    def scores(self) -> np.ndarray:
        return self.start_logits + self.end_logits


class Answer(NamedTuple):
    """A predicted answer; "no answer" has the text "", and -1 as start and end."""

    text: str  # whitespace collapsed, as in Google's files
    start: int  # in characters of the context
    end: int  # excluded
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        return self.start_logit + self.end_logit


def pairs(
    logits: Ragged,
    windows: WindowTokens,
    cores: np.ndarray,
    *,
    owners: np.ndarray,
    n_best: int,
    max_answer_length: int,
) -> Pairs:
    """All pairs that are answers.

    logits: float32 [tokens of a row, 2] for each window; cores: int32 [W, 2], in tokens
    of the window; owners: int64 [W], the question of each window.
    """
    block = min(_BLOCK, max(1, _CELLS // n_best**2))  # windows
    parts = [
        _block_pairs(
            logits,
            windows,
            cores,
            numbers=np.arange(first, min(first + block, len(owners))),
            n_best=n_best,
            max_answer_length=max_answer_length,
        )
        for first in range(0, len(owners), block)
    ]
    window, starts, ends, start_logits, end_logits = map(
        np.concatenate, zip(*parts, strict=True)
    )
    own = owners[window]
    order = np.lexsort((-(start_logits + end_logits), own))  # stable
    columns = (own, window, starts, ends, start_logits, end_logits)
    return Pairs(*(column[order] for column in columns))


def _block_pairs(
    logits: Ragged,
    windows: WindowTokens,
    cores: np.ndarray,
    *,
    numbers: np.ndarray,
    n_best: int,
    max_answer_length: int,
) -> tuple[np.ndarray, ...]:
    """The pairs of some windows, by window, rank of the start and rank of the end."""
    lengths = logits.lengths[numbers]
    inside = np.arange(lengths.max()) < lengths[:, None]  # [B, T]
    padded = np.full((*inside.shape, 2), -np.inf)
    padded[inside] = logits.take(numbers).values
    # Stable: of equal logits the first token comes first.
    best = np.argsort(-padded, axis=1, kind="stable")[:, :n_best]  # [B, n, 2]
    chosen = np.take_along_axis(padded, best, 1)
    places = best - windows.heads[numbers, None, None]  # in the window
    starts, ends = places[:, :, None, 0], places[:, None, :, 1]
    core_starts, core_ends = cores[numbers].T[:, :, None, None]
    right = (core_starts <= starts) & (starts < core_ends) & (starts <= ends)
    right &= ends < windows.sizes[numbers, None, None]
    right &= ends - starts < max_answer_length
    block, start, end = np.nonzero(right)
    firsts = windows.firsts[numbers][block]
    return (
        numbers[block],
        firsts + places[block, start, 0],
        firsts + places[block, end, 1],
        chosen[block, start, 0],
        chosen[block, end, 1],
    )


def null_scores(logits: Ragged, owners: np.ndarray) -> np.ndarray:
    """The logits of "no answer" for each question: float64 [questions, 2].

    They are those at [CLS] of the window where their sum is lowest.
    """
    own = logits.values[logits.offsets[:-1]].astype(np.float64)  # [W, 2]
    order = np.lexsort((own.sum(1), owners))  # stable
    return own[order[np.flatnonzero(np.diff(owners[order], prepend=-1))]]


def best_answers(
    found: Pairs,
    places: np.ndarray,
    contexts: list[str],
    *,
    n_best: int,
    null: np.ndarray | None,
) -> Iterator[list[Answer]]:
    """Yields the n-best list of each question; it is empty if nothing is found.

    places: int32 [tokens of all contexts, 2]; contexts: one for each question; null:
    see `null_scores`, None if every question has an answer. "No answer" comes after
    answers of the same score; if the list is full without it, it is appended.
    """
    count = len(contexts)
    borders = np.searchsorted(found.questions, np.arange(count + 1))
    starts = places[found.starts, 0].tolist()
    ends = places[found.ends, 1].tolist()
    logits = np.stack([found.start_logits, found.end_logits], 1)
    for number, context in enumerate(contexts):
        none = None if null is None else answer_of((-1, -1), null[number])
        answers: dict[str, Answer] = {}
        for index in range(borders[number], borders[number + 1]):
            if len(answers) >= n_best:
                break
            own = answer_of((starts[index], ends[index]), logits[index])
            if none and none.text not in answers and none.score > own.score:
                answers[none.text] = none
                if len(answers) >= n_best:
                    break
            text = " ".join(context[own.start : own.end].split())
            answers.setdefault(text, own._replace(text=text))
        if none:
            answers.setdefault(none.text, none)
        yield [*answers.values()]


def answer_of(place: tuple[int, int], logits: Sequence[float]) -> Answer:
    """An answer without its text. logits: of its start and its end."""
    start, end = map(float, logits)
    return Answer("", *place, start_logit=start, end_logit=end)


def null_odds(answers: list[Answer], null: np.ndarray) -> float:
    """The score of "no answer" minus that of the best answer."""
    best = next((one for one in answers if one.text), None)
    return NO_BEST if best is None else float(null.sum()) - best.score


def probabilities(answers: Sequence[Answer]) -> list[float]:
    """The softmax over the scores of an n-best list, added in its order."""
    highest = max(one.score for one in answers)
    shares = [math.exp(one.score - highest) for one in answers]
    total = functools.reduce(operator.add, shares)  # sum()'s rounding depends on Python
    return [share / total for share in shares]
