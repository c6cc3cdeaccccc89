"""What may be wrong with labelled rows that can all be read.

A training warns of it, and `python -m bert_mgpu doctor data` shows all of it.
Letters: R rows of a set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rows import Features

_TRUNCATED, _UNKNOWN = 0.1, 0.02  # shares of rows and of tokens that are much
_PLACES = 3  # lines that are named


class CheckedSet(NamedTuple):
    """A set of rows and where it was read."""

    split: str
    path: str
    features: Features
    unknown: int  # the id of [UNK]
    labelled: bool = True

    def places(self, rows: np.ndarray) -> str:
        """file:line of the first ones."""
        lines = self.features.lines[rows[:_PLACES]]
        named = ", ".join(str(line) for line in lines)
        more = f" and {len(rows) - _PLACES} more" if len(rows) > _PLACES else ""
        return f"{self.path}:{named}{more}"

    @property
    def keys(self) -> np.ndarray:
        """Equal for rows of the same text; all differ where none are known."""
        if self.features.keys is None:
            return np.arange(len(self.features))
        return self.features.keys

    @property
    def truth(self) -> np.ndarray | None:
        return self.features.dense.get("label_ids")

    @property
    def unknown_share(self) -> float:
        """Of the tokens without [CLS] and [SEP]."""
        values = self.features.ragged["input_ids"].values
        segments = self.features.ragged["segment_ids"]
        pairs = np.maximum.reduceat(segments.values, segments.offsets[:-1]).sum()
        count = len(values) - 2 * len(self.features) - pairs
        return float(np.sum(values == self.unknown) / count) if count else 0.0


def warnings(
    sets: Mapping[str, CheckedSet], of_labels: Callable[[CheckedSet], Iterator[str]]
) -> list[str]:
    """A line for each thing that is likely a mistake, with its places.

    of_labels: those of a set's labels, which its family knows.
    """
    found: list[str] = []
    for one in sets.values():
        found += of_labels(one)
        found += _of_texts(one)
    train = sets.get("train")
    if train is not None:
        for one in sets.values():
            if one is not train:
                found += _in_both(train, one)
    return found


def _of_texts(one: CheckedSet) -> Iterator[str]:
    features = one.features
    empty = np.flatnonzero(features.lengths <= 2)
    if len(empty):
        yield f"{one.places(empty)}: {_rows(len(empty))} without any text"
    truncated = features.notes["truncated"] / features.notes["rows"]
    if truncated > _TRUNCATED:
        yield (
            f"{one.path}: {truncated:.0%} of the rows are truncated: raise"
            " --max_seq_length, or pass --truncation=head_tail"
        )
    if one.unknown_share > _UNKNOWN:
        yield (
            f"{one.path}: {one.unknown_share:.1%} of the tokens are [UNK]: is it the"
            " model's own vocabulary, and --do_lower_case as it wants?"
        )
    if not one.labelled:
        return
    groups = _Groups(one.keys)
    again = groups.again
    if len(again):
        rows = _rows(len(again))
        yield f"{one.places(again)}: {rows} with the text of an earlier row"
    if one.truth is None:
        return
    conflicts = groups.differing(one.truth)
    if len(conflicts):
        yield (
            f"{one.places(conflicts)}: {_rows(len(conflicts))} with the text of an"
            " earlier row and another label"
        )


def _in_both(train: CheckedSet, other: CheckedSet) -> Iterator[str]:
    if other.features.keys is None:
        return
    known = np.flatnonzero(np.isin(other.keys, train.keys))
    if len(known):
        share = len(known) / len(other.features)
        yield (
            f"{other.places(known)}: {_rows(len(known))} ({share:.1%}) with the text of"
            f" a row of {train.path}: what is measured there is memory"
        )


class _Groups:
    """Rows of the same text."""

    def __init__(self, keys: np.ndarray):
        _, self._first, self._group = np.unique(
            keys, return_index=True, return_inverse=True
        )

    @property
    def first(self) -> np.ndarray:
        """The first row with the text of each row, int [R]."""
        return self._first[self._group]

    @property
    def again(self) -> np.ndarray:
        """Rows whose text an earlier one has."""
        return np.flatnonzero(self.first != np.arange(len(self._group)))

    def differing(self, truth: np.ndarray) -> np.ndarray:
        """Those of them whose label is not that of the first row of their text."""
        flat = truth.reshape(len(truth), -1)
        return np.flatnonzero((flat != flat[self.first]).any(-1))


def repeated(one: CheckedSet) -> int:
    """Rows with the text of an earlier one."""
    return len(_Groups(one.keys).again)


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count > 1)}"
