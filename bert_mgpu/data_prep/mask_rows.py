"""The masks of many rows at once, for data preparation.

They follow the rules of `masking.apply`. Masks of single words are drawn by numpy for
all rows together, in a fraction of the time.

Letters: R rows, T tokens of a row, W words, at most P masked tokens of a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bert_mgpu.data_prep.instances import Batch
from bert_mgpu.text import masking as masking_lib
from bert_mgpu.text import whole_words
from bert_mgpu.text.masking import Masking


class MaskedRows(NamedTuple):
    """Rows and their masks; zeros follow the masks of a row."""

    input_ids: np.ndarray  # int32 [R, T], with the masks applied
    positions: np.ndarray  # int32 [R, P], ascending
    labels: np.ndarray  # int32 [R, P], the ids that were masked
    weights: np.ndarray  # float32 [R, P], 1 where there is a mask
    kept: np.ndarray  # bool [R], False if nothing can be masked


def mask_rows(masking: Masking, batch: Batch, rng: np.random.Generator) -> MaskedRows:
    """The rows of a batch with their masks."""
    draw = _words if masking.strategy == "token" else _one_by_one
    return draw(masking, batch, rng)


def _without_masks(masking: Masking, batch: Batch) -> MaskedRows:
    rows = len(batch.input_ids)
    return MaskedRows(
        batch.input_ids.copy(),
        np.zeros((rows, masking.most), np.int32),
        np.zeros((rows, masking.most), np.int32),
        weights=np.zeros((rows, masking.most), np.float32),
        kept=np.zeros(rows, bool),
    )


def _one_by_one(masking: Masking, batch: Batch, rng: np.random.Generator) -> MaskedRows:
    result = _without_masks(masking, batch)
    for row, length in enumerate(batch.lengths.tolist()):
        is_text = batch.is_text[row, :length]
        if batch.starts is None:
            word_of = whole_words.single_token_words(is_text)
        else:
            word_of = whole_words.numbered(batch.starts[row, :length], is_text)
        ids, segments = batch.input_ids[row, :length], batch.segment_ids[row, :length]
        masked = masking_lib.apply(masking, ids, segments, words=word_of, rng=rng)
        if masked:
            count = len(masked.positions)
            result.input_ids[row, :length] = masked.input_ids
            result.positions[row, :count] = masked.positions
            result.labels[row, :count] = masked.labels
            result.weights[row, :count] = 1
            result.kept[row] = True
    return result


def _words(masking: Masking, batch: Batch, rng: np.random.Generator) -> MaskedRows:
    """Masks shuffled words of all rows while they fit, like `masking._words`."""
    rows, width = batch.input_ids.shape
    word_of = _numbered(batch)  # [R, T], 0 where there is none
    flat = word_of + np.arange(rows)[:, None] * width
    sizes: np.ndarray = np.bincount(flat.ravel(), minlength=rows * width)
    sizes = sizes.reshape(rows, width)
    sizes[:, 0] = 0
    # The word numbers of a row in random order, those without a token last.
    drawn = rng.random((rows, width), np.float32)
    drawn[sizes == 0] = 2
    order = np.argsort(drawn, axis=1)
    sizes = np.take_along_axis(sizes, order, axis=1)
    budgets = np.array(
        [masking_lib.budget(masking, length) for length in range(width + 1)]
    )
    left = budgets[batch.lengths]
    taken = np.zeros((rows, width), bool)
    for rank in range(width):
        size = sizes[:, rank]
        fits = (size > 0) & (size <= left)
        left -= size * fits
        taken[np.arange(rows), order[:, rank]] = fits
        if not (left > 0).any() or not size.any():
            break
    return _replaced(
        masking, batch, np.take_along_axis(taken, word_of, axis=1), rng=rng
    )


def _numbered(batch: Batch) -> np.ndarray:
    """The number of each token's word, from 1, and 0 outside the text: int64 [R, T]."""
    begins = batch.is_text.copy()
    if batch.starts is not None:
        begins &= batch.starts
    numbers = np.cumsum(begins, axis=1)
    numbers[~batch.is_text] = 0
    return numbers


def _replaced(
    masking: Masking, batch: Batch, chosen: np.ndarray, *, rng: np.random.Generator
) -> MaskedRows:
    """Rows with [MASK], the token itself or a random one at `chosen`, bool [R, T]."""
    row, position = chosen.nonzero()
    labels = batch.input_ids[row, position]
    chance = rng.random(len(row))
    masks = rng.integers(0, masking.vocab_size, len(row), dtype=np.int32)
    np.copyto(
        masks, labels, where=chance < masking_lib.MASK_SHARE + masking_lib.KEEP_SHARE
    )
    masks[chance < masking_lib.MASK_SHARE] = masking.mask_id
    result = _without_masks(masking, batch)
    result.input_ids[row, position] = masks
    counts = chosen.sum(axis=1)
    index = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    result.positions[row, index] = position
    result.labels[row, index] = labels
    result.weights[row, index] = 1
    result.kept[:] = counts > 0
    return result
