"""The built-in classification tasks: file names, columns and labels.

The tasks and their columns are those of google-research/bert (cola, mnli,
mrpc, xnli) and of its fork bert-ad (the rest), so that old data folders work.
Lines are split at tabs, quotes are ordinary characters.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bert_mgpu.data.readers import check_file, read_lines, sample_rows
from bert_mgpu.errors import UserError
from bert_mgpu.task import Example

_LAST = -1  # a column number: the last one, and none of the other columns
_MAX_LABELS_SHOWN = 20


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

    def count(self, with_label: bool) -> int:
        """How many columns a line must have."""
        used = [self.text_a, self.text_b, self.label if with_label else None]
        numbers = [column for column in used if column is not None]
        return max(numbers) + 1 + (_LAST in numbers)


@dataclasses.dataclass(frozen=True)
class TaskFiles:
    """A task's labels, in the order of the class indices, and its files."""

    name: str
    labels: tuple[str, ...]  # empty: not known yet, every label is taken
    train: str
    dev: str
    test: str | None
    columns: Columns
    other_columns: Mapping[str, Columns] = dataclasses.field(
        default_factory=dict
    )  # of the splits that differ

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


class Source(NamedTuple):
    """A file to read, the split whose columns it has, a remark for the log."""

    path: pathlib.Path
    split: str
    note: str | None = None


def split_path(task: TaskFiles, data_dir: str | os.PathLike[str], split: str) -> Source:
    """Finds the file of a split: "train", "dev" or "test".

    Test is dev where the task has no test file, or has one that is absent.

    Raises:
      UserError: there is no such file; names the nearest ones.
    """
    directory = pathlib.Path(data_dir)
    name = {"train": task.train, "dev": task.dev, "test": task.test}[split]
    note = None
    if split == "test" and name and not (directory / name).is_file():
        note = f"{directory / name} is absent: {task.dev} is read instead"
        name = None
    if name is None:
        split, name = "dev", task.dev
    check_file(directory / name)
    return Source(directory / name, split, note)


def predict_file_split(task: TaskFiles, path: str | os.PathLike[str]) -> str:
    """The split whose columns a `--predict_file` has: "test" or "dev".

    They differ in cola alone, whose test files have no label column and a
    header: a file whose first line reaches dev's text column is read as dev.
    """
    if task.test is None:
        return "dev"
    dev, test = task.columns_of("dev"), task.columns_of("test")
    if dev == test:
        return "test"
    _, first_line = next(read_lines(path), (0, ""))
    width = len(dev.cells(first_line))
    return "dev" if width >= dev.count(with_label=False) else "test"


def read_examples(
    task: TaskFiles,
    path: str | os.PathLike[str],
    split: str,
    *,
    with_label: bool,
    keep: int | None = None,
    seed: int = 0,
) -> list[Example]:
    """Reads a file in its order, with the columns of `split`.

    With labels, as training and evaluation want them, rows are left out where
    the task says so and every label is checked. Without, as prediction wants
    them, the label is never looked at and each line below the header gives one
    example, a blank line one with an empty text, so that predictions can be
    pasted beside the file; xnli's rows of other languages are left out even
    then, and a blank line there has no language. A text in the last column is
    the last column in both, so prediction files may lack the label column.

    Args:
      keep: if given, only a random sample of so many rows, in file order.
      seed: of that sample.

    Raises:
      UserError: with file:line, for too few columns or an unknown label; or
        there are no rows.
    """
    columns = task.columns_of(split)
    if with_label and columns.label is None:
        raise UserError(
            f"{path}: {split} files of the task {task.name} have no labels to"
            f" evaluate with: pass a file with the columns of {task.dev}"
        )
    examples = []
    for number, line in read_lines(path):
        if number == 1 and columns.header:
            continue
        try:
            row = _parse(task, columns, line, with_label)
        except ValueError as error:
            raise UserError(f"{path}:{number}: {error}") from None
        if row is not None:
            guid = f"{split}-{number - 1}"
            examples.append(Example(guid, *row, line=number))
    if not examples:
        raise UserError(f"{path}: no rows for the task {task.name}")
    if keep is None:
        return examples
    return [examples[i] for i in sample_rows(len(examples), keep, seed)]


def _parse(
    task: TaskFiles, columns: Columns, line: str, with_label: bool
) -> tuple[str, str | None, str | None] | None:
    """(text_a, text_b, label) of a line, None to leave it out.

    Raises:
      ValueError: what is wrong with the line.
    """
    if with_label and columns.strip_lines:
        line = line.lstrip()  # the right end goes with its column
        if not line:
            return None
    if not line.strip():
        if columns.language is not None:
            return None
        if with_label:
            raise ValueError("blank line: delete it")
        return "", None, None
    cells = columns.cells(line)
    if columns.language not in (None, cells[0]):
        return None
    needed = columns.count(with_label)
    if len(cells) < needed:
        plural = "s" * (len(cells) > 1)
        raise ValueError(
            f"{len(cells)} column{plural}, the task {task.name} needs column"
            f" {needed - 1} (counted from 0, separated by tabs)"
        )
    label = None
    if with_label:
        label = _label(task, columns, cells)
        if label is None:
            return None
    if columns.pair is not None:
        return *columns.pair(cells[columns.text_a]), label
    text_a = columns.clean(cells[columns.text_a])
    if columns.text_b is None:
        return text_a, None, label
    return text_a, columns.clean(cells[columns.text_b]), label


def _label(task: TaskFiles, columns: Columns, cells: list[str]) -> str | None:
    assert columns.label is not None
    cell = columns.clean_label(cells[columns.label])
    label = columns.relabel.get(cell, cell)
    if label is None or label in task.labels or not task.labels:
        return label
    known = list(dict.fromkeys([*columns.relabel, *task.labels]))
    if len(known) > _MAX_LABELS_SHOWN:
        known = [*known[:3], "...", known[-1]]
    raise ValueError(f"label {cell[:40]!r} is not one of {', '.join(known)}")
