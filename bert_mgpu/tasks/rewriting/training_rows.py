"""The rows to train on: some of a row's written tokens are masked, the rest are shown.

Prediction writes in rounds, the least certain words last, so its rows are half written
most of the time. Hence a random number from 1 to n of a row's n tokens is masked
(Ghazvininejad et al. 2019, Mask-Predict), by seed, epoch and row.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from bert_mgpu.core.rng.draws import Draws
from bert_mgpu.core.rows import POSITIONS, Features, KeptRows, Ragged
from bert_mgpu.tasks.rewriting.dataset import MASKED_IDS


class TrainingRows(KeptRows):
    """The rows that have something to learn from (`core.rows.Rows`)."""

    def __init__(self, features: Features, seed: int):
        tagged = np.add.reduceat(
            features.ragged["tag_ids"].values > 0,
            features.ragged["tag_ids"].offsets[:-1],
        )
        super().__init__(features, (tagged > 0) | (features.target_counts > 0))
        self._seed = seed

    def take(self, numbers: np.ndarray) -> Features:
        """See `Rows`. The number of a row determines which of its tokens are masked."""
        rows = super().take(numbers)
        positions, ids = rows.targets[POSITIONS], rows.targets[MASKED_IDS]
        counts = positions.lengths
        masked = [
            self._drawn(number, count) if count else np.zeros(0, bool)
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
        ]
        kept = np.concatenate([np.zeros(0, bool), *masked])
        inputs = rows.ragged["input_ids"]
        values, starts = inputs.values.copy(), np.repeat(inputs.offsets[:-1], counts)
        shown = (starts + positions.values)[~kept]
        values[shown] = ids.values[~kept]
        left = np.array([own.sum() for own in masked], np.int64)
        offsets = np.concatenate([[0], np.cumsum(left)])
        return dataclasses.replace(
            rows,
            ragged=rows.ragged | {"input_ids": Ragged(values, inputs.offsets)},
            targets={
                name: Ragged(column.values[kept], offsets)
                for name, column in rows.targets.items()
            },
        )

    def _drawn(self, number: int, count: int) -> np.ndarray:
        """Which of a row's written tokens are masked: bool [count]."""
        # A stream of its own: the counter's last word is the number.
        draws = Draws(np.random.Philox(key=self._seed, counter=[0, 0, 0, number]))
        most = int(draws.integers(1, count + 1, 1)[0])
        return draws.permutation(count) < most
