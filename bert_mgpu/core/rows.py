"""Examples as a file holds them, and the rows of tokens that a model reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """One raw row. `label` is None where the row is only to be predicted.

    words: the place of each word in text_a, if it was given as words; None: as a text.
    group: the same for all rows that are ranked together; None: the row is not ranked.
    """

    guid: str | int  # int: from a column of numbers in JSON Lines or Parquet
    text_a: str
    text_b: str | None = None
    label: Any = None  # what the task family's `read_label` returns
    line: int = 0  # in its file, from 1
    words: Sequence[tuple[int, int]] | None = None
    group: str | None = None


POSITIONS = "masked_lm_positions"
REAL_TARGETS = "masked_lm_real"  # where the real targets of a batch are: core.task


class Ragged(NamedTuple):
    """Rows of different lengths: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: np.ndarray  # [sum of lengths, ...]
    offsets: np.ndarray  # int64 [rows + 1]

    def row(self, index: int) -> np.ndarray:
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @property
    def positions(self) -> np.ndarray:
        """The position of each value in its row, from 0: int64 [sum of lengths]."""
        return np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.lengths)

    def take(self, numbers: np.ndarray) -> Ragged:
        """The rows of these numbers, in this order."""
        starts = self.offsets[numbers]
        lengths = (
            self.offsets[numbers + 1] - starts
        )  # those of all rows would take longer
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        # The old index of a value minus its new one: the same for all of a row.
        shifts = np.repeat(starts - offsets[:-1], lengths)
        return Ragged(self.values[np.arange(offsets[-1]) + shifts], offsets)

    @classmethod
    def concatenated(cls, parts: Sequence[Ragged]) -> Ragged:
        """The rows of all parts, in their order."""
        lengths = np.concatenate([part.lengths for part in parts])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return cls(np.concatenate([part.values for part in parts]), offsets)

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        values = np.fromiter(
            (value for row in rows for value in row), np.int32, int(offsets[-1])
        )
        return cls(values, offsets)


class Spliced(NamedTuple):
    """Rows made of slices of shared values: row i is its slices, one after the other.

    So the windows of a text share one copy of its tokens.
    """

    values: np.ndarray  # [N, ...]
    slices: np.ndarray  # int32 [rows, S, 2]: the start and the length of each

    @property
    def lengths(self) -> np.ndarray:
        return self.slices[:, :, 1].sum(1, dtype=np.int64)

    def row(self, index: int) -> np.ndarray:
        parts = [self.values[start : start + n] for start, n in self.slices[index]]
        return np.concatenate(parts)

    def take(self, numbers: np.ndarray) -> Ragged:
        """The rows of these numbers, in this order."""
        starts, lengths = np.moveaxis(self.slices[numbers].astype(np.int64), 2, 0)
        offsets = np.concatenate([[0], np.cumsum(lengths.sum(1))])
        flat = lengths.reshape(-1)
        # The index of a value minus its new one: the same for all of a slice.
        shifts = np.repeat(starts.reshape(-1) - np.cumsum(flat) + flat, flat)
        return Ragged(self.values[np.arange(offsets[-1]) + shifts], offsets)


# A set's outputs by name: an array [rows, ...], or Ragged with a value per token.
Outputs = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Features:
    """The model input of many rows, by column: what the feature cache holds.

    `ragged` columns are padded with zeros to the batch's length; so are `spliced` ones,
    whose rows are put together only when they are taken. `dense` columns have one value
    or vector per row. `targets` are values at some tokens of a row; their column
    POSITIONS holds the positions of these tokens. Every column has the same number of
    rows. `keys` are hashes of the texts, equal for examples with the same text.
    `owners` holds the example that each row belongs to: examples are numbered from 0,
    and the rows of an example follow one another. Without it row i is example i.
    `lines` are the rows' line numbers in their file. `unread` columns are ragged values
    that no model reads, such as the places of words. `notes` are facts about the set
    (truncated rows, ...) as JSON values.
    """

    ragged: dict[str, Ragged]
    dense: dict[str, np.ndarray]
    lines: np.ndarray  # int64 [rows]
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)
    targets: dict[str, Ragged] = dataclasses.field(default_factory=dict)
    keys: np.ndarray | None = None  # uint64 [rows]
    owners: np.ndarray | None = None  # int64 [rows]
    unread: dict[str, Ragged] = dataclasses.field(default_factory=dict)
    spliced: dict[str, Spliced] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.owners is not None:
            steps = np.diff(self.owners, prepend=-1)
            in_order = len(steps) == len(self) and np.isin(steps, (0, 1)).all()
            if not in_order or (len(steps) and steps[0] != 1):
                raise ValueError(
                    "owners: examples are numbered 0, 1, ... and each has a row, one"
                    " after the other"
                )

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def first_rows(self) -> np.ndarray:
        """The first row of each example, int64 [examples]."""
        if self.owners is None:
            return np.arange(len(self))
        return np.flatnonzero(np.diff(self.owners, prepend=-1))

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each row with [CLS] and [SEP], int64 [rows]."""
        columns: Mapping[str, Any] = self.spliced or self.ragged
        return columns["input_ids"].lengths

    @property
    def target_counts(self) -> np.ndarray:
        """The most targets that each row may have, int64 [rows]."""
        if not self.targets:
            return np.zeros(len(self), np.int64)
        return self.targets[POSITIONS].lengths

    def take(self, numbers: np.ndarray) -> Features:
        """What a model reads of the rows of these numbers (see `Rows`), and `lines`."""
        rows = numbers % len(self)
        return Features(
            {
                name: column.take(rows)
                for columns in (self.ragged, self.spliced)
                for name, column in columns.items()
            },
            {name: values[rows] for name, values in self.dense.items()},
            self.lines[rows],
            targets={name: column.take(rows) for name, column in self.targets.items()},
        )


class Rows(Protocol):
    """A set of rows as the training loop reads it, from memory or from records on disk.

    Row i of epoch e has the number e * len(rows) + i, which determines all that is
    drawn anew in each epoch.
    """

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each row with [CLS] and [SEP], int64 [rows]."""
        ...

    @property
    def target_counts(self) -> np.ndarray:
        """The most targets that each row may have, int64 [rows]."""
        ...

    @property
    def notes(self) -> dict[str, Any]:
        """Facts about the set, for the log at the start of a run."""
        ...

    def __len__(self) -> int: ...

    def take(self, numbers: np.ndarray) -> Features:
        """The rows of these numbers, in this order."""
        ...


class KeptRows:
    """Some of the rows of a set in memory (`Rows`): those with something to learn."""

    def __init__(self, features: Features, is_kept: np.ndarray):
        """is_kept: bool [rows]."""
        self._features, self._kept = features, np.flatnonzero(is_kept)
        self.lengths = features.lengths[self._kept]
        self.target_counts = features.target_counts[self._kept]
        self.notes: dict[str, Any] = features.notes

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, numbers: np.ndarray) -> Features:
        return self._features.take(self._kept[numbers % len(self)])
