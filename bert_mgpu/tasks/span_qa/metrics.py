"""Scores of answers, in per cent: those of SQuAD 1.1 and 2.0, and of CMRC 2018.

SQuAD (Rajpurkar et al. 2016, 2018) compares words, and takes a Chinese answer for one
word; CMRC (Cui et al. 2019) compares Chinese characters, and words of other scripts. Of
several true answers, the best-scoring one counts. Letters: Q questions.
"""

from __future__ import annotations

import collections
import re
import string
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_mgpu.core import intervals
from bert_mgpu.core.errors import short_repr
from bert_mgpu.core.task import Trust

_NEARLY_ALL, _FEWEST = 0.95, 20  # remark: least share of one answer, fewest questions
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
# What CMRC's script removes from answers. Its entry …… has two characters, so it never
# matches.
_CMRC_LEFT_OUT = {*"-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"}
_CHINESE = re.compile("[\u4e00-\u9fa5]")
# Where CMRC's code splits non-Chinese text into words, by NLTK's rules for the Penn
# Treebank: at this punctuation, at the last full stop, before English endings.
_CUTS = (
    (
        re.compile(r"""(\.{2,}|[;@#$%&?!()\[\]{}<>"«»„‘\u2012-\u2015]|,(?!\d))"""),
        r" \1 ",
    ),
    (re.compile(r"""([^.])(\.)([])}>"' ]*)\s*$"""), r"\1 \2 \3 "),
    (re.compile(r"(?<!\w)'(?!(?:re|ve|ll|[mtsdn])\b)(?=\w)"), "' "),
    (re.compile(r"(?<=[^' ])(n't|'(?:s|m|d|ll|re|ve))(?=\s|$)"), r" \1 "),
)

Score = Callable[[str, str], float]  # (true, predicted) -> 0 to 1


def normalized(text: str) -> str:
    """Lower-cases a text, drops punctuation and articles, collapses whitespace."""
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact(true: str, predicted: str) -> float:
    return float(normalized(true) == normalized(predicted))


def f1(true: str, predicted: str) -> float:
    """SQuAD 2.0's F1 of the words; if a text has none: 1 if both have none, else 0."""
    words, said = normalized(true).split(), normalized(predicted).split()
    if not (words and said):
        return float(words == said)
    common = (collections.Counter(words) & collections.Counter(said)).total()
    return _harmonic(common, len(words), len(said))


def f1_squad11(true: str, predicted: str) -> float:
    """SQuAD 1.1's F1: like `f1`, but 0 if neither text has any word."""
    return f1(true, predicted) if normalized(true) else 0.0


def cmrc_exact(true: str, predicted: str) -> float:
    sides = (
        "".join(char for char in text.lower().strip() if char not in _CMRC_LEFT_OUT)
        for text in (true, predicted)
    )
    return float(len({*sides}) == 1)


def cmrc_f1(true: str, predicted: str) -> float:
    """CMRC's F1: of the longest run of characters and words that both texts have."""
    segments, said = _segments(true), _segments(predicted)
    return _harmonic(_longest_common(segments, said), len(segments), len(said))


def _harmonic(common: int, true: int, predicted: int) -> float:
    if not common:
        return 0.0
    precision, recall = common / predicted, common / true
    return 2 * precision * recall / (precision + recall)


def _segments(text: str) -> list[str]:
    """Splits a text into Chinese characters and the words between them."""
    kept = "".join(c for c in text.lower().strip() if c not in _CMRC_LEFT_OUT)
    segments, end = list[str](), 0
    for match in _CHINESE.finditer(kept):
        segments += [*_words(kept[end : match.start()]), match[0]]
        end = match.end()
    return segments + _words(kept[end:])


def _words(text: str) -> list[str]:
    for pattern, cut in _CUTS:
        text = pattern.sub(cut, text)
    return text.split()


def _longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the longest run of segments that both have."""
    best, before = 0, [0] * (len(other) + 1)
    for segment in one:
        runs = [
            before[index] + 1 if segment == right else 0
            for index, right in enumerate(other)
        ]
        best, before = max([best, *runs]), [0, *runs]
    return best


def question_scores(
    truth: Sequence[Sequence[str]], predicted: Sequence[str], score: Score
) -> np.ndarray:
    """The score of each prediction: float64 [Q].

    Without a true answer, a prediction is compared with "", so that predicting nothing
    is right by every score; CMRC's script has no such questions.
    """
    return np.array(
        [
            max(score(text, said) for text in texts or ("",)) if texts or said else 1.0
            for texts, said in zip(truth, predicted, strict=True)
        ]
    )


class Best(NamedTuple):
    score: float
    threshold: float


def at_thresholds(
    with_answer: np.ndarray, none: np.ndarray, odds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The distinct null odds as thresholds, and the sums of scores that they give.

    See `best_threshold`. Below the lowest threshold the sum is that of `none`.
    """
    order = np.argsort(odds, kind="stable")
    totals = none.sum() + np.cumsum((with_answer - none)[order])
    # Only behind the last of equal odds is there a threshold.
    ends = np.flatnonzero(np.diff(odds[order], append=np.inf) > 0)
    return odds[order][ends], totals[ends]


