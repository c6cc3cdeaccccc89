"""Files, columns and labels of a task; those of the built-in tasks.

The tasks and their columns are those of google-research/bert (cola, mnli,
mrpc, xnli) and of its fork bert-ad (the rest), so that old data folders work.
Lines are split at tabs, quotes are ordinary characters.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bert_mgpu.core.errors import UserError
from bert_mgpu.data import tables

# What a row's labels are; see kinds.py.
TYPES = SINGLE, MULTI, REGRESSION = "single", "multi", "regression"

_LAST = -1  # a column number: the last one, and none of the other columns


def _split_at_tabs(line: str) -> list[str]:
    return line.split("\t")


def _sentiment_cells(line: str) -> list[str]:
    """A JSON line as two columns; a missing sentiment is an empty one."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a JSON object: {error}") from None
    match record:
        case {"comment": str(comment), "items": [{"sentiment": value}, *_]}:
            return [comment, str(value)]
        case {"comment": str(comment)}:
            return [comment, ""]
    raise ValueError('no string "comment" in the JSON object')


def _halves(text: str) -> tuple[str, str]:
    half = len(text) // 2
    return text[:half], text[half:]


def _comma_halves(text: str) -> tuple[str, str]:
    """The second half loses its commas: models were trained on it like that."""
    pieces = text.split(",")
    half = len(pieces) // 2
    return ",".join(pieces[:half]), "".join(pieces[half:])


def _lower_and_strip(text: str) -> str:
    return text.lower().strip()


@dataclasses.dataclass(frozen=True)
class Columns:
    """Where the lines of a file hold their texts and label.

    Columns count from 0. Everything about the label, and the stripping and
    leaving out of lines, acts in training and evaluation only; `language` acts
    in prediction too.
    """

    text_a: int
    text_b: int | None = None
    label: int | None = None  # None: such files have no labels
    header: bool = False
    cells: Callable[[str], list[str]] = _split_at_tabs
    pair: Callable[[str], tuple[str, str]] | None = None  # cuts text_a in two
    clean: Callable[[str], str] = str
    clean_label: Callable[[str], str] = str
    relabel: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    strip_lines: bool = False  # and leave out blank ones
    language: str | None = None  # rows with another column 0 are left out
    id: int | None = None
    table: Table | None = None  # how a user's own files become cells

    def count(self, with_label: bool) -> int:
        """How many columns a line must have."""
        used = [self.text_a, self.text_b, self.label if with_label else None]
        numbers = [column for column in used if column is not None]
        return max(numbers) + 1 + (_LAST in numbers)


class Table(NamedTuple):
    """Own files: the columns of a file that become the columns 0, 1, ... of a row."""

    form: tables.Form
    columns: tuple[tables.Column, ...]


@dataclasses.dataclass(frozen=True)
class TaskFiles:
    """A task's labels, in the order of the class indices, and its files."""

    name: str
    labels: tuple[str, ...]  # empty: not known yet, every label is taken
    train: str | None
    dev: str | None
    test: str | None
    columns: Columns
    other_columns: Mapping[str, Columns] = dataclasses.field(
        default_factory=dict
    )  # of the splits that differ
    kind: str = SINGLE
    separator: str = ","  # between the labels of a row, where it may have several

    def columns_of(self, split: str) -> Columns:
        return self.other_columns.get(split, self.columns)


_BINARY = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_WOS = Columns(text_a=1, label=0, pair=_comma_halves)
_AUDIT = Columns(text_a=_LAST, label=2, clean=_lower_and_strip, clean_label=str.strip)

# fmt: off
_NEWS = (
    "news_story", "stock", "news_house", "news_finance", "news_edu", "news_car",
    "news_travel", "news_world", "news_game", "news_agriculture", "news_sports",
    "news_tech", "news_military", "news_entertainment", "news_culture",
)
_TOPICS = (
    "beauty", "astro", "history", "food", "digital", "game", "science",
    "health", "baby", "houseliving", "ent", "edu", "pet", "tech", "finance",
    "mil", "agriculture", "sports", "travel", "house",
)
_TASKS = (
    TaskFiles("cola", _BINARY, "train.tsv", "dev.tsv", "test.tsv",
              Columns(text_a=3, label=1),
              {"test": Columns(text_a=1, header=True)}),
    TaskFiles("mnli", _NLI,
              "train.tsv", "dev_matched.tsv", "test_matched.tsv",
              Columns(text_a=8, text_b=9, label=_LAST, header=True)),
    TaskFiles("mrpc", _BINARY, "train.tsv", "dev.tsv", "test.tsv",
              Columns(text_a=3, text_b=4, label=0, header=True)),
    TaskFiles("xnli", _NLI,
              "multinli/multinli.train.zh.tsv", "xnli.dev.tsv", None,
              Columns(text_a=6, text_b=7, label=1, header=True, language="zh"),
              {"train": Columns(text_a=0, text_b=1, label=2, header=True,
                                relabel={"contradictory": "contradiction"})}),
    TaskFiles("sentiment", _BINARY, "train.txt", "test.txt", None,
              Columns(text_a=0, label=1, cells=_sentiment_cells, pair=_halves,
                      relabel={"0": "0", "1": None, "2": "1"})),
    TaskFiles("wos5736", tuple(map(str, range(11))),
              "train.txt", "test.txt", None, _WOS),
    TaskFiles("wos46985", tuple(map(str, range(134))),
              "train.txt", "test.txt", None, _WOS),
    TaskFiles("toutiao", _NEWS, "train_0705.tsv", "test_0705.tsv", None,
              Columns(text_a=1, label=0, clean=str.strip,
                      clean_label=str.strip, strip_lines=True)),
    TaskFiles("title_audit", _BINARY,
              "train_all_0531.txt", "test_all_0531.txt", None, _AUDIT),
    TaskFiles("abuse", _BINARY,
              "train_abuse_0531.txt", "eval_data_revise.txt", None, _AUDIT),
    TaskFiles("ad", _BINARY, "train_0620.txt", "eval_0620.txt", None,
              Columns(text_a=2, text_b=3, label=0)),
    TaskFiles("high_level", _BINARY, "train_without_content_0515.txt",
              "test_without_content_0515.txt", None,
              Columns(text_a=3, label=2, clean=str.lower)),
    TaskFiles("doc_lv1", _TOPICS, "train.tsv", "test.tsv", None,
              Columns(text_a=1, label=0)),
)
# fmt: on

BUILTIN: dict[str, TaskFiles] = {task.name: task for task in _TASKS}


def lookup(task_name: str) -> TaskFiles:
    """The built-in task of this name, in any case, or a UserError."""
    task = BUILTIN.get(task_name.lower())
    if task is not None:
        return task
    near = difflib.get_close_matches(task_name.lower(), BUILTIN)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise UserError(
        f"--task_name={task_name} is not built in: {hint}Built in are"
        f" {', '.join(BUILTIN)}; a task of your own needs a task.json in"
        " --data_dir"
    )
