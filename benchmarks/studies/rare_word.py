"""What does a model learn of a name that it only ever read without a label?

    python -m benchmarks.studies.rare_word run    # the missing rows
    python -m benchmarks.studies.rare_word show   # their tables

Reviews of an online shop in ten categories (online_shopping_10_cats). No labelled row
holds any of the names below, each of which belongs to one category. The weights of
../shared/models are fine-tuned as they are; after further pretraining on reviews
without the names; and on the same reviews, where some are replaced by a few dozen that
hold each name. What is measured: the category of other reviews that hold a name, whole
or with the name cut out, and of short texts that hold nothing else. Such weights have
read of household names before; so all of it is done a second time with an invented name
in the place of each: two characters that stand in no review. Results are appended to
benchmarks/results/rare_word.json.
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
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks import runner
from benchmarks.harness import RESULTS, ROOT, SHARED
from benchmarks.runner import Row, Table
from benchmarks.studies import accuracy_by_towers, further_pretraining

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
    "with invented": "pretrained further, with invented names",
}
TEXTS, LABELLED, UNLABELLED = 15_000, 1_000, 40  # UNLABELLED: at most, per name
LENGTH = 30  # characters of a review that are used
EPOCHS, SEEDS = 5, (1, 2, 3)
SETS = {
    "whole": "reviews with a name",
    "frames": "short texts of a name",
    "invented whole": "reviews with an invented name",
    "invented frames": "short texts of an invented name",
    "cut": "the reviews, the name cut out",
}
MEASURED = (*SETS, "seconds")  # a set: name -> [texts, right ones, sum of p]


class Review(NamedTuple):
    category: str
    text: str  # at most LENGTH characters, around the name if there is one
    name: str | None


def _place(text: str) -> str:
    """A sort key that gives a stable random order."""
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def reviews() -> list[Review]:
    """All distinct reviews with at most one name, in a stable random order."""
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
    held_out: list[Review]  # with a name, not used in training


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


@functools.cache
def invented() -> dict[str, str]:
    """Name -> two characters of the vocabulary that occur in no review."""
    read = {character for review in reviews() for character in review.text}
    words = (accuracy_by_towers.WORK / "model" / "vocab.txt").read_text("utf-8").split()
    unread = [w for w in words if len(w) == 1 and "一" <= w <= "龥" and w not in read]
    spread = unread[:: len(unread) // (2 * len(CATEGORY))]  # not all of one radical
    pairs = zip(spread[::2], spread[1::2], strict=False)
    return {name: "".join(pair) for name, pair in zip(CATEGORY, pairs, strict=False)}


def _replaced(review: Review, word: str) -> str:
    return re.sub(str(review.name), word, review.text, flags=re.I)


def corpus(start: str) -> list[str]:
    """TEXTS reviews without labels, to pretrain on."""
    found = split()
    named = [review.text for review in found.named]
    if start == "with invented":
        named = [_replaced(one, invented()[str(one.name)]) for one in found.named]
    plain = [review.text for review in found.plain]
    return sorted(
        plain if start == "without" else named + plain[len(named) :], key=_place
    )


def _tests() -> dict[str, list[tuple[str, str, str]]]:
    """The sets to predict: (category, text, name) of each of their texts."""
    held_out, new = split().held_out, invented()

    def replaced(words: Mapping[str, str]) -> list[tuple[str, str, str]]:
        named = [(one, str(one.name)) for one in held_out]
        return [(one.category, _replaced(one, words[n]), n) for one, n in named]

    def framed(words: Mapping[str, str]) -> list[tuple[str, str, str]]:
        names = [(name, frame) for name in CATEGORY for frame in FRAMES]
        return [(CATEGORY[n], frame.format(words[n]), n) for n, frame in names]

    themselves = {name: name for name in CATEGORY}
    return {
        "whole": [(one.category, one.text, str(one.name)) for one in held_out],
        "frames": framed(themselves),
        "invented whole": replaced(new),
        "invented frames": framed(new),
        "cut": replaced(dict.fromkeys(CATEGORY, "")),
    }


def _prepare() -> None:
    accuracy_by_towers.prepare()
    data = WORK / "data"
    data.mkdir(parents=True, exist_ok=True)
    labels = sorted({review.category for review in reviews()})
    files = {"train": [(one.category, one.text, "") for one in split().labelled]}
    for name, rows in (files | _tests()).items():
        text = "".join(f"{category}\t{text}\n" for category, text, _ in rows)
        (data / f"{name}.tsv").write_text(text, encoding="utf-8")
    task = {"train": "train.tsv", "dev": "whole.tsv", "label": 0, "text_a": 1}
    (data / "task.json").write_text(json.dumps(task | {"labels": labels}))


def _weights(start: str) -> pathlib.Path:
    if start == "as published":
        return accuracy_by_towers.WORK / "model" / "bert_model.ckpt"
    with _PRETRAINED[start]:
        texts = functools.partial(corpus, start)
        return further_pretraining.pretrained(WORK / start, texts)


_PRETRAINED = {start: threading.Lock() for start in STARTS}


def _measures(
    output: pathlib.Path, rows: Sequence[tuple[str, str, str]]
) -> dict[str, list[float]]:
    """name -> [texts, right ones, sum of the probabilities of the right category]."""
    found: dict[str, list[float]] = {name: [0, 0, 0.0] for name in CATEGORY}
    with (output / "predictions.jsonl").open(encoding="utf-8") as lines:
        for line, (category, _, name) in zip(lines, rows, strict=True):
            one = json.loads(line)
            share = one["probabilities"][category]
            own = (1, int(one["label"] == category), share)
            found[name] = [a + b for a, b in zip(found[name], own, strict=True)]
    return found


def _run(row: Row) -> Row:
    began = time.time()
    model = accuracy_by_towers.WORK / "model"
    output = WORK / "runs" / runner.name_of(row)
    flags = {
        "task_name": "reviews",
        "data_dir": WORK / "data",
        "vocab_file": model / "vocab.txt",
        "bert_config_file": model / "bert_config.json",
        "hidden_act": "gelu_erf",
        "max_seq_length": further_pretraining.LENGTH,
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
    runner.call("run_classifier_mgpu.py", flags | training)
    measured: dict[str, object] = {}
    for name, rows in _tests().items():
        files = {"do_predict": "true", "predict_file": WORK / "data" / f"{name}.tsv"}
        runner.call("run_classifier_mgpu.py", flags | files)
        measured[name] = _measures(output, rows)
    shutil.rmtree(output)
    return row | measured | {"seconds": round(time.time() - began)}


def planned() -> list[Row]:
    return [{"start": start, "seed": seed} for seed in SEEDS for start in STARTS]


def _shares(results: Sequence[Row], name: str) -> list[float]:
    """The right category's mean probability in percent, for each name."""
    return [
        100
        * sum(r[name][word][2] for r in results)
        / sum(r[name][word][0] for r in results)
        for word in CATEGORY
    ]


