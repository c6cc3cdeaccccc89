"""The sections of report.html on a set of rewritten texts."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_mgpu.core.report import ReportSection, ReportTable, ScoreCurves
from bert_mgpu.tasks.rewriting import bias_curve, metrics
from bert_mgpu.tasks.rewriting.rewritten import RewrittenSet
from bert_mgpu.text.edits import edits_of, token_edits
from bert_mgpu.text.realise import TextEdit

_MAX_SHOWN, _LONGEST = 20, 300  # texts; characters of one


def sections(
    name: str,
    scored: RewrittenSet,
    scores: Mapping[str, Any],
    *,
    path: pathlib.Path,
    keep_bias: float,
) -> list[ReportSection]:
    """The sections of a labelled set."""
    copied = scored.pairs.copying.values
    rows: list[tuple[object, ...]] = [("score", "rewritten", "copied")]
    rows += [
        (key, f"{value:.4f}", f"{copied[key]:.4f}" if key in copied else "")
        for key, value in scores.items()
    ]
    table = ReportTable(rows, "wnn", note=f"BLEU: {scored.scores.bleu_signature}")
    found = [ReportSection(name, [f"{len(scored)} texts of {path}", table])]
    if bias_curve.matters(scored.tags[1]):
        curves = _curves(name, scored, keep_bias)
        title = f"{name}: what is changed, by --keep_bias"
        found.append(ReportSection(title, [curves]))
    return [*found, ReportSection(f"{name}: worst texts", [_worst(scored, path)])]


def _curves(name: str, scored: RewrittenSet, keep_bias: float) -> ScoreCurves:
    """Of places, by the pass that tags them alone."""
    points = bias_curve.points(*scored.tags)
    return ScoreCurves(
        f"keep_bias_{name}",
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


def _worst(scored: RewrittenSet, path: pathlib.Path) -> str | ReportTable:
    """The texts with the lowest SARI, and their edits."""
    wrong = [
        (metrics.text_sari(example.text_a, said, true), number)
        for number, (example, said, true) in enumerate(
            zip(scored.examples, scored.texts, scored.pairs.targets, strict=True)
        )
        if said != true
    ]
    if not wrong:
        return "none: every text is as it was to become"
    rows: list[tuple[object, ...]] = [("line", "sari", "to become", "rewritten")]
    for score, number in sorted(wrong)[:_MAX_SHOWN]:
        example, best = scored.examples[number], scored.candidates[number][0]
        true = _character_edits(example.text_a, scored.pairs.targets[number])
        texts = (_cut(marked(example.text_a, own)) for own in (true, best.edits))
        rows.append((example.line, f"{score:.1f}", *texts))
    note = (
        f"the {len(rows) - 1} with the lowest SARI of {len(wrong)} that differ;"
        f" [-deleted-] and {{+written+}}; lines of {path}"
    )
    return ReportTable(rows, "nntt", note=note)


def _character_edits(source: str, target: str) -> list[TextEdit]:
    """The edits that make one text of another, by characters."""
    pair = ([*map(ord, source)], [*map(ord, target)])
    (edits,) = edits_of([pair])
    return [
        TextEdit(start, end, source[start:end], new="".join(map(chr, new)))
        for start, end, new in token_edits(edits)
    ]


def marked(text: str, edits: Sequence[TextEdit]) -> str:
    """A text with what is deleted and written in it, marked as by `wdiff`."""
    parts, done = list[str](), 0
    for start, end, old, new in edits:
        parts.append(text[done:start])
        parts += [f"[-{old}-]"] * bool(old) + [f"{{+{new}+}}"] * bool(new)
        done = end
    return "".join([*parts, text[done:]])


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
