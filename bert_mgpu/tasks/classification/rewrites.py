"""The lines of rewrites.jsonl: the rows of each group, best first."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.classification import ranking
from bert_mgpu.text import ad_slots
from bert_mgpu.text.ad_segments import SLOT_CHARACTER

_DIGITS = 6  # of a probability
Fields = Mapping[str, Any]


def lines(
    examples: Sequence[Example],
    groups: np.ndarray,
    scores: np.ndarray,
    *,
    probabilities: np.ndarray,
    has_slots: bool,
) -> list[str]:
    """A JSON object for each group, in the order of its first row in the file.

    Rows whose probabilities are equal once rounded are ordered by their scores, tied
    rows by their texts, then by their lines.

    Args: for each row of the set
      groups, scores: see `ranking.ranked`.
      probabilities: those of the second label, float [R].
      has_slots: whether all groups are slots of ads.
    """
    group_record, row_record = _AD_RECORDS if has_slots else _GROUP_RECORDS
    found = ranking.ranked(groups, scores)
    shares = [round(share, _DIGITS) for share in probabilities.tolist()]
    written = list[str]()
    for rows, ties in zip(
        np.split(found.order, found.starts[1:]),
        np.split(found.ties, found.starts[1:]),
        strict=True,
    ):
        keys = (
            (-shares[row], tie, one.text_a, one.text_b or "", one.line, row)
            for tie, row in zip(ties.tolist(), rows.tolist(), strict=True)
            for one in [examples[row]]
        )
        candidates = [
            {
                **row_record(examples[row]),
                "probability": shares[row],
                "line": examples[row].line,
            }
            for *_, row in sorted(keys)
        ]
        record = {**group_record(examples[rows.min()]), "candidates": candidates}
        written.append(json.dumps(record, ensure_ascii=False) + "\n")
    return written


def _ad(example: Example) -> Fields:
    """The ad with one mark in its slot, and the mark's start and end in characters."""
    ad = ad_slots.slot_key(example.text_b) or ""
    start = ad_slots.slots(ad)[0].start
    return {"ad": ad, "slot": [start, start + len(SLOT_CHARACTER)]}


def _phrase(example: Example) -> Fields:
    text = ad_slots.filled(example.text_b or "", example.text_a)
    return {"phrase": example.text_a, "text": text}


def _group(example: Example) -> Fields:
    return {"group": example.group}


def _texts(example: Example) -> Fields:
    both = {"text_a": example.text_a, "text_b": example.text_b}
    return {key: text for key, text in both.items() if text is not None}


_Making = tuple[Callable[[Example], Fields], Callable[[Example], Fields]]
# The fields of a group, and those of a row.
_AD_RECORDS: _Making = _ad, _phrase
_GROUP_RECORDS: _Making = _group, _texts
