"""Rewritten texts in report.html: curves over --keep_bias, and wrong texts."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence

import numpy as np

from bert_mgpu.core.report import Block, Mistake, Mistakes, ScoreCurves, SetReport
from bert_mgpu.tasks.rewriting import bias_curve, metrics
from bert_mgpu.tasks.rewriting.rewritten import RewrittenSet
from bert_mgpu.text.edits import edits_of, token_edits
from bert_mgpu.text.realise import TextEdit

_LONGEST, _BEFORE = 300, 100  # characters shown of a text, and before its first edit
_COMPARED = 2000  # characters compared of long texts, see `_character_edits`


def of_set(scored: RewrittenSet, keep_bias: float) -> SetReport:
    """The report of a labelled set."""
    blocks: list[Block] = [f"BLEU: {scored.scores.bleu_signature}"]
    if bias_curve.matters(scored.known.places):
        blocks += ["what is changed, by --keep_bias", _curves(scored, keep_bias)]
    return SetReport(blocks, _mistakes(scored))


def _curves(scored: RewrittenSet, keep_bias: float) -> ScoreCurves:
    """Curves for the places to change, by the pass that tags them alone."""
    points = bias_curve.points(scored.known.places)
    return ScoreCurves(
        "keep_bias",
        "--keep_bias",
        np.array([point.bias for point in points]),
        scores={
            label: np.array([100 * getattr(point, field) for point in points])
            for field, label in (
                ("precision", "precision"),
                ("recall", "recall"),
                ("f05", "F0.5"),
            )
        },
        chosen=keep_bias,
        lowest="changing most",
    )


def _mistakes(scored: RewrittenSet) -> Mistakes:
    """The rewritings that differ from their target, with the edits of both."""
    score = functools.partial(metrics.text_sari, slot_marker=scored.pairs.marker)
    wrong = [
        (score(example.text_a, predicted, true), number)
        for number, (example, predicted, true) in enumerate(
            zip(scored.examples, scored.texts, scored.pairs.targets, strict=True)
        )
        if predicted != true
    ]
    found = []
    for sari, number in sorted(wrong):
        text, best = scored.examples[number].text_a, scored.candidates[number][0]
        truth = scored.pairs.targets[number]
        cells = _Cells(f"{sari:.1f}", text, truth, made=best.edits)
        found.append(Mistake(number, cells, truth))
    columns = ("sari", "to become: [-deleted-], {+written+}", "rewritten")
    return Mistakes(columns, "ntt", "the lowest SARI", worst_first=found)


class _Cells:
    """The cells of a mistake, made for those that are shown: comparing takes long."""

    def __init__(self, sari: str, text: str, truth: str, *, made: Sequence[TextEdit]):
        self._sari, self._text, self._truth, self._made = sari, text, truth, made

    def __iter__(self) -> Iterator[str]:
        yield self._sari
        for edits in (_character_edits(self._text, self._truth), self._made):
            yield _cut(self._text, edits)


def _character_edits(source: str, target: str) -> list[TextEdit]:
    """The edits that turn one text into another, by characters.

    Of long texts, only _COMPARED characters from the first difference on are compared,
    as a table of all pairs of characters would take gigabytes.
    """
    is_long = max(len(source), len(target)) > _COMPARED
    equal = len(os.path.commonprefix([source, target])) if is_long else 0
    one, other = (text[equal : equal + _COMPARED] for text in (source, target))
    (edits,) = edits_of([([*map(ord, one)], [*map(ord, other)])])
    return [
        TextEdit(equal + start, equal + end, one[start:end], new="".join(map(chr, new)))
        for start, end, new in token_edits(edits)
    ]


def marked(text: str, edits: Sequence[TextEdit]) -> str:
    """A text with its deletions and insertions, marked as `wdiff` marks them."""
    parts, done = list[str](), 0
    for start, end, old, new in edits:
        parts.append(text[done:start])
        parts += [f"[-{old}-]"] * bool(old) + [f"{{+{new}+}}"] * bool(new)
        done = end
    return "".join([*parts, text[done:]])


def _cut(text: str, edits: Sequence[TextEdit]) -> str:
    """A text with its edits marked; of a long one, a part with the first edit."""
    first = max(0, edits[0].start - _BEFORE) if edits else 0
    skipped = first if len(marked(text, edits)) > _LONGEST else 0
    shown = marked(text, edits)[skipped:]
    before = "... " * bool(skipped)
    after = " ..." * (len(shown) > _LONGEST)
    return f"{before}{shown[:_LONGEST]}{after}"
