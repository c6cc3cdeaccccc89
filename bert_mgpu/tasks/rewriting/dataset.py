"""Texts and what they are to become, as rows of tokens.

An example has a row that is tagged and, if something is to be written, a second one
with [MASK] for each token to write: see `rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core import hashing
from bert_mgpu.core.rows import POSITIONS, Example, Features, Ragged
from bert_mgpu.data import cache
from bert_mgpu.tasks.rewriting import tags
from bert_mgpu.tasks.rewriting.pair_facts import PairFacts, PairTarget
from bert_mgpu.tasks.rewriting.rows import (
    Special,
    layout,
    room_of,
    slots_with_room,
    special_of,
)
from bert_mgpu.text.edits import Edits, Tokens, edits_of
from bert_mgpu.text.rewrite_source import RewriteSource, parted_at_slots, source_of
from bert_mgpu.text.tokenization import Tokenizer

# Names in `Features.unread`, of values of the tagged row: the tokens before which slots
# stand, int32 [...], and whether the row has all tokens of the text, int32 [1].
SLOTS, WHOLE = "slots", "whole"
MASKED_IDS = "masked_lm_ids"
_BLOCK = 4096  # examples whose edits are found together


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

    `notes` also says what there is to learn: see `PairFacts`.
    """
    special = special_of(tokenizer)
    rows, owners, lengths = list[_Made](), list[int](), list[int]()
    facts = PairFacts(slot_marker)
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
            obstacle = target and target.obstacle(most=max_insert, unknown=special.unk)
            facts.add(example, source, target, obstacle=obstacle)
            made = _rows(
                source,
                context,
                None if target is None or obstacle else target.edits,
                special=special,
                max_seq_length=max_seq_length,
                max_insert=max_insert,
            )
            facts.cut += not all(made[0].whole)
            facts.notes["learnt"] += any(made[0].tag_ids)
            facts.notes["free"] += any(made[0].tag_ids) and not source.slots
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


def target_texts(
    sources: Sequence[RewriteSource], targets: Sequence[str], tokenizer: Tokenizer
) -> list[str]:
    """The targets, read as their texts are where a slot parts a word: `この[SLOT]です`.

    To the tokenizer the whole target is one word, the text is two.
    """
    return [
        _target_text(own, target, tokenizer) if own.slots else target
        for own, target in zip(sources, targets, strict=True)
    ]


def _target_text(source: RewriteSource, target: str, tokenizer: Tokenizer) -> str:
    parted = parted_at_slots(source, target)
    if parted == target:
        return target
    edits = tags.slot_edits(source.ids, slots_of(source), tokenizer.ids(parted))
    return target if edits is None else parted


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
    unknown = special_of(tokenizer).unk
    labelled = [n for n, each in enumerate(examples) if each.label is not None]
    own_sources = [sources[number] for number in labelled]
    texts = [str(examples[number].label) for number in labelled]
    texts = target_texts(own_sources, texts, tokenizer)
    ids = [tokenizer.ids(text) for text in texts]
    edits = true_edits(own_sources, ids)
    found: list[PairTarget | None] = [None] * len(examples)
    for number, text, target, own in zip(labelled, texts, ids, edits, strict=True):
        written = target if own is None else own.written
        known = {*sources[number].ids, *(contexts[number] or ())}
        found[number] = PairTarget(
            own,
            kept=0 if own is None else sum(own.keeps),
            size=len(target),
            in_row=sum(token in known for token in written),
            swaps=own is not None
            and unknown in target
            and _swaps(sources[number], own, text, tokenizer=tokenizer),
        )
    return found


def _swaps(
    source: RewriteSource, edits: Edits, target: str, *, tokenizer: Tokenizer
) -> bool:
    """Whether an unknown word of the source becomes another one, which is no [UNK] to
    keep: `“` for `”`, if the vocabulary has neither.
    """
    made, unknown = source_of(target, tokenizer), special_of(tokenizer).unk
    place = 0
    for token, (is_kept, count) in enumerate(
        zip(edits.keeps, edits.counts, strict=False)
    ):
        place += count
        if is_kept and source.ids[token] == unknown:
            words = source.word(token), made.word(place)
            if len({word.lower() for word in words}) > 1:
                return True
        place += is_kept
    return False


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
    ids, positions = filled.input_ids, filled.written
    masked = [ids[position] for position in positions]
    for position in positions:
        ids[position] = special.mask
    if positions:
        none = [0] * len(ids)
        segments = filled.segment_ids
        made.append(_Made(ids, segments, none, positions=positions, masked_ids=masked))
    return made
