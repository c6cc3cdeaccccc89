"""Sizes of models and batches, and random rows; needs nothing but numpy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.gpu.process import is_dry

VOCAB, CLASSES = 21128, 10
Batch = dict[str, np.ndarray]


class Shape(NamedTuple):
    """A model, and the rows of a tower in each step."""

    layers: int
    hidden: int
    heads: int
    batch: int
    length: int

    @property
    def google_config(self) -> dict[str, Any]:
        return {
            "vocab_size": VOCAB if self.hidden > 64 else 97,
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "intermediate_size": 4 * self.hidden,
            "max_position_embeddings": max(512, self.length),
        }

    def __str__(self) -> str:
        return f"{self.batch} x {self.length}"


def base(batch: int, length: int) -> Shape:
    """BERT-base; in a dry run, a tiny model."""
    if is_dry():
        return Shape(2, 32, 2, min(batch, 8), min(length, 32))
    return Shape(12, 768, 12, batch, length)


def small(batch: int, length: int) -> Shape:
    """A model large enough to reveal errors, yet quick to compile."""
    return Shape(2, 32, 2, 4, 16) if is_dry() else Shape(4, 256, 4, batch, length)


def drawn(shape: Shape, towers: int, number: int, *, padded: bool = False) -> Batch:
    """Random rows [towers, batch, ...]; the same for a `number`, however split.

    padded: rows of random lengths, padded; else all have the full length.
    """
    rng = np.random.default_rng([1, number])
    size = (towers * shape.batch, shape.length)
    words = shape.google_config["vocab_size"]
    lengths = rng.integers(shape.length // 2, shape.length + 1, (size[0], 1))
    if not padded:
        lengths[:] = shape.length
    places = np.arange(shape.length)
    mask = (places < lengths).astype(np.int32)
    ids = rng.integers(1, words, size).astype(np.int32)
    rows = {
        "input_ids": ids * mask,
        "input_mask": mask,
        "segment_ids": ((places > lengths // 2) * mask).astype(np.int32),
        # Something learnable, so that the losses change.
        "label_ids": (ids[:, 0] % CLASSES).astype(np.int32),
        "is_real_example": np.ones(size[0], np.float32),
    }
    return {n: v.reshape(towers, shape.batch, *v.shape[1:]) for n, v in rows.items()}
