"""The rows of pretraining records, each read when a batch needs it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from bert_mgpu.core.rows import Features
from bert_mgpu.data import tfrecord
from bert_mgpu.data.dynamic_masking import DynamicMasking
from bert_mgpu.data.pretraining_records import WORDS, RecordIndex, parse, unpadded

_OPEN_FILES = 64


class RecordRows:
    """The records of several files as rows (`core.rows.Rows`)."""

    def __init__(
        self,
        files: Sequence[str],
        indices: Sequence[RecordIndex],
        masking: DynamicMasking | None = None,
        *,
        most: int | None = None,
    ):
        """masking: draws the missing masks; most: the number of rows to keep."""
        self._files = tuple(files)
        self._masking = masking

        def joined(columns: Sequence[np.ndarray]) -> np.ndarray:
            return np.concatenate(columns)[:most]

        self._file = joined(
            [np.full(len(x.sizes), n, np.int32) for n, x in enumerate(indices)]
        )
        self._offsets = joined([x.offsets for x in indices])
        self._sizes = joined([x.sizes for x in indices])
        self.lengths = joined([x.lengths for x in indices])
        self.target_counts = joined([x.counts for x in indices])
        if masking:
            self.target_counts = masking.most(self.lengths)
        self._follows = any(x.follows.any() for x in indices)  # all do, or none
        self.notes: dict[str, Any] = {}
        self._open = functools.lru_cache(maxsize=_OPEN_FILES)(self._opened)

    def __len__(self) -> int:
        return len(self._sizes)

    def _opened(self, number: int) -> BinaryIO:
        return open(self._files[number], "rb")

    def take(self, numbers: np.ndarray) -> Features:
        """See `Rows.take`. The number of a row determines its masks."""
        rows = numbers % len(self)
        records = [
            tfrecord.read(self._open(file), offset, size)
            for file, offset, size in zip(
                self._file[rows].tolist(),
                self._offsets[rows].tolist(),
                self._sizes[rows].tolist(),
                strict=True,
            )
        ]
        columns = parse(records)
        features = unpadded(columns, self._masking is None, self._follows)
        if self._masking is None:
            return features
        return self._masking.masked(features, columns[WORDS], numbers)
