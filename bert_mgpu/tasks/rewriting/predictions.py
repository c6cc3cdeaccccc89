"""Rewritten texts, as they are written to each result file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_mgpu.core.task import Display, Predictions
from bert_mgpu.tasks.rewriting.rewritten import Candidate, RewrittenSet
from bert_mgpu.text.realise import on_one_line

_DIGITS = 6  # decimals of a score


def decide(scored: RewrittenSet, keeps_texts: bool = False) -> Predictions:
    """The predictions of a set.

    predict.txt has the texts, with spaces for line ends, and test_results.tsv the
    scores of their candidates. keeps_texts: those without slots, as they are.
    """
    texts, ends = list[str](), 0
    for text in scored.texts:
        line, count = on_one_line(text)
        texts.append(line)
        ends += count
    remarks = list[str]()
    if ends:
        remarks.append(
            f"{ends} line end{'s' * (ends != 1)} became spaces in predict.txt"
        )
    if cut := sum(not own[0].is_whole for own in scored.candidates):
        remarks.append(
            f"--max_seq_length has no room for some edits of {cut} of"
            f" {len(texts)} texts: their places are kept as they were"
        )
    if keeps_texts and (count := scored.without_slots):
        remarks.append(
            f"texts without {scored.marker}, which stay as they are: {count} of"
            f" {len(texts)} (--without_slots=edit edits them)"
        )
    values = [
        np.array([candidate.score for candidate in own]) for own in scored.candidates
    ]
    return Predictions(
        texts,
        values,
        [_record(own) for own in scored.candidates],
        remarks=remarks,
    )


def _record(candidates: list[Candidate]) -> dict[str, Any]:
    best = candidates[0]
    return {
        "text": best.text,
        "score": round(best.score, _DIGITS),
        "edits": [[*edit] for edit in best.edits],
        "candidates": [
            {"text": each.text, "score": round(each.score, _DIGITS)}
            for each in candidates
        ],
    }


def display(record: Mapping[str, Any]) -> Display:
    """The best text, its edits, and the other candidates."""
    best, *others = (each["text"] for each in record["candidates"])
    edits = [(start, end, old, new) for start, end, old, new in record["edits"]]
    return Display(best, edits=edits, others=others)
