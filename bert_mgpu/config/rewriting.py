"""The flags that only rewriting has."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from bert_mgpu.config.base import INPUT, MODEL, TEST, FlagTable, flag

WRITES_FROM = VOCABULARY, ROW = "vocabulary", "input"
WITHOUT_SLOTS = EDIT, KEEP = "edit", "keep"
SLOT_MARKER = "[SLOT]"
MOST_INSERTED = 100  # tokens at one place: the upper bound of --max_insert


class RewriteChoice(NamedTuple):
    """How rewritings are chosen: the flags of the same names."""

    num_candidates: int | None = None
    fill_rounds: int = 4
    insert_from: str = VOCABULARY
    keep_bias: float = 0.0
    without_slots: str | None = None


_DEFAULT = RewriteChoice()


@dataclasses.dataclass(frozen=True)
class RewritingFlags(FlagTable):
    """The flags of the task type rewrite."""

    # fmt: off
    target_column: str | None = flag(None, INPUT, "your own task of type rewrite: column of the rewritten text")
    slot_marker: str | None = flag(None, INPUT, f"type rewrite: marks a place of a text where something is to be written [{SLOT_MARKER}]")
    max_insert: int = flag(12, MODEL, "type rewrite: maximum number of tokens written at one place", identity=True, remembered=True, minimum=1, maximum=MOST_INSERTED)
    num_candidates: int | None = flag(_DEFAULT.num_candidates, TEST, "type rewrite: rewritings of each text in predictions.jsonl, the best first [one; of texts with slots, five]", kept_with_task=True, minimum=1, maximum=100)
    fill_rounds: int = flag(_DEFAULT.fill_rounds, TEST, "type rewrite: maximum number of passes in which the words of a text are written; each rewrites the least certain ones", kept_with_task=True, minimum=1, maximum=100)
    insert_from: str = flag(_DEFAULT.insert_from, TEST, "type rewrite: write any words of the vocabulary, or only those of the input", kept_with_task=True, choices=WRITES_FROM)
    keep_bias: float = flag(_DEFAULT.keep_bias, TEST, "type rewrite: added to the log-probability of leaving a place as it is; higher values change less", kept_with_task=True)
    without_slots: str | None = flag(_DEFAULT.without_slots, TEST, "type rewrite: edit texts that have no slot, or keep them as they are [keep, if all training pairs have slots; else edit]", kept_with_task=True, choices=WITHOUT_SLOTS)
    # fmt: on