def _cells(results: Sequence[Row], name: str) -> str:
    """Accuracy over texts and mean probability over names, in percent."""
    texts, right = (
        sum(r[name][word][i] for r in results for word in CATEGORY) for i in (0, 1)
    )
    shares = _shares(results, name)
    error = statistics.stdev(shares) / len(shares) ** 0.5
    return f"{100 * right / texts:.1f} | {statistics.mean(shares):.1f} ± {error:.1f}"


def _gain(before: Sequence[Row], after: Sequence[Row], name: str) -> str:
    """The gain in probability, paired by name."""
    pairs = zip(_shares(before, name), _shares(after, name), strict=True)
    gains = [new - old for old, new in pairs]
    error = statistics.stdev(gains) / len(gains) ** 0.5
    return f"{statistics.mean(gains):+.1f} ± {error:.1f}"


def table() -> str:
    """The tables, in percent; errors are over names, of means over seeds."""
    found = {
        start: [row for row in TABLE.results() if row["start"] == start]
        for start in STARTS
    }
    lines = []
    for name, title in SETS.items():
        lines += [f"\n{title}\n", "| | right | p of the right one |", "|---|---|---|"]
        other = "with" if name.startswith("invented") else "with invented"
        for start, results in found.items():
            if results and start != other:
                lines.append(f"| {STARTS[start]} | {_cells(results, name)} |")
        last = "with invented" if name.startswith("invented") else "with"
        if found["without"] and found[last]:
            lines.append(
                f"| with - without | | {_gain(found['without'], found[last], name)} |"
            )
    return "\n".join(lines)


TABLE = Table(RESULTS / "rare_word.json", planned(), MEASURED)

if __name__ == "__main__":
    runner.main(__doc__, TABLE, _run, lambda: print(table()), _prepare)
