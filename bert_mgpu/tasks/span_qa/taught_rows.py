"""The rows to train on: those of a question without a known answer teach nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from bert_mgpu.core.rows import Features
from bert_mgpu.tasks.span_qa.dataset import NO_TARGET, STARTS


def taught(features: Features) -> np.ndarray:
    """Which rows have a target: bool [rows]."""
    return features.dense[STARTS] != NO_TARGET


class TaughtRows:
    """The rows that have a target (`core.rows.Rows`): run_squad.py skips the others."""

    def __init__(self, features: Features):
        self._features, self._kept = features, np.flatnonzero(taught(features))
        self.lengths = features.lengths[self._kept]
        self.target_counts = features.target_counts[self._kept]
        self.notes: dict[str, Any] = features.notes

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, numbers: np.ndarray) -> Features:
        return self._features.take(self._kept[numbers % len(self)])
