"""The padding policies compared by the fraction of tokens that are padding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rows import Rows
from bert_mgpu.data import pipeline
from bert_mgpu.data.batching import POLICIES, TrainingOrder

_SAMPLED_EXAMPLES = 20_000  # of which padding is counted
_SAMPLED_STEPS = 50


class Batching(NamedTuple):
    """The settings by which a training makes its batches."""

    padding: str  # one of POLICIES
    parts: int  # of a batch: towers x accumulation steps
    rows: int  # of a part
    max_length: int  # tokens of a row
    seed: int
    random_numbers: str  # one of SHUFFLES

    @property
    def examples(self) -> int:
        """The number of examples of a batch."""
        return self.parts * self.rows

    @property
    def sampled_steps(self) -> int:
        return max(1, min(_SAMPLED_STEPS, _SAMPLED_EXAMPLES // self.examples))


def training_orders(batching: Batching, rows: Rows) -> dict[str, TrainingOrder]:
    """The order of rows under each policy.

    Policies that are not used are only compared, by a few steps.
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


def fractions(
    tried: Mapping[str, TrainingOrder],
    lengths: np.ndarray,
    batching: Batching,
    *,
    steps: int,
) -> dict[str, float]:
    """The fraction of padding in the batches of the first steps, under each policy."""
    sample = range(min(steps, batching.sampled_steps))
    return {
        policy: pipeline.padding_fraction(map(order.placement, sample), lengths)
        for policy, order in tried.items()
    }
