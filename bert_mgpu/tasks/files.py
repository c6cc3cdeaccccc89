"""The files of a task: their names, columns and labels."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bert_mgpu.core import encodings
from bert_mgpu.core.errors import short_repr
from bert_mgpu.data import tables
from bert_mgpu.data.columns import Column
from bert_mgpu.text.ad_segments import SLOT_CHARACTER

LAST = -1  # a column number: the last column, which is none of the others
DEFAULT_TYPE = "single"
MARKER = "slot_marker"  # a key of the options


def split_at_tabs(line: str) -> list[str]:
    return line.split("\t")


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a file's lines that hold the texts and the label.

    Columns are numbered from 0. The fields about labels, and `strip_lines`, apply to
    training and evaluation only, `language` to prediction too.
    """

    text_a: int
    text_b: int | None = None
    label: int | None = None  # None: the files have no labels
    header: bool = False
    cells: Callable[[str], list[str]] = split_at_tabs
    pair: Callable[[str], tuple[str, str]] | None = None  # cuts text_a in two
    clean: Callable[[str], str] = str
    clean_label: Callable[[str], str] = str
    relabel: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    strip_lines: bool = False  # and skip blank ones
    language: str | None = None  # rows with another value in column 0 are skipped
    id: int | None = None
    group: int | None = None  # rows with the same value are ranked together
    encoding: str = encodings.UTF_8  # used where there is no table
    # Texts may be lists of words, and labels nested lists or objects.
    nested: bool = False
    table: TableColumns | None = None  # for a user's own files

    def count(self, with_label: bool) -> int:
        """The number of columns that a line must have."""
        used = [self.text_a, self.text_b, self.label if with_label else None]
        numbers = [column for column in used if column is not None]
        return max(numbers) + 1 + (LAST in numbers)

    def text_changes(self, lower_case: bool) -> str | None:
        """How texts are altered before tokenization; None if token ids do not show it.

        lower_case: whether the tokenizer itself lowers the case.
        """
        if self.pair is not None:
            return "split into text_a and text_b"
        return "in lower case" if not lower_case and self.clean("A") == "a" else None

    def one_text(self, cells: Sequence[Any], index: int) -> str:
        """The text in a column of a row. Raises ValueError for a list."""
        cell = cells[index]
        if isinstance(cell, list):
            name = self.table.columns[index] if self.table else index
            raise ValueError(
                f"column {name!r} is a list, {short_repr(cell)}: pass one text"
            )
        return cell


class TableColumns(NamedTuple):
    """For a user's own files: those columns that become columns 0, 1, ... of a row."""

    form: tables.TableFormat
    columns: tuple[Column, ...]


@dataclasses.dataclass(frozen=True)
class TaskFiles:
    """A task's labels, in the order of the class indices, and its files."""

    name: str
    labels: tuple[str, ...]  # empty: not known yet, every label is accepted
    train: str | None
    dev: str | None
    test: str | None
    columns: Columns
    # Split -> its columns, where they differ from `columns`.
    other_columns: Mapping[str, Columns] = dataclasses.field(default_factory=dict)
    task_type: str = DEFAULT_TYPE
    separator: str = ","  # between the labels of a row, where it may have several
    # Further keys of task.json, which only tasks of this type have.
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    built_in: bool = False
    has_slots: bool = False  # second texts are ads with slots: see text/ad_slots.py

    @functools.cached_property
    def known_labels(self) -> frozenset[str]:
        """The labels, for rows to look theirs up among thousands."""
        return frozenset(self.labels)

    @property
    def marks(self) -> str:
        """What marks slots in texts; a repair must not replace it."""
        own = SLOT_CHARACTER if self.has_slots else ""
        return own + str(self.options.get(MARKER, ""))

    def file_of(self, split: str) -> str | None:
        """The name of the file of "train", "dev" or "test"."""
        return {"train": self.train, "dev": self.dev, "test": self.test}[split]

    def columns_of(self, split: str) -> Columns:
        return self.other_columns.get(split, self.columns)


def described(columns: Columns) -> dict[str, Any]:
    """The fields of columns as JSON values, without those that have their defaults.

    So a run can be resumed by later code in which `Columns` has more fields. Functions
    are given by name, since their repr differs in every process.
    """
    defaults = vars(Columns(text_a=columns.text_a))
    return {"text_a": columns.text_a} | {
        name: getattr(value, "__qualname__", value)
        for name, value in vars(columns).items()
        if value != defaults[name]
    }
