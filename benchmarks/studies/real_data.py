"""Five sets of ../shared/data, with texts and a label in each row."""

from __future__ import annotations

import csv
import io
import json
import pathlib
import zipfile
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.harness import SHARED

DATA = SHARED / "data"
TRAIN, DEV = 2_000, 400  # rows
Rows = list[tuple[str, ...]]  # texts, then the label
Lines = Sequence[Sequence[str]]  # likewise


class Real(NamedTuple):
    """A set: its rows, its vocabulary and the type of its task."""

    rows: Callable[[], Rows]
    vocabulary: str
    type: str = "single"


def _tab_separated(path: str) -> Rows:
    lines = (DATA / path).read_text(encoding="utf-8").split("\n")
    rows = [tuple(line.split("\t")) for line in lines if line]
    return [row for row in rows if len(row) == len(rows[0])]


def _shopping() -> Rows:
    with zipfile.ZipFile(
        DATA / "online_shopping_10_cats" / "online_shopping_10_cats.zip"
    ) as packed:
        (name,) = packed.namelist()
        text = packed.read(name).decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    clean = (" ".join(row["review"].split()) for row in rows)
    return [(text, row["cat"]) for text, row in zip(clean, rows, strict=True) if text]


SETS = {
    "headlines (zh, 10 labels)": Real(
        lambda: _tab_separated("thucnews_title/sub_train.txt"), "chinese"
    ),
    "sst2 (en, 2 labels)": Real(lambda: _tab_separated("sst2/train.tsv"), "uncased"),
    "shopping (zh, 10 labels)": Real(_shopping, "chinese"),
    "afqmc (zh, pairs)": Real(lambda: _tab_separated("afqmc/train.txt"), "chinese"),
    "sts-b (zh, pairs, numbers)": Real(
        lambda: _tab_separated("chinese_stsb/sts-b-train.txt"), "chinese", "regression"
    ),
}


def write(folder: pathlib.Path, train: Lines, dev: Lines, kind: str = "single") -> None:
    """Writes the rows of a set, and a task.json whose type is `kind`."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, lines in (("train", train), ("dev", dev)):
        text = "".join("\t".join(line) + "\n" for line in lines)
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8")
    width = len(train[0])
    task = {"train": "train.tsv", "dev": "dev.tsv", "text_a": 0}
    task |= {"label": width - 1, "type": kind}
    task |= {"text_b": 1} if width > 2 else {}
    (folder / "task.json").write_text(json.dumps(task))
