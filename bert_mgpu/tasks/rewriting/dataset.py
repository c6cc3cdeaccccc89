"""Texts and what they are to become, as rows of tokens.

An example has a row that is tagged and, if something is to be written, a second one
with [MASK] for each token to write: see `rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_mgpu.core import hashing
from bert_mgpu.core.rows import POSITIONS, Example, Features, Ragged
from bert_mgpu.data import cache
from bert_mgpu.tasks.rewriting import metrics, tags
from bert_mgpu.tasks.rewriting.rows import (
    Special,
    layout,
    room_of,
    slots_with_room,
    special_of,
)
from bert_mgpu.text.edits import Edits, Tokens, edits_of
from bert_mgpu.text.rewrite_source import RewriteSource, source_of
from bert_mgpu.text.tokenization import Tokenizer

# Names in `Features.unread`, of values of the tagged row: the tokens before which slots
# stand, int32 [...], and whether the row has all tokens of the text, int32 [1].
SLOTS, WHOLE = "slots", "whole"
MASKED_IDS = "masked_lm_ids"
SHOWN = 20  # maximum number of left-out pairs whose lines are named
COPIED = 1000  # maximum number of pairs for which copying is scored
_BLOCK = 4096  # examples whose edits are found together


class PairTarget(NamedTuple):
    """What a text is to become, as the model learns it."""

    edits: Edits | None  # None: tags cannot make the target
    kept: int  # tokens of the source that the target has, too
    size: int  # tokens of the target
    in_row: int  # written tokens that the source or the context has, too


class _Made(NamedTuple):
    """A row of the features."""

    input_ids: list[int]
    segment_ids: list[int]
    tag_ids: list[int]
    positions: Sequence[int] = ()
    masked_ids: Sequence[int] = ()
    slots: Sequence[int] = ()
    whole: Sequence[int] = ()


def featurise(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    max_insert: int,
    slot_marker: str,
) -> Features:
    """The rows of examples; a label, if there is one, is what its text is to become.

    `notes` also says what there is to learn: see `_Statistics`.
    """
    special = special_of(tokenizer)
    rows, owners, lengths = list[_Made](), list[int](), list[int]()
    facts = _Statistics()
    for first in range(0, len(examples), _BLOCK):
        block = examples[first : first + _BLOCK]
        sources = [source_of(each.text_a, tokenizer, slot_marker) for each in block]
        contexts = [
            None if each.text_b is None else tokenizer.ids(each.text_b)
            for each in block
        ]
        targets = _targets(block, sources, contexts, tokenizer=tokenizer)
        for number, example in enumerate(block):
            source, context = sources[number], contexts[number]
            special_count = 2 if context is None else 3
            lengths.append(len(source.ids) + len(context or ()) + special_count)
            target = targets[number]
            facts.add(example, source, target, most=max_insert)
            made = _rows(
                source,
                context,
                target and target.edits,
                special=special,
                max_seq_length=max_seq_length,
                max_insert=max_insert,
            )
            facts.cut += not all(made[0].whole)
            facts.notes["learnt"] += any(made[0].tag_ids)
            slots, room = made[0].slots, room_of(context, max_seq_length)
            found = slots_with_room(slots, size=len(source.ids), room=room)
            facts.notes["lost_slots"] += len(slots) - len(found)
            rows += made
            owners += [first + number] * len(made)
    return Features(
        {
            name: Ragged.from_rows([getattr(row, name) for row in rows])
            for name in ("input_ids", "segment_ids", "tag_ids")
        },
        {},
        np.array([examples[number].line for number in owners], np.int64),
        notes=cache.length_notes(np.array(lengths), facts.cut)
        # Whatever --truncation says, what a row has no room for is kept as it is.
        | {"truncation": False, "rewriting": facts.notes},
        targets={
            POSITIONS: Ragged.from_rows([row.positions for row in rows]),
            MASKED_IDS: Ragged.from_rows([row.masked_ids for row in rows]),
        },
        keys=np.array(
            [hashing.text_key(each.text_a, each.text_b) for each in examples], np.uint64
        )[owners],
        owners=np.array(owners, np.int64) if len(rows) > len(examples) else None,
        unread={
            name: Ragged.from_rows([getattr(row, name) for row in rows])
            for name in (SLOTS, WHOLE)
        },
    )


def slots_of(source: RewriteSource) -> list[int]:
    """The tokens before which slots stand; adjacent slots count as one."""
    return sorted({*source.slot_tokens})


def true_edits(
    sources: Sequence[RewriteSource], targets: Sequence[Tokens]
) -> list[Edits | None]:
    """The scripts that make the targets; for a text with slots, they write only there.

    None if a text with slots differs from its target elsewhere, too.
    """
    pairs = zip(sources, targets, strict=True)
    free = edits_of([(own.ids, target) for own, target in pairs if not own.slots])
    return [
        tags.slot_edits(own.ids, slots_of(own), target) if own.slots else next(free)
        for own, target in zip(sources, targets, strict=True)
    ]


def _targets(
    examples: Sequence[Example],
    sources: Sequence[RewriteSource],
    contexts: Sequence[Sequence[int] | None],
    *,
    tokenizer: Tokenizer,
) -> list[PairTarget | None]:
    """What each text is to become; None if that is not known."""
    texts = {n: each.label for n, each in enumerate(examples) if each.label is not None}
    ids = [tokenizer.ids(text) for text in texts.values()]
    edits = true_edits([sources[number] for number in texts], ids)
    found: list[PairTarget | None] = [None] * len(examples)
    for number, target, own in zip(texts, ids, edits, strict=True):
        written = target if own is None else own.written
        known = {*sources[number].ids, *(contexts[number] or ())}
        found[number] = PairTarget(
            own,
            kept=0 if own is None else sum(own.keeps),
            size=len(target),
            in_row=sum(token in known for token in written),
        )
    return found


def _rows(
    source: RewriteSource,
    context: Sequence[int] | None,
    edits: Edits | None,
    *,
    special: Special,
    max_seq_length: int,
    max_insert: int,
) -> list[_Made]:
    """The row that is tagged and, if anything is to be written, the one with masks."""
    slots = slots_of(source)
    row = layout(context, source.ids, special, max_length=max_seq_length)
    fitting = len(row.tokens)
    tag_ids = [0] * len(row.input_ids)
    own = None if edits is None else tags.of_edits(edits, max_insert)
    if own is not None:
        for token in slots or range(len(own)):
            if token < fitting:
                tag_ids[row.tokens[token]] = 1 + own[token]
    whole = [int(fitting > len(source.ids))]
    made = [
        _Made(row.input_ids, row.segment_ids, tag_ids, slots=slots, whole=whole),
    ]
    if own is None or edits is None or not edits.written:
        return made
    filled = layout(
        context,
        source.ids,
        special,
        max_length=max_seq_length,
        keeps=edits.keeps,
        counts=edits.counts,
        written=edits.written,
    )
    ids, positions, masked = filled.input_ids, list[int](), list[int]()
    for position in filled.written:
        if ids[position] != special.unk:  # which is never written
            positions.append(position)
            masked.append(ids[position])
        ids[position] = special.mask
    if positions:
        none = [0] * len(ids)
        segments = filled.segment_ids
        made.append(_Made(ids, segments, none, positions=positions, masked_ids=masked))
    return made


class _Statistics:
    """What can be learnt from the pairs of a set, and what cannot."""

    def __init__(self) -> None:
        self.cut = 0
        self.notes: dict[str, Any] = {
            "pairs": 0,  # with a target
            "equal": 0,  # whose target is the text
            "copying": 0.0,  # SARI of copying, summed over the first COPIED pairs
            "learnt": 0,  # pairs with at least one tag to learn
            "kept": 0,  # tokens of the sources that are kept
            "longest": 0,  # tokens of the longer text of each pair, summed
            "written": 0,  # tokens to write
            "in_row": 0,  # of these, tokens that the input has, too
            "slot_counts": {},  # number of slots in a pair -> number of pairs
            "slot_lengths": {},  # number of tokens in a slot -> number of slots
            "too_long": 0,  # pairs with a slot of more than max_insert tokens
            "misplaced": 0,  # pairs that differ outside of their slots
            "lines": [],  # of the first pairs of these two kinds
            "lost_slots": 0,  # slots for which a row has no room
        }

    def add(
        self,
        example: Example,
        source: RewriteSource,
        target: PairTarget | None,
        *,
        most: int,
    ) -> None:
        notes = self.notes
        if target is None:
            return
        if notes["pairs"] < COPIED:
            text, true = example.text_a, example.label
            notes["copying"] += metrics.text_sari(text, text, true)
        notes["pairs"] += 1
        notes["equal"] += example.text_a == example.label
        notes["longest"] += max(len(source.ids), target.size)
        edits = target.edits
        if edits is None:
            self._leave_out("misplaced", example)
            return
        notes["kept"] += target.kept
        notes["written"] += len(edits.written)
        notes["in_row"] += target.in_row
        counts = [count for count in edits.counts if count]
        _increase(notes["slot_counts"], len(counts))
        for count in counts:
            _increase(notes["slot_lengths"], count)
        if max(edits.counts) > most:
            self._leave_out("too_long", example)

    def _leave_out(self, reason: str, example: Example) -> None:
        self.notes[reason] += 1
        if len(self.notes["lines"]) < SHOWN:
            self.notes["lines"].append(example.line)


def _increase(table: dict[str, int], number: int) -> None:
    """Counts a number, as a string, since keys of JSON are strings."""
    table[str(number)] = table.get(str(number), 0) + 1
