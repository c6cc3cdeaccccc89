"""Pairs of texts from ../shared: utterances to complete, sentences to split."""

from __future__ import annotations

from benchmarks.harness import SHARED

Pair = dict[str, str]  # source, target and, for an utterance, context
# The separator between two sentences in wikisplit, and its replacement: one token that
# does not occur in the texts.
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
