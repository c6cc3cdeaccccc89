"""Made documents, and what is counted of the rows that come out of them.

Every token says where it stands: x4y7 is token 7 of document 4.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNK, CLS, SEP, MASK = range(len(SPECIAL))
# max_seq_length, max_predictions_per_seq, short_seq_prob
CASES = {"long": (64, 20, 0.1), "short": (24, 3, 0.5)}
DUPES = 5
RUNS = 12  # seeds


class Row(NamedTuple):
    ids: list[int]  # with masks, without padding
    segments: list[int]
    positions: list[int]
    labels: list[int]
    next_label: int


def documents() -> list[list[list[str]]]:
    """Sentences of tokens; some documents have one sentence only."""
    rng = random.Random(3)
    made = []
    for number in range(60):
        lengths = [rng.randint(1, 30) for _ in range(rng.choice((1, 2, 3, 8, 15)))]
        places = iter(range(sum(lengths)))
        made.append([[f"x{number}y{next(places)}" for _ in range(n)] for n in lengths])
    return made


def vocabulary() -> list[str]:
    return [*SPECIAL, *(t for d in documents() for s in d for t in s)]


def statistics(rows: Iterable[Row], max_seq_length: int) -> dict[str, float]:
    """Shares and means over the rows of a run, and their number."""
    tokens = vocabulary()
    begins = {s[0] for d in documents() for s in d}
    ends = {s[-1] for d in documents() for s in d}
    actual: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        actual.setdefault(name, []).append(value)

    count = 0
    for row in rows:
        count += 1
        ids = list(row.ids)
        for position, label in zip(row.positions, row.labels, strict=True):
            put = ids[position]
            note("becomes_mask", put == MASK)
            note("stays", put == label)
            note("position", position / len(ids))
            ids[position] = label
        note("masks", len(row.positions))
        note("random_next", row.next_label)
        note("length", len(ids))
        note("is_full", len(ids) == max_seq_length)
        for eighth in range(8):
            note(f"length_{eighth}", len(ids) * 8 // (max_seq_length + 1) == eighth)
        middle = ids.index(SEP)
        texts = ids[1:middle], ids[middle + 1 : -1]
        for name, text in zip(("first", "second"), texts, strict=True):
            note(f"{name}_length", len(text))
            note(f"{name}_has_its_begin", tokens[text[0]] in begins)
            note(f"{name}_has_its_end", tokens[text[-1]] in ends)
    return {"rows": count, **{name: float(np.mean(v)) for name, v in actual.items()}}


def summary(runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Mean and standard error of each statistic over runs with different seeds."""
    return {
        name: {
            "mean": float(np.mean([run[name] for run in runs])),
            "error": float(np.std([run[name] for run in runs], ddof=1))
            / len(runs) ** 0.5,
        }
        for name in runs[0]
    }