def best_threshold(with_answer: np.ndarray, none: np.ndarray, odds: np.ndarray) -> Best:
    """The highest mean score that any threshold on the null odds gives.

    with_answer, none: the score of each question if an answer is predicted, and if none
    is, which is where the odds exceed the threshold; all float64 [Q]. Of thresholds
    with equal scores the lowest is returned, which is one of the odds, or 0.
    """
    best = Best(float(none.sum()), 0.0)
    for threshold, total in zip(*at_thresholds(with_answer, none, odds), strict=True):
        if total > best.score:
            best = Best(float(total), float(threshold))
    return Best(best.score / max(1, len(odds)), best.threshold)


def scores(
    truth: Sequence[Sequence[str]], predicted: Sequence[str], *, chinese: bool
) -> dict[str, float]:
    """SQuAD 1.1's scores, if all questions have answers; chinese: CMRC's, too."""
    found = {
        "exact_match": _percent(question_scores(truth, predicted, exact)),
        "f1": _percent(question_scores(truth, predicted, f1_squad11)),
    }
    cmrc = _cmrc(truth, predicted) if chinese else {}
    return found | {name: _percent(own) for name, own in cmrc.items()}


def _cmrc(
    truth: Sequence[Sequence[str]], predicted: Sequence[str]
) -> dict[str, np.ndarray]:
    """CMRC's scores of each question, by name."""
    return {
        "cmrc_em": question_scores(truth, predicted, cmrc_exact),
        "cmrc_f1": question_scores(truth, predicted, cmrc_f1),
    }


def scores_with_negative(
    truth: Sequence[Sequence[str]],
    predicted: Sequence[str],
    *,
    answers: Sequence[str],
    odds: np.ndarray,
    chinese: bool = False,
) -> dict[str, Any]:
    """SQuAD 2.0's scores, if questions may have no answer; chinese: CMRC's, too.

    answers: the best answers apart from "no answer"; odds: see `answers.null_odds`.
    """
    # As in SQuAD's script, which drops answers without words only after this.
    has = np.array([bool(texts) for texts in truth])
    truth = [[text for text in texts if normalized(text)] for texts in truth]
    each = {
        name: question_scores(truth, predicted, score)
        for name, score in (("exact", exact), ("f1", f1))
    }
    if chinese:
        each |= _cmrc(truth, predicted)
    found: dict[str, Any] = {name: _percent(own) for name, own in each.items()}
    found["total"] = len(has)
    for part, mask in (("HasAns", has), ("NoAns", ~has)):
        if mask.any():
            for name, own in each.items():
                found[f"{part}_{name}"] = _percent(own[mask])
            found[f"{part}_total"] = int(mask.sum())
    for name, score in (("exact", exact), ("f1", f1)):
        with_answer = question_scores(truth, answers, score)
        best = best_threshold(with_answer, (~has).astype(float), odds)
        found[f"best_{name}"] = 100 * best.score
        found[f"best_{name}_thresh"] = best.threshold
    return found


def trust(
    truth: Sequence[Sequence[str]],
    predicted: Sequence[str],
    *,
    chinese: bool,
    negative: bool = False,
) -> Trust:
    """The intervals of F1 and of exact answers, and a remark if nearly all questions
    get the same answer.
    """
    if not predicted:
        return Trust()
    name, score = "f1", f1 if negative else f1_squad11
    name_exact, is_exact = "exact" if negative else "exact_match", exact
    if chinese:
        name, score, name_exact, is_exact = "cmrc_f1", cmrc_f1, "cmrc_em", cmrc_exact
    right = int(question_scores(truth, predicted, is_exact).sum())
    found = {
        name: intervals.of_mean(question_scores(truth, predicted, score)),
        name_exact: intervals.wilson(right, len(predicted)),
    }
    said, count = collections.Counter(predicted).most_common(1)[0]
    true = sum(said in (texts or ("",)) for texts in truth)
    line = ""
    if count >= _NEARLY_ALL * len(predicted) >= _FEWEST and count > 1.1 * true:
        answer = f"the answer {short_repr(said)}" if said else "no answer"
        line = (
            f"{count} of {len(predicted)} questions get {answer}, which is right for"
            f" {true}"
        )
    percent = {name: (100 * low, 100 * high) for name, (low, high) in found.items()}
    return Trust(percent, one_answer=line)


def _percent(values: np.ndarray) -> float:
    return 100 * float(values.mean()) if len(values) else 0.0
