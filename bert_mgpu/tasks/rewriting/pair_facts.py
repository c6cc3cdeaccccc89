"""What can be learnt from the pairs of a set, and what cannot."""

from __future__ import annotations

from typing import Any, NamedTuple

from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.rewriting import metrics
from bert_mgpu.text.edits import Edits
from bert_mgpu.text.rewrite_source import RewriteSource

SHOWN = 20  # maximum number of left-out pairs whose lines are named
IN_COMMON = 0.1  # the least share of tokens that a text and its target have in common
COPIED = 1000  # maximum number of pairs for which copying is scored


class PairTarget(NamedTuple):
    """What a text is to become, as the model learns it."""

    edits: Edits | None  # None: tags cannot make the target
    kept: int  # tokens of the source that the target has, too
    size: int  # tokens of the target
    in_row: int  # written tokens that the source or the context has, too
    swaps: bool = False  # an unknown word of the source for another unknown one

    def obstacle(self, *, most: int, unknown: int) -> str | None:
        """Why the pair is not learnt, a key of the facts; None if it is.

        most: tokens at one place; unknown: the id of [UNK], which is never written.
        """
        if self.edits is None:
            return "misplaced"
        if max(self.edits.counts) > most:
            return "too_long"
        return "unwritable" if self.swaps or unknown in self.edits.written else None


class PairFacts:
    """What can be learnt from the pairs of a set, and what cannot."""

    def __init__(self, slot_marker: str) -> None:
        self._marker, self.cut = slot_marker, 0
        self.notes: dict[str, Any] = {
            "pairs": 0,  # with a target
            "equal": 0,  # whose target is the text
            "alike": 0,  # whose target is another text of the same tokens
            "copying": 0.0,  # SARI of copying, summed over the first COPIED pairs
            "learnt": 0,  # pairs with at least one tag to learn
            # Of pairs without slots, whose targets can be made:
            "kept": 0,  # tokens of the sources that are kept
            "longest": 0,  # tokens of the longer text of each pair, summed
            "unlike": 0,  # pairs of which hardly a token is kept
            "written": 0,  # tokens to write
            "in_row": 0,  # of these, tokens that the input has, too
            "slot_counts": {},  # number of slots in a pair -> number of pairs
            "slot_lengths": {},  # number of tokens in a slot -> number of slots
            "too_long": 0,  # pairs with a slot of more than max_insert tokens
            "misplaced": 0,  # pairs that differ outside of their slots
            "unwritable": 0,  # pairs with words to write that the vocabulary lacks
            "free": 0,  # pairs without slots that are learnt
            "lines": [],  # of the first pairs of these three kinds
            "lost_slots": 0,  # slots for which a row has no room
        }

    def add(
        self,
        example: Example,
        source: RewriteSource,
        target: PairTarget | None,
        *,
        obstacle: str | None,
    ) -> None:
        """obstacle: that of the target."""
        notes = self.notes
        if target is None:
            return
        if notes["pairs"] < COPIED:
            text, true = example.text_a, example.label
            notes["copying"] += metrics.text_sari(
                text, text, true, slot_marker=self._marker
            )
        notes["pairs"] += 1
        is_equal = example.text_a == example.label
        notes["equal"] += is_equal
        if obstacle is not None:
            notes[obstacle] += 1
            notes["lines"] += [example.line] * (len(notes["lines"]) < SHOWN)
        edits = target.edits
        if edits is None:
            return
        notes["alike"] += not is_equal and target.kept == target.size == len(source.ids)
        if not source.slots:
            notes["kept"] += target.kept
            longest = max(len(source.ids), target.size)
            notes["longest"] += longest
            notes["unlike"] += target.kept < IN_COMMON * longest
        notes["written"] += len(edits.written)
        notes["in_row"] += target.in_row
        counts = [count for count in edits.counts if count]
        _increase(notes["slot_counts"], len(counts))
        for count in counts:
            _increase(notes["slot_lengths"], count)


def _increase(table: dict[str, int], number: int) -> None:
    """Counts a number, as a string, since keys of JSON are strings."""
    table[str(number)] = table.get(str(number), 0) + 1
