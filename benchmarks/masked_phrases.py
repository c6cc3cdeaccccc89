"""Ranks phrases for a slot by a masked language model, which has learnt no ranking.

A phrase fits the better, the more probable its tokens are where the ad has only masks,
compared with their probabilities at the masks of all ads: a pointwise mutual
information of phrase and ad. The order of the tokens within a phrase plays no part.
Letters: B rows, T tokens of a row, N masks, V vocabulary.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.checkpoints import google_read
from bert_mgpu.model import bert, heads
from bert_mgpu.model.config import BertConfig
from bert_mgpu.text.tokenization import Tokenizer

_ROWS = 8  # of a pass
_LEAST = 1e-9  # probability


class Slot(NamedTuple):
    """An ad around a slot, and the phrases that may stand in it."""

    before: str
    after: str
    phrases: Sequence[str]


def scores(
    folder: pathlib.Path, slots: Sequence[Slot], length: int
) -> list[list[float]]:
    """How well each phrase of each slot fits; the higher, the better.

    Args:
      folder: of a checkpoint, its config and vocabulary.
      length: tokens of a row; those of an ad that do not fit are cut off at its end.
    """
    tokenizer = Tokenizer(folder / "vocab.txt")
    rows = [*_rows(slots, tokenizer, length)]
    prior, masks = np.zeros(len(tokenizer.tokens)), 0
    found: list[tuple[_Row, list[np.ndarray]]] = []
    for row, at_masks in zip(rows, _probabilities(folder, rows, length), strict=True):
        prior += at_masks.sum(0)  # [N, V] -> [V]
        masks += len(at_masks)
        found.append((row, [at_masks[:, ids].mean(0) for ids in row.phrases.values()]))
    prior = prior / masks + _LEAST
    scored = [[0.0] * len(slot.phrases) for slot in slots]
    for row, means in found:
        for (number, ids), mean in zip(row.phrases.items(), means, strict=True):
            gain = np.log(mean + _LEAST) - np.log(prior[ids])
            scored[row.slot][number] = float(gain.mean())
    return scored


class _Row(NamedTuple):
    """An ad with as many masks as some of its phrases have tokens."""

    slot: int
    ids: list[int]
    masks: slice  # positions
    phrases: dict[int, list[int]]  # number of a phrase -> its tokens


def _rows(slots: Sequence[Slot], tokenizer: Tokenizer, length: int) -> Iterator[_Row]:
    for number, slot in enumerate(slots):
        before, after = tokenizer.ids(slot.before), tokenizer.ids(slot.after)
        sizes: dict[int, dict[int, list[int]]] = {}
        for index, phrase in enumerate(slot.phrases):
            ids = tokenizer.ids(phrase)
            sizes.setdefault(len(ids), {})[index] = ids
        for size, phrases in sizes.items():
            first = 1 + len(before)
            ids = [tokenizer.cls_id, *before, *[tokenizer.mask_id] * size, *after]
            ids = [*ids[: length - 1], tokenizer.sep_id]
            yield _Row(
                number, ids, slice(first, min(first + size, length - 1)), phrases
            )


def _probabilities(
    folder: pathlib.Path, rows: Sequence[_Row], length: int
) -> Iterator[np.ndarray]:
    """Yields the probabilities of all tokens at the masks of each row: [N, V]."""
    content = json.loads((folder / "bert_config.json").read_text("utf-8"))
    config = BertConfig.from_dict(content, str(folder))
    newest = tf.train.latest_checkpoint(str(folder))
    stored = google_read.read(newest)
    params = {
        name: tf.constant(value)
        for name, value in stored.items()
        if name.startswith(("bert/", "cls/"))
    }

    @tf.function
    def forward(ids: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        batch = {
            "input_ids": ids,
            "segment_ids": tf.zeros_like(ids),
            "input_mask": mask,
        }
        hidden = bert.encode(params, config, batch)[-1]  # [B, T, H]
        flat = tf.reshape(hidden, [-1, hidden.shape[-1]])
        logits = heads.masked_lm_logits(params, config, flat)
        return tf.reshape(tf.nn.softmax(logits), [_ROWS, length, -1])

    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS]
        ids, mask = np.zeros((2, _ROWS, length), np.int32)
        for number, row in enumerate(part):
            ids[number, : len(row.ids)] = row.ids
            mask[number, : len(row.ids)] = 1
        found = forward(tf.constant(ids), tf.constant(mask)).numpy()  # [B, T, V]
        for number, row in enumerate(part):
            yield found[number, row.masks]
