"""Scores of rewritten texts beside what they should be, for studies."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks import pairs
from bert_mgpu.tasks.rewriting import metrics
from bert_mgpu.text import edits


def scores(
    rows: Sequence[pairs.Pair], texts: Sequence[str], *, lower: bool
) -> dict[str, float]:
    """Exact matches, BLEU-4, SARI and changed texts, in %.

    Where some sources are complete, also the share of them that are left alone, and the
    exact matches and the recall of edits (by characters) of the others.

    Args:
      lower: English text, compared without case and by words; otherwise BLEU is of
        characters.
    """
    from sacrebleu.metrics.bleu import BLEU

    sources, targets = ([row[key] for row in rows] for key in ("source", "target"))
    if lower:
        texts, sources, targets = (
            [text.lower().replace(pairs.TOKEN, pairs.SEPARATOR) for text in own]
            for own in (texts, sources, targets)
        )
    tokenize = "none" if lower else "char"
    bleu = BLEU(tokenize=tokenize, force=True).corpus_score(texts, [targets]).score
    triples = zip(sources, texts, targets, strict=True)
    found = {
        "exact": 100 * statistics.mean(map(str.__eq__, texts, targets)),
        "bleu4": bleu,
        "sari": statistics.mean(metrics.text_sari(*triple) for triple in triples),
        "changed": 100 * statistics.mean(map(str.__ne__, texts, sources)),
    }
    rest = [
        own for own in zip(sources, texts, targets, strict=True) if own[0] != own[2]
    ]
    if complete := len(rows) - len(rest):
        alone = sum(
            a == b == c for a, b, c in zip(sources, texts, targets, strict=True)
        )
        found["left_alone"] = 100 * alone / complete
        found["exact_others"] = 100 * statistics.mean(
            said == to for _, said, to in rest
        )
        found["recall"] = recall(rest)
    return {key: round(value, 2) for key, value in found.items()}


def recall(triples: Sequence[tuple[str, str, str]]) -> float:
    """The share of edits from source to target that the written texts have, in %."""
    made = []
    for place in (1, 2):
        codes = [([*map(ord, own[0])], [*map(ord, own[place])]) for own in triples]
        made.append([edits.token_edits(own) for own in edits.edits_of(codes)])
    return metrics.edit_scores(*made)[1]
