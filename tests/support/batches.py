"""A small model and random batches of its rows, for towers of any layout."""

import numpy as np

from tests.support.tiny import small_config

# One layer is traced in half the time of two, which a test takes where they matter.
CONFIG = small_config(num_hidden_layers=1)
NO_DROPOUT = small_config(dropout=0.0, num_hidden_layers=1)
TWO_LAYERS = small_config()
TWO_LAYERS_NO_DROPOUT = small_config(dropout=0.0)
LABELS = ("a", "b", "c")
LENGTH = 12
RATE = 3e-3


def make_batch(rng, rows, *, ragged):
    """Arrays [rows, ...] under Google's names; ragged: some rows count nothing."""
    lengths = rng.integers(3, LENGTH + 1, (rows, 1))
    places = np.arange(LENGTH)
    mask = (places < lengths).astype(np.int32)
    weights = np.ones(rows, np.float32)
    if ragged:
        weights[rng.random(rows) < 0.4] = 0
        weights[-rows // 4 :] = 0  # with 4 towers, the last one is empty
        weights[0] = 1
    return {
        "input_ids": rng.integers(1, 61, (rows, LENGTH)).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": ((places > lengths // 2) * mask).astype(np.int32),
        "label_ids": rng.integers(0, 3, rows).astype(np.int32),
        "is_real_example": weights,
    }


def split(batch, towers):
    return {
        name: value.reshape(towers, -1, *value.shape[1:])
        for name, value in batch.items()
    }
