"""Texts of ../shared and what they become: utterances completed, sentences split."""

from __future__ import annotations

from benchmarks.harness import SHARED

Pair = dict[str, str]  # source, target and, of an utterance, context
# Between two sentences of wikisplit, and what is written for it: one token, which the
# texts do not have.
SEPARATOR, TOKEN = "<::::>", "|"
_TRAINED = 18_000  # utterances, as in published figures


def utterances() -> dict[str, list[Pair]]:
    path = SHARED / "data" / "utterance_rewriter" / "corpus.txt"
    cells = [line.split("\t\t") for line in path.read_text("utf-8").splitlines()]
    rows = [
        {"context": f"{first} {second}", "source": source, "target": target}
        for first, second, source, target in (row for row in cells if len(row) == 4)
    ]
    return {"train": rows[:_TRAINED], "dev": rows[_TRAINED:]}


def sentences() -> dict[str, list[Pair]]:
    folder = SHARED / "data" / "wikisplit"
    found = {}
    for split, name in (("train", "tune"), ("dev", "validation")):
        lines = (folder / f"{name}.tsv").read_text("utf-8").splitlines()
        pairs = (line.replace(SEPARATOR, TOKEN).split("\t") for line in lines)
        found[split] = [
            {"source": source, "target": target} for source, target in pairs
        ]
    return found
