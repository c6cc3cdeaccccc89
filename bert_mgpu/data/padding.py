"""The padding policies compared: how much of a batch each fills with padding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rows import Rows
from bert_mgpu.data import pipeline
from bert_mgpu.data.batching import POLICIES, TrainingOrder

_SAMPLED_EXAMPLES = 20_000  # that shares are told from
_SAMPLED_STEPS = 50


class Batching(NamedTuple):
    """How a training makes its batches."""

    padding: str  # one of POLICIES
    parts: int  # of a batch: towers x accumulation steps
    rows: int  # of a part
    max_length: int  # tokens of a row
    seed: int
    random_numbers: str  # one of SHUFFLES

    @property
    def examples(self) -> int:
        """Of a batch."""
        return self.parts * self.rows

    @property
    def sampled_steps(self) -> int:
        return max(1, min(_SAMPLED_STEPS, _SAMPLED_EXAMPLES // self.examples))


def training_orders(batching: Batching, rows: Rows) -> dict[str, TrainingOrder]:
    """Which rows each step gets, under each policy.

    Those policies that are not used are only to be compared, by a few steps.
    """
    return {
        policy: TrainingOrder(
            rows.lengths,
            batching.parts,
            batching.rows,
            padding=policy,
            max_length=batching.max_length,
            seed=batching.seed,
            sample=None if policy == batching.padding else batching.sampled_steps,
            counts=rows.counts,
            random_numbers=batching.random_numbers,
        )
        for policy in POLICIES
    }


def shares(
    tried: Mapping[str, TrainingOrder],
    lengths: np.ndarray,
    batching: Batching,
    *,
    steps: int,
) -> dict[str, float]:
    """How much of the batches of so many steps would be padding, under each policy."""
    sample = range(min(steps, batching.sampled_steps))
    return {
        policy: pipeline.padding_share(map(order.placement, sample), lengths)
        for policy, order in tried.items()
    }
