"""Does the data doctor find faults that were planted into real data?

    python -m benchmarks.studies.planted_faults

Five sets of ../shared/data, 2,000 rows to train on and 400 to evaluate, as TSV files,
drawn from those without curly quotes, which are one of the faults. One fault at a time
is planted into them, and the doctor checks the files. A fault counts as found if a line
of the report that the sound set does not have names it, with its place where it has
one. Rows that cannot be read must also end a training, with an error that names the
same place. Then 100 of the 2,000 labels are changed: how many of those are among the
first that --check_labels shows, and how many among all that it doubts? Last, a third of
the labels are shuffled: how many more labels are doubted?
The result is benchmarks/results/planted_faults.json.
"""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.harness import RESULTS, ROOT, SHARED, machine
from benchmarks.studies.real_data import DATA, DEV, SETS, TRAIN, Real
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.classification import wrong_labels

_AND, _QUOTES = " & ", "“”"
_NEARLY = "nearly repeating a row of train"
WRONG, SHOWN = 100, 20  # wrong labels that are planted; doubted ones that are shown
ONE = ("single",)  # the types with one class per row
FOUND, MISSED, ABSENT = "found", "not found", ""


class Planted(NamedTuple):
    """A fault: how it changes the lines of train and dev, and the text to look for."""

    plant: Callable[[list[bytes], list[bytes], random.Random], None]
    says: str  # several texts to look for are joined by `_AND`
    types: tuple[str, ...] = ("single", "regression")
    vocabulary: str | None = None
    length: int | None = None
    within: tuple[str, ...] = ("chinese", "uncased")  # vocabularies where it is one


def _joined(*cells: bytes) -> bytes:
    return b"\t".join(cells)


def _label(line: bytes) -> bytes:
    return line.rpartition(b"\t")[2]


def _texts(line: bytes) -> bytes:
    return line.rpartition(b"\t")[0]


def _replace(index: int, change: Callable[[bytes], bytes]) -> Callable:
    def plant(train: list[bytes], dev: list[bytes], rng: random.Random) -> None:
        train[index] = change(train[index])

    return plant


def _relabel(train: list[bytes], dev: list[bytes], rng: random.Random) -> None:
    """Repeats five rows with another label."""
    labels = sorted(set(map(_label, train)))
    for line in train[:5]:
        other = rng.choice([label for label in labels if label != _label(line)])
        train.append(_joined(_texts(line), other))


def _rare(train: list[bytes], dev: list[bytes], rng: random.Random) -> None:
    """Removes all but three rows of a label."""
    least = _label(train[0])
    rows = [line for line in train if _label(line) == least]
    train[:] = [line for line in train if _label(line) != least] + rows[:3]


def _nearly(train: list[bytes], dev: list[bytes], rng: random.Random) -> None:
    """Copies fifty rows of train to dev, with a full stop added."""
    dev += [_joined(_texts(line) + b".", _label(line)) for line in train[:50]]


def _mistyped(train: list[bytes], dev: list[bytes], rng: random.Random) -> None:
    """Copies the fifty longest rows of train to dev, with a letter missing."""
    for line in sorted(train, key=len)[-50:]:
        text = _texts(line).decode()
        dev.append(_joined((text[:9] + text[10:]).encode(), _label(line)))


def _swapped(train: list[bytes], dev: list[bytes], rng: random.Random) -> None:
    """Swaps the columns of the first text and the label."""
    for lines in (train, dev):
        lines[:] = [
            _joined(_label(line), *_texts(line).split(b"\t")[1:], line.split(b"\t")[0])
            for line in lines
        ]


def _quoted(train: list[bytes], dev: list[bytes], rng: random.Random) -> None:
    """Puts the texts of fifty rows of train in curly quotes."""
    for index in range(70, 120):
        text, *others = _texts(train[index]).split(b"\t")
        quoted = f"“{text.decode()}”".encode()
        train[index] = _joined(quoted, *others, _label(train[index]))


def _empty(line: bytes) -> bytes:
    return b"\t" * line.count(b"\t") + _label(line)


