"""What the loop knows of a task: rows, features, losses, outputs, scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

# A batch is a dict of tensors under google-research/bert's names. Shapes, with
# B rows and T tokens: input_ids, input_mask, segment_ids int32 [B, T];
# label_ids [B, ...], as tasks/kinds.py says; is_real_example float32 [B], 0 where a
# row only fills up;
# masked_lm_positions, masked_lm_ids int32 [B, P], masked_lm_weights float32 [B, P].
Batch = Mapping[str, Any]
Params = Mapping[str, Any]  # name as in a Google TF1 checkpoint -> tensor


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """One raw row. `label` is None where the row is only to be predicted."""

    guid: str
    text_a: str
    text_b: str | None = None
    label: str | tuple[str, ...] | float | None = None
    line: int = 0  # in its file, from 1


POSITIONS = "masked_lm_positions"


class Ragged(NamedTuple):
    """Rows of different lengths: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: np.ndarray  # int32 [sum of lengths]
    offsets: np.ndarray  # int64 [rows + 1]

    def row(self, index: int) -> np.ndarray:
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @property
    def places(self) -> np.ndarray:
        """The place of each value in its row, from 0: int64 [sum of lengths]."""
        return np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.lengths)

    def take(self, numbers: np.ndarray) -> Ragged:
        """These rows, one after the other."""
        sizes = self.lengths[numbers]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        # Where each value comes from: as far from its row's start as it will be.
        back = np.repeat(self.offsets[numbers] - offsets[:-1], sizes)
        return Ragged(self.values[np.arange(offsets[-1]) + back], offsets)

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        values = np.fromiter(
            (value for row in rows for value in row), np.int32, int(offsets[-1])
        )
        return cls(values, offsets)


@dataclasses.dataclass(frozen=True)
class Features:
    """Model input of many rows, by column; what the feature cache holds.

    `ragged` columns are padded with zeros to the batch's length, `dense`
    columns have one value or vector a row. `targets` are values at some tokens of a
    row, whose places in it are the column POSITIONS. Every column has the same number
    of rows. `keys` are hashes of the texts, by which rows of the same text are found.
    `lines` are the rows' line numbers in their file, which no model reads;
    `notes` are facts found on the way (truncated rows, ...), JSON values.
    """

    ragged: dict[str, Ragged]
    dense: dict[str, np.ndarray]
    lines: np.ndarray  # int64 [rows]
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)
    targets: dict[str, Ragged] = dataclasses.field(default_factory=dict)
    keys: np.ndarray | None = None  # uint64 [rows]

    def __len__(self) -> int:
        return len(self.ragged["input_ids"].offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row, [CLS] and [SEP] included, int64 [rows]."""
        return self.ragged["input_ids"].lengths

    @property
    def counts(self) -> np.ndarray:
        """Targets of each row at most, int64 [rows]."""
        if not self.targets:
            return np.zeros(len(self), np.int64)
        return self.targets[POSITIONS].lengths

    def take(self, numbers: np.ndarray) -> Features:
        """The rows of these numbers (see `Rows`), without notes."""
        rows = numbers % len(self)
        return Features(
            {name: column.take(rows) for name, column in self.ragged.items()},
            {name: values[rows] for name, values in self.dense.items()},
            self.lines[rows],
            targets={name: column.take(rows) for name, column in self.targets.items()},
        )


class Rows(Protocol):
    """What a set of rows is to the loop: features in memory, or records on a disk.

    Row i of epoch e has the number e * len(rows) + i: what is drawn anew in each epoch
    follows from it.
    """

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row, [CLS] and [SEP] included, int64 [rows]."""
        ...

    @property
    def counts(self) -> np.ndarray:
        """Targets of each row at most, int64 [rows]."""
        ...

    @property
    def notes(self) -> dict[str, Any]:
        """Facts found on the way, for what a run says at its start."""
        ...

    def __len__(self) -> int: ...

    def take(self, numbers: np.ndarray) -> Features:
        """The rows of these numbers, in this order."""
        ...


class Noise(NamedTuple):
    """Where the random numbers of a forward pass come from.

    Dropout masks are a function of (seed, step, a row's place in the global
    batch, site), so neither towers nor devices change them.
    """

    seed: Any  # uint64 scalar
    step: Any  # int64 scalar, the optimizer step
    first_row: Any  # int64 scalar, place of the batch's row 0 in the global batch


class Task(Protocol):
    """One kind of job. The loop, evaluation and prediction use only this."""

    name: str
    max_seq_length: int
    labels: tuple[str, ...]  # of the classes; empty where there are none
    unused: frozenset[str]  # parameters that no loss depends on
    facts: dict[
        str, Any
    ]  # a trained model is of no use where these differ: flag -> value

    def param_specs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Every parameter: name -> (shape, initializer), see nn/params.py."""
        ...

    def loss_weights(self, batch: Batch) -> dict[str, np.float32]:
        """Denominator of each loss, from the labels of arrays [B, ...] alone."""
        ...

    def loss_sums(
        self, params: Params, batch: Batch, noise: Noise | None
    ) -> dict[str, Any]:
        """Numerator of each loss, float32 scalars; no noise is inference."""
        ...

    def outputs(self, params: Params, batch: Batch) -> dict[str, Any]:
        """What evaluation and prediction need of each row: tensors [B, ...]."""
        ...

    def score(self, outputs: Mapping[str, np.ndarray], rows: Any) -> dict[str, Any]:
        """Metrics over a whole set of `Rows`, Google's names first."""
        ...
