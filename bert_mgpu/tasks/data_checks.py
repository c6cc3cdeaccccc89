"""Warnings about rows that can be read but are likely mistakes.

A training run logs them, and `bert_mgpu doctor data` shows all of them.
Letters: R rows of a file, one for each example.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rows import POSITIONS, Example, Features, Ragged

# A note: slots of ads stand in the rows as they are read, as a row's longest run of
# [UNK].
SLOTS_AS_WORDS = "slots_as_words"
_TRUNCATED, _UNKNOWN = 0.1, 0.02  # shares of rows, of tokens, above which to warn
_MAX_LINES = 3  # line numbers that a warning names
_BLOCK = 4096  # rows that are examined at a time


class CheckedSet(NamedTuple):
    """A set of rows and the file that it was read from."""

    split: str
    path: str
    features: Features
    unknown: int  # the id of [UNK]
    labelled: bool = True
    examples: Sequence[Example] = ()  # of the rows, where they are at hand

    def locations(self, rows: np.ndarray) -> str:
        """file:line of the first few of these rows, and how many more lines there are.

        A file may have several rows on a line, or all: each line is named once, and
        ids of rows are added where they are at hand.
        """
        every = self.features.lines[self.features.first_rows]
        lines = every[rows]
        distinct = [*dict.fromkeys(lines.tolist())]
        named = ", ".join(map(str, distinct[:_MAX_LINES]))
        rest = len(distinct) - _MAX_LINES
        more = f" and {rest} more" if rest > 0 else ""
        ids = ""
        if self.examples and len(np.unique(every)) < len(every):
            first = [str(self.examples[row].guid) for row in rows[:_MAX_LINES]]
            ids = f" ({', '.join(first)}{', ..' * (len(rows) > _MAX_LINES)})"
        return f"{self.path}:{named}{more}{ids}"

    @property
    def keys(self) -> np.ndarray:
        """A number for each row, equal for equal texts; all differ without `keys`."""
        first_rows = self.features.first_rows
        if self.features.keys is None:
            return np.arange(len(first_rows))
        return self.features.keys[first_rows]

    @property
    def truth(self) -> np.ndarray | None:
        return self.features.dense.get("label_ids")

    @property
    def unknown_share(self) -> float:
        """The share of [UNK] among all tokens except [CLS], [SEP] and slots of ads."""
        unknown = count = 0
        has_slots = self.features.notes.get(SLOTS_AS_WORDS)
        for ids, is_text in self._tokens():
            is_unknown = ids.values == self.unknown
            of_slots = _longest_runs(is_unknown, ids.offsets) if has_slots else 0
            count += int(np.sum(is_text) - np.sum(of_slots))
            unknown += int(np.sum(is_unknown) - np.sum(of_slots))
        return unknown / count if count else 0.0

    @property
    def text_lengths(self) -> np.ndarray:
        """The tokens of each row except [CLS] and [SEP]: int64 [rows]."""
        counts = [np.zeros(0, np.int64)]
        for ids, is_text in self._tokens():
            before = np.concatenate([[0], np.cumsum(is_text)])
            counts.append(before[ids.offsets[1:]] - before[ids.offsets[:-1]])
        return np.concatenate(counts)

    def _tokens(self) -> Iterator[tuple[Ragged, np.ndarray]]:
        """Blocks of rows: the ids, and whether each is neither [CLS] nor [SEP].

        Without further rows of the same texts, which have masks in them.
        """
        masked = POSITIONS in self.features.targets
        rows = self.features.first_rows if masked else np.arange(len(self.features))
        for first in range(0, len(rows), _BLOCK):
            ids = self.features.take(rows[first : first + _BLOCK]).ragged["input_ids"]
            if not len(ids.values):
                continue
            # Every row begins with [CLS] and ends with [SEP].
            special = ids.values[ids.offsets[0]], ids.values[ids.offsets[1] - 1]
            yield ids, ~np.isin(ids.values, special)


def _longest_runs(flags: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The length of the longest run of True in each row: int64 [R].

    flags: bool, those of all rows; the last of each row is False.
    """
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    longest = np.zeros(len(offsets) - 1, np.int64)
    rows = np.searchsorted(offsets, starts, "right") - 1
    np.maximum.at(longest, rows, ends - starts)
    return longest


class LabelIssue(NamedTuple):
    """A label that is likely wrong, according to a model that has not seen the row."""

    row: int  # index among the examples
    label: str
    suggested: str  # the label that the model suggests, with this probability
    probability: float


