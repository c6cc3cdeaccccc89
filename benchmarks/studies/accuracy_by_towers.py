"""Accuracy over towers, rates, precisions and slots, on real Chinese headlines.

    python -m benchmarks.studies.accuracy_by_towers run    # the missing rows
    python -m benchmarks.studies.accuracy_by_towers show   # the table of what is there

Each row is one run of run_classifier_mgpu.py, about 10 minutes on two idle cores. It
may be killed at any time: the same command resumes it. Results are appended to
benchmarks/results/accuracy.json. Needs ../shared (data and weights).
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks import runner
from benchmarks.harness import RESULTS, ROOT, SHARED
from benchmarks.runner import Row, Table

WORK = ROOT / "build" / "accuracy"
SEEDS = (1, 2, 3)
# What a result has besides its row of the plan.
MEASURED = ("padding", "eval_accuracy", "eval_loss", "macro_f1", "steps", "seconds")
# Flags that only some rows have; without them the script's defaults hold.
OTHERS = ("precision", "optimizer", "slot_bits")
# Compared with 1 x 24 and the defaults.
CHEAPER: list[Row] = [
    {"precision": "bfloat16"},
    {"optimizer": "adamw"},
    {"optimizer": "adamw", "slot_bits": 8},
]
SCALINGS = {"none": lambda n: 1.0, "sqrt": lambda n: n**0.5, "linear": float}


def _row(n_gpus: int, batch: int, scaling: str, seed: int, **other: Any) -> Row:
    return {
        "n_gpus": n_gpus,
        "train_batch_size": batch,
        "lr_scaling": scaling,
        "learning_rate": 1e-4,
        "rows": 10_000,
        "epochs": 2,
        "dev": "full_dev.txt",
        "seed": seed,
    } | other


def planned() -> list[Row]:
    """The rows of the table, grouped by seed."""
    rows = []
    for seed in SEEDS:
        same_batch = [(1, 24), (2, 12), (6, 4)]
        rows += [_row(n, batch, "none", seed) for n, batch in same_batch]
        rows += [_row(n, 24, scaling, seed) for n in (2, 6) for scaling in SCALINGS]
    long = {"rows": 45_000, "epochs": 1, "learning_rate": 2e-4, "dev": "sub_dev.txt"}
    # As Google trains, then as the other framework (see below) did.
    for others in ({}, {"precision": "bfloat16", "optimizer": "adamw"}):
        rows.append(_row(1, 32, "none", SEEDS[0], **long, **others))
    for seed in SEEDS:
        rows += [_row(1, 24, "none", seed, **others) for others in CHEAPER]
    # Whether the rules fail only because Google's optimizer lacks bias correction.
    rows += [
        _row(n, 24, scaling, SEEDS[0], optimizer="adamw")
        for n in (2, 6)
        for scaling in SCALINGS
    ]
    # For comparison with what another framework reached: see docs/performance.md.
    rows += [
        _row(1, 32, "none", seed, rows=12_000, dev="sub_dev.txt") for seed in SEEDS
    ]
    return rows


def prepare() -> None:
    """Makes the data folders and the checkpoint below build/accuracy."""
    data, weights = WORK / "data", WORK / "model"
    data.mkdir(parents=True, exist_ok=True)
    for dev in ("sub_dev.txt", "full_dev.txt"):
        folder = data / dev.removesuffix(".txt")
        folder.mkdir(exist_ok=True)
        for name in ("sub_train.txt", dev):
            shutil.copyfile(SHARED / "data" / "thucnews_title" / name, folder / name)
        task = {"train": "sub_train.txt", "dev": dev, "text_a": 0, "label": 1}
        task |= {"labels": [str(label) for label in range(10)]}
        (folder / "task.json").write_text(json.dumps(task))
    if not (weights / "bert_model.ckpt.index").exists():
        script = SHARED / "models" / "make_tf1_checkpoint.py"
        subprocess.run([sys.executable, script, weights], check=True)


def flags_of(row: Row) -> dict[str, Any]:
    """The flags of run_classifier_mgpu.py for a row of the table."""
    weights = WORK / "model"
    flags = {
        "task_name": "thucnews",
        "data_dir": WORK / "data" / row["dev"].removesuffix(".txt"),
        "vocab_file": weights / "vocab.txt",
        "bert_config_file": weights / "bert_config.json",
        "init_checkpoint": weights / "bert_model.ckpt",
        "hidden_act": "gelu_erf",
        "do_train": "true",
        "do_eval": "true",
        "max_seq_length": 32,
        "max_train_examples": row["rows"],
        "num_train_epochs": row["epochs"],
        "eval_batch_size": 64,
        "save_checkpoints_steps": 100,
        "keep_checkpoint_max": 1,
        "cache_dir": WORK / "cache",
    }
    ours = ("rows", "epochs", "dev")  # not flags, but names of this file
    return flags | {key: value for key, value in row.items() if key not in ours}


def _run(row: Row) -> Row:
    output = WORK / "runs" / runner.name_of(row)
    began = time.time()
    runner.call("run_classifier_mgpu.py", {**flags_of(row), "output_dir": output})
    scores = runner.scores(output)
    settings = json.loads((output / "run.json").read_text())["flags"]
    shutil.rmtree(output)
    names = ("eval_accuracy", "eval_loss", "macro_f1")
    return row | {
        "padding": settings["padding"],
        **{name: scores[name] for name in names},
        "steps": int(scores["global_step"]),
        "seconds": round(time.time() - began),
    }


def _groups(*keys: str) -> dict[tuple, list[Row]]:
    """Results by the values of these settings: those of a group differ in the seed."""
    groups: dict[tuple, list[Row]] = {}
    for result in TABLE.results():
        groups.setdefault(tuple(result.get(key) for key in keys), []).append(result)
    return groups


def _scores(found: list[Row]) -> str:
    """Three cells: mean and standard error over seeds, mean loss, seeds."""
    accuracies = [100 * result["eval_accuracy"] for result in found]
    accuracy = f"{statistics.mean(accuracies):.2f}"
    if len(found) > 1:
        accuracy += f" ± {statistics.stdev(accuracies) / len(found) ** 0.5:.2f}"
    loss = statistics.mean(result["eval_loss"] for result in found)
    return f"{accuracy} | {loss:.4f} | {len(found)}"


def table() -> str:
    keys = ("dev", "rows", "epochs", "n_gpus", "train_batch_size", "lr_scaling")
    lines = [
        "| evaluated on | training rows x epochs | n_gpus x batch | lr_scaling"
        " | peak lr | other flags | accuracy % | eval loss | seeds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for key, found in _groups(*keys, *OTHERS).items():
        dev, rows, epochs, n_gpus, batch, scaling, *values = key
        rate = found[0]["learning_rate"] * SCALINGS[scaling](n_gpus)
        others = [
            f"{flag}={value}"
            for flag, value in zip(OTHERS, values, strict=True)
            if value
        ]
        lines.append(
            f"| {dev} | {rows:,} x {epochs} | {n_gpus} x {batch} | {scaling}"
            f" | {rate:.2g} | {' '.join(others) or '-'} | {_scores(found)} |"
        )
    return "\n".join(lines)


TABLE = Table(RESULTS / "accuracy.json", planned(), MEASURED)

if __name__ == "__main__":
    runner.main(__doc__, TABLE, _run, lambda: print(table()), prepare)
