"""What is written in the slots of ads, and what a ranker thinks of it.

    python -m benchmarks.studies.slot_filling run    # the missing rows
    python -m benchmarks.studies.slot_filling show   # the table of what is there

After `python -m benchmarks.studies.slot_ranking run`, whose data, pretrained weights
and ranker it takes. A model of the type rewrite learns from 10,000 rows with [SLOT],
and writes in the slots that the ranker is scored on, with four rounds and with one: the
share of fills in which a character stands twice in a row (as in 4 % of the true
phrases), the F1 score of characters against the true phrase, and the share that the
ranker puts above nine drawn phrases, beside that of the true phrases. Ranker and writer
begin with the same pretrained weights. Some 70 minutes on two idle cores. It may be
killed at any time: the same command goes on. Results are appended to
benchmarks/results/slot_filling.json.
"""

from __future__ import annotations

import collections
import json
import random
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks import runner
from benchmarks.harness import RESULTS, ROOT
from benchmarks.runner import Row, Table
from benchmarks.studies import slot_ranking

WORK = ROOT / "build" / "slot_filling"
SLOT = "[SLOT]"
_SAMPLE = 10  # ads, kept in build/slot_filling
_SEED = 1
SCORES = ("repeats", "true_repeats", "character_f1", "preferred", "true_preferred")
TABLE = Table(
    RESULTS / "slot_filling.json",
    [{"rounds": rounds, "seed": _SEED} for rounds in (4, 1)],
    (*SCORES, "seconds"),
)


def prepare() -> None:
    """Makes the texts with slots, and trains the model, below build/slot_filling."""
    start = slot_ranking.WORK / slot_ranking.STARTS[slot_ranking.HALF]
    for needed in (slot_ranking.RANKER / "run.json", start):
        if not needed.exists():
            sys.exit(
                f"{needed} is not there: take the row of {slot_ranking.HALF!r} out of"
                " slot_ranking.json and run benchmarks.studies.slot_ranking"
            )
    WORK.mkdir(parents=True, exist_ok=True)
    rows = (
        {"source": slot_ranking.with_slot(each, SLOT)} for each in slot_ranking.groups()
    )
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (WORK / "slots.jsonl").write_text("".join(lines), "utf-8")
    flags: dict[str, Any] = slot_ranking.TRAINING | {
        "task_name": "slots",
        "data_dir": slot_ranking.WORK / "made" / "rewrite",
        "init_checkpoint": start,
        "output_dir": WORK / "writer",
        "do_train": True,
        "max_seq_length": slot_ranking.LENGTH,
        "max_insert": 24,
        "max_train_examples": 10_000,
        "seed": _SEED,
    }
    runner.call("run_classifier_mgpu.py", flags)


def fills(rounds: int) -> list[str]:
    """The text that the model writes in each slot."""
    flags = {"output_dir": WORK / "writer", "do_predict": True, "num_candidates": 1}
    flags |= {"predict_file": WORK / "slots.jsonl", "predict_batch_size": 64}
    runner.call("run_classifier_mgpu.py", flags | {"fill_rounds": rounds})
    found = []
    texts = (WORK / "writer" / "predict.txt").read_text("utf-8").split("\n")
    for group, text in zip(slot_ranking.groups(), texts, strict=False):
        after = group["ad"][group["start"] + len(group["phrase"]) :]
        found.append(text[group["start"] : len(text) - len(after)])
    return found


def preferred(written: list[str]) -> float:
    """The share of fills that the ranker puts above the nine other phrases."""
    folder = WORK / "asked"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with (folder / "eval_0620.txt").open("w", encoding="utf-8") as file:
        for group, fill in zip(slot_ranking.groups(), written, strict=True):
            file.writelines(slot_ranking.ranking_rows(group, fill))
    shutil.copytree(slot_ranking.RANKER, WORK / "ranker", dirs_exist_ok=True)
    flags = {"task_name": "ad", "data_dir": folder, "output_dir": WORK / "ranker"}
    runner.call("run_classifier_mgpu.py", {**flags, "do_eval": True})
    return runner.scores(WORK / "ranker")["hit_at_1"]


def repeats(text: str) -> bool:
    return any(map(str.__eq__, text, text[1:]))


def f1(said: str, true: str) -> float:
    shared = (collections.Counter(said) & collections.Counter(true)).total()
    return 2 * shared / (len(said) + len(true))


def work(row: Row) -> Row:
    """The scores of a row of the plan."""
    began, written = time.time(), fills(row["rounds"])
    true = [group["phrase"] for group in slot_ranking.groups()]
    found = {
        "repeats": statistics.mean(map(repeats, written)),
        "true_repeats": statistics.mean(map(repeats, true)),
        "character_f1": statistics.mean(map(f1, written, true)),
        "preferred": preferred(written),
        "true_preferred": preferred(true),
    }
    rounded = {name: round(value, 4) for name, value in found.items()}
    drawn = random.Random(1).sample(
        [*zip(slot_ranking.groups(), written, strict=True)], _SAMPLE
    )
    lines = (
        f"{slot_ranking.with_slot(group, SLOT)}\t{group['phrase']}\t{fill}\n"
        for group, fill in drawn
    )
    path = WORK / f"sample-{row['rounds']}.tsv"  # ad, phrase, what is written
    path.write_text("".join(lines), "utf-8")
    return row | rounded | {"seconds": round(time.time() - began)}


def table() -> Iterator[str]:
    yield f"| rounds | {' | '.join(SCORES)} |"
    yield f"|{'---|' * (len(SCORES) + 1)}"
    for result in TABLE.results():
        cells = [result["rounds"], *(result[name] for name in SCORES)]
        yield f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    runner.main(__doc__, TABLE, work, lambda: print(*table(), sep="\n"), prepare)