FAULTS = {
    "a label that is a typing error": Planted(
        _replace(70, lambda line: line + b"x"), "labels with few rows", ("single",)
    ),
    "a label with a space behind it": Planted(
        _replace(70, lambda line: line + b" "), "labels with few rows", ("single",)
    ),
    "a label that is no number": Planted(
        _replace(70, lambda line: _joined(_texts(line), b"?")),
        "train.tsv:71: label '?' is not a number",
        ("regression",),
    ),
    "a label in dev alone": Planted(
        lambda train, dev, rng: dev.__setitem__(9, dev[9] + b"x"), "dev.tsv:10: label"
    ),
    "an empty label": Planted(
        _replace(70, lambda line: _texts(line) + b"\t"), "train.tsv:71: "
    ),
    "a row that lacks its last column": Planted(
        _replace(70, _texts), "train.tsv:71: ", ("single", "regression")
    ),
    "a blank line": Planted(_replace(70, lambda line: b""), "train.tsv:71: blank"),
    "a header that is read as a row": Planted(
        lambda train, dev, rng: train.insert(
            0, _joined(*[b"text"] * train[0].count(b"\t"), b"label")
        ),
        "label",
    ),
    "a line in GBK": Planted(
        _replace(70, lambda line: "无效\t".encode("gbk") + line),
        "train.tsv:71: not UTF-8",
    ),
    "a file in UTF-16": Planted(
        lambda train, dev, rng: train.__setitem__(
            slice(None), [b"\n".join(train).decode().encode("utf-16")]
        ),
        "train.tsv:1: not UTF-8",
    ),
    "a NUL byte": Planted(
        _replace(70, lambda line: b"a\0" + line), "train.tsv:71: NUL"
    ),
    "a text that is empty": Planted(_replace(70, _empty), "without any text"),
    "ten rows twice": Planted(
        lambda train, dev, rng: train.extend(train[:10]), "the text of an earlier row"
    ),
    "five texts with two labels": Planted(_relabel, "and another label"),
    "fifty rows of train in dev": Planted(
        lambda train, dev, rng: dev.extend(train[:50]),
        "with the text of a row of train",
    ),
    "those, each with a full stop more": Planted(_nearly, _NEARLY),
    "those, each with a typing error": Planted(_mistyped, _NEARLY),
    "a label of three rows": Planted(_rare, "labels with few rows", ("single",)),
    "text and label swapped": Planted(
        _swapped, _AND.join(("label '", "' is not ")), ("single", "regression")
    ),
    "fifty texts in curly quotes": Planted(  # which the English vocabulary has
        _quoted, _AND.join((*_QUOTES, "become [UNK]")), within=("chinese",)
    ),
    "the vocabulary of another language": Planted(
        lambda train, dev, rng: None, "of the tokens are [UNK]", vocabulary="other"
    ),
    "--max_seq_length of half the length": Planted(
        lambda train, dev, rng: None, "of the rows are truncated", length=2
    ),
}


def _asked(folder: pathlib.Path, real: Real, width: int, fault: Planted | None) -> set:
    """The findings of the doctor, as a set of lines."""
    vocabulary, length = real.vocabulary, 512
    if fault and fault.vocabulary:
        vocabulary = {"chinese": "uncased", "uncased": "chinese"}[vocabulary]
    if fault and fault.length:
        length = 16
    vocab_file = DATA / "vocab" / f"{vocabulary}_vocab.txt"
    flags = _flags(folder, real, width, vocab_file, length)
    _, text = _run(["-m", "bert_mgpu", "doctor", "data"], flags, folder)
    return {line for line in text.splitlines() if line.startswith(("- ", "error: "))}


