"""What does a model learn of a name that it only ever read without a label?

    python benchmarks/rare_word.py run     # the missing rows, one by one
    python benchmarks/rare_word.py show    # the tables of them

Reviews of an online shop in ten categories (online_shopping_10_cats). No labelled row
holds any of the names below, each of which belongs to one category. The weights of
../shared/models are fine-tuned as they are; after further pretraining on reviews
without the names; and on the same reviews, where some are replaced by a few dozen that
hold each name. What is measured: the category of other reviews that hold a name, whole
or with the name cut out, and of short texts that hold nothing else. Results are
appended to benchmarks/results/rare_word.json.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import json
import pathlib
import re
import shutil
import statistics
import threading
import time
import zipfile
from collections.abc import Sequence
from typing import NamedTuple

import accuracy
import experiments
import further
from experiments import Row, Table
from harness import RESULTS, ROOT, SHARED

WORK = ROOT / "build" / "rare_word"
ARCHIVE = SHARED / "data" / "online_shopping_10_cats" / "online_shopping_10_cats.zip"
NAMES = {
    "洗发水": ("潘婷", "海飞丝", "滋源"),
    "蒙牛": ("酸酸乳", "优益"),
    "衣服": ("花花公子", "班尼路"),
    "计算机": ("华硕", "惠普", "thinkpad"),
    "平板": ("小米", "ipad"),
    "水果": ("红富士", "华圣"),
    "书籍": ("张爱玲",),
}
CATEGORY = {name: category for category, names in NAMES.items() for name in names}
# "I bought ...", "how is ...?" and the like: they fit all that a shop sells.
FRAMES = ("{}", "{}怎么样", "我买的是{}", "{}到货了", "第二次买{}了")
STARTS = {
    "as published": "the weights as published",
    "without": "pretrained further, without the names",
    "with": "pretrained further, with the names",
}
TEXTS, LABELLED, UNLABELLED = 15_000, 1_000, 40  # UNLABELLED: of each name, at most
LENGTH = 30  # characters of a review that are used
EPOCHS, SEEDS = 5, (1, 2, 3)
SETS = ("whole", "cut", "frames")
MEASURED = (*(f"{name}_{kind}" for name in SETS for kind in ("right", "p")), "seconds")


class Review(NamedTuple):
    category: str
    text: str  # at most LENGTH characters, of any name's neighbourhood
    name: str | None


def _place(text: str) -> str:
    """A stable random order."""
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def reviews() -> list[Review]:
    """All different reviews that hold at most one name, in a stable random order."""
    any_name = re.compile("|".join(CATEGORY), re.IGNORECASE)
    found: dict[str, Review] = {}
    with zipfile.ZipFile(ARCHIVE) as archive:
        raw = archive.read(archive.namelist()[0]).decode("utf-8-sig")
    for row in csv.DictReader(io.StringIO(raw)):
        text = " ".join(row["review"].split())
        names = {name.lower() for name in any_name.findall(text)}
        if len(names) > 1 or not text:
            continue
        name = names.pop() if names else None
        if name and CATEGORY[name] != row["cat"]:
            continue
        middle = text.lower().index(name) + len(name) // 2 if name else 0
        first = max(0, min(middle - LENGTH // 2, len(text) - LENGTH))
        part = text[first : first + LENGTH]
        found.setdefault(part, Review(row["cat"], part, name))
    return sorted(found.values(), key=lambda review: _place(review.text))


class Split(NamedTuple):
    labelled: list[Review]
    plain: list[Review]  # unlabelled, without a name
    named: list[Review]  # unlabelled, with one
    held_out: list[Review]  # with a name, in no training set


@functools.cache
def split() -> Split:
    plain = [review for review in reviews() if review.name is None]
    named, held_out = [], []
    for name in CATEGORY:
        having = [review for review in reviews() if review.name == name]
        half = min(UNLABELLED, len(having) // 2)
        named += having[:half]
        held_out += having[half:]
    rest = plain[LABELLED : LABELLED + TEXTS]
    return Split(plain[:LABELLED], rest, named, held_out)


def corpus(start: str) -> list[str]:
    """TEXTS reviews without a label."""
    found = split()
    chosen = found.plain
    if start == "with":
        chosen = found.named + found.plain[len(found.named) :]
    return sorted((review.text for review in chosen), key=_place)


def _tests() -> dict[str, list[tuple[str, str]]]:
    """(category, text) of every set that is predicted."""
    held_out = split().held_out
    cut = [re.sub(str(one.name), "", one.text, flags=re.I) for one in held_out]
    return {
        "whole": [(review.category, review.text) for review in held_out],
        "cut": [(one.category, text) for one, text in zip(held_out, cut, strict=True)],
        "frames": [
            (category, frame.format(name))
            for name, category in CATEGORY.items()
            for frame in FRAMES
        ],
    }


def _prepare() -> None:
    accuracy.prepare()
    data = WORK / "data"
    data.mkdir(parents=True, exist_ok=True)
    labels = sorted({review.category for review in reviews()})
    files = {"train": [(one.category, one.text) for one in split().labelled]}
    for name, rows in (files | _tests()).items():
        text = "".join(f"{category}\t{text}\n" for category, text in rows)
        (data / f"{name}.tsv").write_text(text, encoding="utf-8")
    task = {"train": "train.tsv", "test": "whole.tsv", "label": 0, "text_a": 1}
    (data / "task.json").write_text(json.dumps(task | {"labels": labels}))


def _weights(start: str) -> pathlib.Path:
    if start == "as published":
        return accuracy.WORK / "model" / "bert_model.ckpt"
    with _PRETRAINED[start]:
        return further.pretrained(WORK / start, functools.partial(corpus, start))


_PRETRAINED = {start: threading.Lock() for start in STARTS}


def _measures(output: pathlib.Path, rows: Sequence[tuple[str, str]]) -> list[float]:
    """The share of right categories, and the mean probability of the right one."""
    with (output / "predictions.jsonl").open(encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    right = [
        one["label"] == category for one, (category, _) in zip(found, rows, strict=True)
    ]
    shares = [
        one["probabilities"][category]
        for one, (category, _) in zip(found, rows, strict=True)
    ]
    return [statistics.mean(right), statistics.mean(shares)]


def _run(row: Row) -> Row:
    began = time.time()
    model = accuracy.WORK / "model"
    output = WORK / "runs" / experiments.name_of(row)
    flags = {
        "task_name": "reviews",
        "data_dir": WORK / "data",
        "vocab_file": model / "vocab.txt",
        "bert_config_file": model / "bert_config.json",
        "hidden_act": "gelu_erf",
        "max_seq_length": further.LENGTH,
        "output_dir": output,
    }
    training = {
        "do_train": "true",
        "init_checkpoint": _weights(row["start"]),
        "train_batch_size": 32,
        "learning_rate": 1e-4,
        "num_train_epochs": EPOCHS,
        "optimizer": "adamw",
        "precision": "bfloat16",
        "seed": row["seed"],
    }
    experiments.call("run_classifier_mgpu.py", flags | training)
    measured: list[float] = []
    for name, rows in _tests().items():
        files = {"do_predict": "true", "predict_file": WORK / "data" / f"{name}.tsv"}
        experiments.call("run_classifier_mgpu.py", flags | files)
        measured += _measures(output, rows)
    shutil.rmtree(output)
    measured.append(round(time.time() - began))
    return row | dict(zip(MEASURED, measured, strict=True))


def planned() -> list[Row]:
    return [{"start": start, "seed": seed} for seed in SEEDS for start in STARTS]


def _cell(results: Sequence[Row], name: str) -> str:
    values = [100 * result[name] for result in results]
    shown = f"{statistics.mean(values):.1f}"
    if len(values) > 1:
        shown += f" ± {statistics.stdev(values) / len(values) ** 0.5:.1f}"
    return shown


def table() -> str:
    """Percent, means over seeds with their standard errors."""
    heads = {"whole": "reviews with a name", "cut": "the same, the name cut out"}
    heads["frames"] = "short texts of a name"
    titles = [f"{heads[name]}: {what}" for name in SETS for what in ("right", "p")]
    lines = [f"| | {' | '.join(titles)} | seeds |", "|---" * (len(titles) + 2) + "|"]
    for start, words in STARTS.items():
        if found := [row for row in TABLE.results() if row["start"] == start]:
            cells = [_cell(found, name) for name in MEASURED[:-1]]
            lines.append(f"| {words} | {' | '.join(cells)} | {len(found)} |")
    return "\n".join(lines)


TABLE = Table(RESULTS / "rare_word.json", planned(), MEASURED)

if __name__ == "__main__":
    experiments.main(__doc__, TABLE, _run, lambda: print(table()), _prepare)
