"""Scores of rewritten texts, in per cent, and of unchanged ones for comparison.

`sari` is LaserTagger's (Malmi et al. 2019), after Xu et al. 2016: an n-gram counts once
per text, 0 / 0 is 1, and deletions have an F score, too. `bleu` is sacrebleu's (Post
2018). An edit is right if its place and what it writes are right. Letters: R rows.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core import intervals
from bert_mgpu.core.task import Trust
from bert_mgpu.text.edits import TokenEdit
from bert_mgpu.text.realise import on_one_line
from bert_mgpu.text.words import is_kana, is_unspaced_script

NAMES = (
    *("exact_match", "sari", "sari_keep", "sari_addition", "sari_deletion", "bleu"),
    *("edit_precision", "edit_recall", "edit_f0.5", "changed"),
)
_LONGEST = 4  # words of the longest n-grams
_FEWEST, _HARDLY = 20, 0.05  # remark: fewest texts to change, highest share changed
_KANA = 0.1  # the share of kana in a text that is not Chinese
_BETA = 0.5  # of the F score of edits: precision counts more than recall

Words = Sequence[str]


class Sari(NamedTuple):
    """SARI, which is the mean of the other three; all are fractions."""

    sari: float
    keep: float
    addition: float
    deletion: float


class Bleu(NamedTuple):
    score: float  # in per cent
    signature: str  # sacrebleu's, for comparisons


class RewritingScores(NamedTuple):
    values: dict[str, float]  # by NAMES
    bleu_signature: str


def scores(
    sources: Sequence[str],
    predicted: Sequence[str],
    targets: Sequence[str],
    *,
    edits: Sequence[Collection[TokenEdit]],
    true_edits: Sequence[Collection[TokenEdit]],
    slot_marker: str = "",
) -> RewritingScores:
    """The scores of a set: R texts each, and the edits that turn sources into them.

    For the scores of copying, pass the sources as predictions, without edits. Slot
    markers do not count as words.
    """
    bleu = bleu_of([_unmarked(text, slot_marker) for text in predicted], targets)
    each = [
        _sari(source, said, target, marker=slot_marker)
        for source, said, target in zip(sources, predicted, targets, strict=True)
    ]
    columns = zip(*each, strict=True) if each else [()] * len(Sari._fields)
    own = [_percent(column) for column in columns]
    values = [
        _percent(map(str.__eq__, predicted, targets)),
        *own,
        bleu.score,
        *edit_scores(edits, true_edits),
        _percent(map(str.__ne__, predicted, sources)),
    ]
    return RewritingScores(dict(zip(NAMES, values, strict=True)), bleu.signature)


def trust(
    sources: Sequence[str],
    predicted: Sequence[str],
    targets: Sequence[str],
    *,
    slot_marker: str = "",
) -> Trust:
    """The intervals of SARI and exact matches; a remark if hardly a text is changed."""
    if not targets:
        return Trust()
    right = sum(map(str.__eq__, predicted, targets))
    low, high = intervals.wilson(right, len(targets))
    each = [
        text_sari(*texts, slot_marker=slot_marker)
        for texts in zip(sources, predicted, targets, strict=True)
    ]
    of_sari = intervals.of_mean(np.array(each))
    changed, asked = (
        sum(map(str.__ne__, own, sources)) for own in (predicted, targets)
    )
    line = ""
    if asked >= _FEWEST and changed < _HARDLY * asked:
        line = f"{changed} of {len(sources)} texts are changed, where {asked} should be"
    found = {"sari": of_sari, "exact_match": (100 * low, 100 * high)}
    return Trust(found, one_answer=line)


def text_sari(
    source: str, predicted: str, target: str, *, slot_marker: str = ""
) -> float:
    """SARI of one text, in per cent."""
    return 100 * _sari(source, predicted, target, marker=slot_marker).sari


def _sari(source: str, predicted: str, target: str, *, marker: str) -> Sari:
    own, said = (words(_unmarked(text, marker)) for text in (source, predicted))
    return sari(own, said, [words(target)])


def _unmarked(text: str, marker: str) -> str:
    return text.replace(marker, " ") if marker else text


def words(text: str) -> list[str]:
    """Splits a text at whitespace, and scripts written without it into characters."""
    apart = (f" {char} " if is_unspaced_script(char) else char for char in text)
    return "".join(apart).split()


def sari(
    source: Words, predicted: Words, targets: Sequence[Words], *, beta: float = 1
) -> Sari:
    """SARI of one text, against one target or several.

    beta: of the deletions' F score; 1 in LaserTagger, 0 for the paper's precision.
    """
    parts = []
    for size in range(1, _LONGEST + 1):
        before, after = _grams(source, size), _grams(predicted, size)
        grams = [own for own in (_grams(target, size) for target in targets) if own]
        count = collections.Counter(gram for own in grams for gram in own)
        # The share of the targets that have an n-gram.
        share = collections.defaultdict[tuple[str, ...], float](float)
        share.update({gram: number / len(grams) for gram, number in count.items()})
        kept, gone, new = before & after, before - after, after - before
        keep = _f(
            sum(share[gram] for gram in kept),
            len(kept),
            relevant=sum(share[gram] for gram in before),
        )
        addition = _f(
            len(new & count.keys()), len(new), relevant=len(count.keys() - before)
        )
        deletion = _f(
            sum(1 - share[gram] for gram in gone),
            len(gone),
            relevant=sum(1 - share[gram] for gram in before),
            beta=beta,
        )
        parts.append((keep, addition, deletion))
    means = [sum(column) / _LONGEST for column in zip(*parts, strict=True)]
    return Sari(sum(means) / len(means), *means)


def _grams(text: Words, size: int) -> set[tuple[str, ...]]:
    """The n-grams of a text."""
    return {*zip(*(text[start:] for start in range(size)), strict=False)}


def _f(right: float, selected: float, *, relevant: float, beta: float = 1) -> float:
    """The F score, where 0 / 0 is 1; with beta 0, the precision."""
    precision = right / selected if selected else 1.0
    recall = right / relevant if relevant else 1.0
    return _weighted(precision, recall, beta)


def _weighted(precision: float, recall: float, beta: float) -> float:
    """The F score (van Rijsbergen 1979): recall counts beta times as much."""
    if not beta:
        return precision
    total = beta**2 * precision + recall
    return (1 + beta**2) * precision * recall / total if total else 0.0


def bleu_of(predicted: Sequence[str], targets: Sequence[str]) -> Bleu:
    """BLEU of a set, as the command `sacrebleu` gives it for files of these texts.

    Its tokenizer is `zh` where most characters of the targets are of scripts without
    spaces, `char` where kana are among these, which `zh` does not split, else `13a`.
    """
    from sacrebleu.metrics.bleu import BLEU  # takes a tenth of a second

    if not targets:
        return Bleu(0.0, "")
    chars = collections.Counter(
        is_unspaced_script(char)
        for text in targets
        for char in text
        if not char.isspace()
    )
    own = "13a"
    if chars[True] > chars[False]:
        kana = sum(map(is_kana, "".join(targets)))
        own = "char" if kana > _KANA * chars[True] else "zh"
    # force: no warning about texts that look as if they were tokenized.
    metric = BLEU(tokenize=own, force=True)
    said, wanted = (
        [on_one_line(text)[0] for text in texts] for texts in (predicted, targets)
    )
    score = metric.corpus_score(said, [wanted]).score
    return Bleu(score, str(metric.get_signature()))


def edit_scores(
    predicted: Sequence[Collection[TokenEdit]], true: Sequence[Collection[TokenEdit]]
) -> tuple[float, float, float]:
    """Precision, recall and F0.5 of all edits, in per cent; 0 without any edits."""
    pairs = [({*said}, {*own}) for said, own in zip(predicted, true, strict=True)]
    right = sum(len(said & own) for said, own in pairs)
    counts = [sum(len(pair[side]) for pair in pairs) for side in range(2)]
    precision, recall = (right / count if count else 0.0 for count in counts)
    return 100 * precision, 100 * recall, 100 * _weighted(precision, recall, _BETA)


def _percent(values: Iterable[float]) -> float:
    own = [*map(float, values)]
    return 100 * sum(own) / len(own) if own else 0.0