def _run(
    command: list[str], flags: dict[str, Any], folder: pathlib.Path
) -> tuple[int, str]:
    """Runs a command; its exit code and output, with paths relative to the folder."""
    given = [f"--{name}={value}" for name, value in flags.items()]
    done = subprocess.run(
        [sys.executable, *command, *given],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout.replace(f"{folder}/", "")


def _flags(
    folder: pathlib.Path, real: Real, width: int, vocab_file: pathlib.Path, length: int
) -> dict[str, Any]:
    flags = {
        "task_name": "planted",
        "data_dir": folder,
        "train_file": "train.tsv",
        "dev_file": "dev.tsv",
        "text_a_column": 0,
        "label_column": width - 1,
        "task_type": real.type,
        "vocab_file": vocab_file,
        "max_seq_length": length,
    }
    if width > 2:
        flags["text_b_column"] = 1
    return flags


def _trained(folder: pathlib.Path, real: Real, width: int) -> str:
    """The last line of a training of a tiny model; "" where it succeeded."""
    config = {"vocab_size": 21128, "hidden_size": 8, "num_hidden_layers": 1}
    config |= {"num_attention_heads": 1, "intermediate_size": 8}
    vocab_file = DATA / "vocab" / f"{real.vocabulary}_vocab.txt"
    config["vocab_size"] = len(vocab_file.read_bytes().split(b"\n")) - 1
    (folder / "bert_config.json").write_text(json.dumps(config))
    flags = _flags(folder, real, width, vocab_file, 16)
    flags |= {"bert_config_file": folder / "bert_config.json", "xla": "off"}
    flags |= {"output_dir": folder / "out", "do_train": "true", "do_eval": "true"}
    code, text = _run(["run_classifier_mgpu.py"], flags, folder)
    if code not in (0, 2):
        raise SystemExit(text)
    return text.strip().split("\n")[-1] if code else ""


def _says(line: str, fault: Planted) -> bool:
    return all(part in line for part in fault.says.split(_AND))


def _outcome(name: str, real: Real) -> dict[str, dict[str, str]]:
    rng = random.Random(1)
    sound_rows = (row for row in real.rows() if not {*_QUOTES} & {*"".join(row)})
    rows = rng.sample(sorted(set(sound_rows)), TRAIN + DEV)
    lines = ["\t".join(row).encode() for row in rows]
    found, ends = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        sound: set[str] = set()
        for title, fault in {"": None, **FAULTS}.items():
            train, dev = lines[:TRAIN], lines[TRAIN:]
            if fault:
                fault.plant(train, dev, random.Random(2))
            for split, content in (("train", train), ("dev", dev)):
                (folder / f"{split}.tsv").write_bytes(b"\n".join(content) + b"\n")
            said = _asked(folder, real, len(rows[0]), fault)
            if fault is None:
                sound = said
                for line in sorted(said):
                    print(f"{name}, as it is: {line}")
                continue
            new = [line for line in said - sound if _says(line, fault)]
            there = real.type in fault.types and real.vocabulary in fault.within
            found[title] = (FOUND if new else MISSED) if there else ABSENT
            if there and fault.says.startswith(("train.tsv:", "dev.tsv:")):
                last = _trained(folder, real, len(rows[0]))
                ends[title] = FOUND if _says(last, fault) else last or MISSED
    return {"doctor": found, "training": ends}


def _labels(real: Real) -> dict[str, int | float]:
    """How many labels are doubted, and how many of those were planted wrong."""
    rng = random.Random(1)
    rows = rng.sample(sorted(set(real.rows())), TRAIN)
    labels = [row[-1] for row in rows]
    wrong = set(rng.sample(range(TRAIN), WRONG))
    planted = [
        rng.choice([one for one in labels if one != label]) if n in wrong else label
        for n, label in enumerate(labels)
    ]
    third = rng.sample(range(TRAIN), TRAIN // 3)
    shuffled = [*labels]
    for index, other in zip(third, rng.sample(third, len(third)), strict=True):
        shuffled[index] = labels[other]
    sound, found, mixed = (
        wrong_labels.find(
            [
                Example(n, row[0], row[1] if len(row) > 2 else None, label, n)
                for n, (row, label) in enumerate(zip(rows, own, strict=True))
            ]
        )
        for own in (labels, planted, shuffled)
    )
    doubted = [doubt.row for doubt in found.found]
    return {
        "right": round(sound.right, 3),
        "most common label": round(sound.most_common, 3),
        "doubted as it is": len(sound.found),
        f"planted of the first {SHOWN}": len(wrong & {*doubted[:SHOWN]}),
        f"planted of the first {WRONG}": len(wrong & {*doubted[:WRONG]}),
        "doubted": len(doubted),
        "planted of those": len(wrong & {*doubted}),
        "doubted, a third shuffled": len(mixed.found),
    }


def main() -> int:
    if not SHARED.is_dir():
        print(f"nothing to plant faults into: {SHARED} is not there")
        return 0
    outcomes = {name: _outcome(name, real) for name, real in SETS.items()}
    print(f"\n| planted | {' | '.join(outcomes)} |\n|{'---|' * (len(outcomes) + 1)}")
    for who in ("doctor", "training"):
        for title in FAULTS:
            cells = [outcome[who].get(title, ABSENT) for outcome in outcomes.values()]
            if any(cells):
                print(f"| {who}: {title} | {' | '.join(cells)} |")
    labels = {name: _labels(real) for name, real in SETS.items() if real.type in ONE}
    for name, counts in labels.items():
        print(name, counts)
    result = {"machine": machine(), "rows": [TRAIN, DEV], "found": outcomes}
    result["labels"] = labels
    path = RESULTS / "planted_faults.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