class LabelIssues(NamedTuple):
    """What `Family.doubts` found, and how good the model that it used is."""

    rows: int  # that the model learnt from; 0 if it cannot learn
    right: float  # the share of these rows whose label it predicts
    most_common: float  # the share of these rows with the most common label
    found: list[LabelIssue]
    needed: int  # different texts of a label, to learn it; two labels need them


def warnings(
    sets: Mapping[str, CheckedSet],
    label_warnings: Callable[[CheckedSet], Iterator[str]],
    *,
    takes_more: bool = True,
) -> list[str]:
    """A line for each likely mistake, with its locations.

    label_warnings: gives the warnings about a set's labels, which its family knows.
    takes_more: whether the model takes longer rows than these.
    """
    lines = [*_truncated(sets.values(), takes_more)]
    for checked in sets.values():
        lines += label_warnings(checked)
        lines += _text_warnings(checked)
    train = sets.get("train")
    if train is not None:
        for other in sets.values():
            if other is not train:
                lines += _in_both(train, other)
    return lines


def _text_warnings(checked: CheckedSet) -> Iterator[str]:
    features = checked.features
    empty = np.flatnonzero(features.lengths[features.first_rows] <= 2)
    if len(empty):
        yield f"{checked.locations(empty)}: {_rows(len(empty))} without any text"
    if checked.unknown_share > _UNKNOWN:
        yield (
            f"{checked.path}: {checked.unknown_share:.1%} of the tokens are [UNK]: is"
            " --vocab_file the model's own, and does --do_lower_case match the model?"
        )
    if not checked.labelled:
        return
    groups = _SameTexts(checked.keys)
    repeated = groups.repeated
    if len(repeated):
        rows = _rows(len(repeated))
        yield f"{checked.locations(repeated)}: {rows} with the text of an earlier row"
    if checked.truth is None:
        return
    conflicts = groups.conflicting(checked.truth)
    if len(conflicts):
        yield (
            f"{checked.locations(conflicts)}: {_rows(len(conflicts))} with the text of"
            " an earlier row and another label"
        )


def _truncated(sets: Collection[CheckedSet], takes_more: bool) -> Iterator[str]:
    """At most one line, for all sets together."""
    shares = {
        checked.path: checked.features.notes["truncated"]
        / checked.features.notes["rows"]
        for checked in sets
    }
    many = {path: share for path, share in shares.items() if share > _TRUNCATED}
    if many:
        least, most = (
            f"{share:.0%}" for share in (min(many.values()), max(many.values()))
        )
        range_of = most if least == most else f"{least} to {most}"
        notes = next(iter(sets)).features.notes
        advice = ["raise --max_seq_length"] if takes_more else []
        advice += ["pass --truncation=head_tail"] * notes.get("truncation", True)
        to_do = ", or ".join(advice) or "the model takes no longer ones"
        yield f"{', '.join(many)}: {range_of} of the rows are truncated: {to_do}"


def _in_both(train: CheckedSet, other: CheckedSet) -> Iterator[str]:
    if other.features.keys is None:
        return
    shared = np.flatnonzero(np.isin(other.keys, train.keys))
    if len(shared):
        share = len(shared) / len(other.keys)
        yield (
            f"{other.locations(shared)}: {_rows(len(shared))} ({share:.1%}) with the"
            f" text of a row of {train.path}: a model may have memorised them"
        )


class _SameTexts:
    """The rows of a set, grouped by their texts."""

    def __init__(self, keys: np.ndarray):
        _, self._first, self._group = np.unique(
            keys, return_index=True, return_inverse=True
        )

    @property
    def first(self) -> np.ndarray:
        """For each row, the first row with the same text: int [R]."""
        return self._first[self._group]

    @property
    def repeated(self) -> np.ndarray:
        """Rows with the same text as an earlier row."""
        return np.flatnonzero(self.first != np.arange(len(self._group)))

    def conflicting(self, truth: np.ndarray) -> np.ndarray:
        """Rows whose label differs from that of the first row with the same text."""
        flat = truth.reshape(len(truth), -1)
        return np.flatnonzero((flat != flat[self.first]).any(-1))


def count_repeated(checked: CheckedSet) -> int:
    """The number of rows with the same text as an earlier row."""
    return len(_SameTexts(checked.keys).repeated)


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count > 1)}"
