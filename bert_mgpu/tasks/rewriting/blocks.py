"""The passes over a set, a block of texts at a time, and what is kept of their outputs.

The scores of all tags of all tokens are a hundred times the size of a text: they are
dropped once a block has been rewritten. Letters: n known tags, m known words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rows import POSITIONS, Features, Outputs
from bert_mgpu.core.task import Forward
from bert_mgpu.tasks.rewriting.bias_curve import Places, places_of
from bert_mgpu.tasks.rewriting.dataset import SLOTS
from bert_mgpu.tasks.rewriting.decoding import TAGS, TokenRewriting
from bert_mgpu.tasks.rewriting.filling import LOSSES

REWRITINGS, KNOWN = "rewritings", "known"  # outputs: lists by example, a `Known`
_BLOCK = 2048  # texts


class Known(NamedTuple):
    """The outputs at what the targets of a set tell."""

    places: Places  # those of the n that --keep_bias decides
    tag_losses: np.ndarray  # -log p of each known tag: float [n]
    word_losses: np.ndarray  # -log p of each true word, all being masked: float [m]


def inferred(
    rows: Features,
    forward: Forward,
    rewritings: Callable[[Features, Outputs], list[list[TokenRewriting]]],
) -> Outputs:
    """The rewritings of all examples, and `Known`: the outputs of a set.

    rewritings: of a block, by its outputs. Every process makes the same passes, since
    the blocks follow from the rows alone.
    """
    found, known = list[list[TokenRewriting]](), list[Known]()
    for block in _blocks(rows):
        outputs = forward(block)
        known.append(known_of(block, outputs))
        found += rewritings(block, outputs)
    return {REWRITINGS: found, KNOWN: _joined(known)}


def _blocks(rows: Features) -> Iterator[Features]:
    """Consecutive parts of a set, of whole examples."""
    starts = [*rows.first_rows[::_BLOCK].tolist(), len(rows)]
    for first, end in zip(starts, starts[1:], strict=False):
        numbers = np.arange(first, end)
        owners = rows.owners
        yield dataclasses.replace(
            rows.take(numbers),
            owners=None if owners is None else owners[first:end] - owners[first],
            unread={name: column.take(numbers) for name, column in rows.unread.items()},
        )


def known_of(rows: Features, outputs: Outputs) -> Known:
    """What is kept of the outputs of these rows."""
    tag_ids = rows.ragged["tag_ids"].values
    tagged = np.flatnonzero(tag_ids)
    scores, truth = outputs[TAGS].values[tagged], tag_ids[tagged] - 1
    has_slots = np.repeat(rows.unread[SLOTS].lengths > 0, rows.lengths)[tagged]
    choices = scores.copy()
    at_end = np.isin(tagged, rows.ragged["tag_ids"].offsets[1:] - 1)
    choices[at_end, choices.shape[1] // 2 :] = -np.inf  # the end is never deleted
    positions = rows.targets[POSITIONS]
    starts = rows.ragged["input_ids"].offsets[:-1]
    masks = positions.values + np.repeat(starts, positions.lengths)
    return Known(
        places_of(choices[~has_slots], truth[~has_slots]),
        tag_losses=-scores[np.arange(len(truth)), truth],
        word_losses=outputs[LOSSES].values[masks],
    )


def _joined(parts: list[Known]) -> Known:
    if not parts:
        return Known(places_of(np.zeros((0, 1)), np.zeros(0, int)), *np.zeros((2, 0)))
    places = zip(*(part.places for part in parts), strict=True)
    return Known(
        Places(*map(np.concatenate, places)),
        tag_losses=np.concatenate([part.tag_losses for part in parts]),
        word_losses=np.concatenate([part.word_losses for part in parts]),
    )
