"""Features whose tokens say which row they belong to."""

import numpy as np

from bert_mgpu.core.rows import Features, Ragged


def make_features(rows, longest=16, seed=0):
    """Row i holds the token i + 1, 2 to `longest` times."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, longest + 1, rows)
    ids = [[index + 1] * length for index, length in enumerate(lengths)]
    return Features(
        {"input_ids": Ragged.from_rows(ids)},
        {"label_ids": np.arange(rows, dtype=np.int32)},
        np.arange(1, rows + 1),
    )
