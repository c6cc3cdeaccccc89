"""Two and four processes beside one on the same two cores, and what sums cost.

    python -m benchmarks.speed.processes run    # the missing rows; an idle machine
    python -m benchmarks.speed.processes show   # the tables of them

A model of 4 layers x 256 trains on rows of 128 tokens, 32 in each step: in one process,
and in two or four that horovodrun starts here, whose gradients travel over loopback.
Settings take turns, five rounds of each; `show` ends with an error where several
processes are less than WANTED times as fast as one with as many towers. The last rows
time sums alone, of as many values as BERT-base has, beside a copy in memory. Results
are appended to benchmarks/results/cluster.json.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks import runner
from benchmarks.harness import RESULTS, ROOT
from benchmarks.runner import Row, Table
from benchmarks.studies.from_scratch import CONFIG

WORK = ROOT / "build" / "cluster"
ROUNDS, STEPS, LENGTH = 5, 40, 128
VALUES = 110_000_000  # of BERT-base
WORDS = 2_000
WANTED = 0.95
MEASURED = ("examples_per_second", "share_waiting", "copied_gb_s", "sent_gb_s")
SETTINGS: dict[str, dict[str, Any]] = {
    "1 process of 2 cores": {"processes": 1, "train_batch_size": 32},
    "1 process of 2 cores, 2 towers": {"processes": 1, "n_gpus": 2},
    "1 process of 2 cores, 4 towers": {
        "processes": 1,
        "n_gpus": 4,
        "train_batch_size": 8,
    },
    "2 processes of 1 core": {"processes": 2},
    "4 processes on 2 cores": {"processes": 4, "train_batch_size": 8},
    "2 processes, float16": {"processes": 2, "allreduce_dtype": "float16"},
    "2 processes, 4 micro-batches a step": {
        "processes": 2,
        "gradient_accumulation_steps": 4,
    },
}
WANTED_PAIRS = {
    "2 processes of 1 core": "1 process of 2 cores, 2 towers",
    "4 processes on 2 cores": "1 process of 2 cores, 4 towers",
}
SUMS = {"sums of float32": "float32", "sums of float16": "float16"}


def planned() -> list[Row]:
    names = [*SETTINGS, *SUMS]
    return [{"what": name, "round": n} for n in range(1, ROUNDS + 1) for name in names]


def prepare() -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [f"w{number}" for number in range(WORDS)]
    # A vocabulary of realistic size makes the gradient as large as in real models.
    (WORK / "bert_config.json").write_text(json.dumps(CONFIG))
    vocabulary = tokens + words
    count = int(CONFIG["vocab_size"])
    vocabulary += [f"[unused{number}]" for number in range(count - len(vocabulary))]
    (WORK / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary))
    lines = [
        f"{number % 2}\t{' '.join(rng.choices(words, k=LENGTH - 2))}\n"
        for number in range(2_000)
    ]
    (WORK / "train.tsv").write_text("".join(lines))
    task = {"train": "train.tsv", "dev": "train.tsv", "label": 0, "text_a": 1}
    (WORK / "task.json").write_text(json.dumps(task))


def _launch(processes: int, command: list[Any], **options: Any) -> Any:
    start: list[Any] = []
    if processes > 1:
        launcher = pathlib.Path(sys.executable).with_name("horovodrun")
        start = [launcher, "-np", str(processes), "-H", f"localhost:{processes}"]
    return subprocess.run([*start, sys.executable, *command], check=True, **options)


def _run(row: Row) -> Row:
    return _sums(row) if row["what"] in SUMS else _training(row)


def _training(row: Row) -> Row:
    settings = {"train_batch_size": 16} | SETTINGS[row["what"]]
    processes = settings.pop("processes")
    output = WORK / "output"
    shutil.rmtree(output, ignore_errors=True)
    turns = settings.get("gradient_accumulation_steps", 1)
    steps = STEPS // turns
    flags = {
        "task_name": "words",
        "data_dir": WORK,
        "vocab_file": WORK / "vocab.txt",
        "bert_config_file": WORK / "bert_config.json",
        "output_dir": output,
        "cache_dir": WORK / "cache",
        "do_train": "true",
        "max_seq_length": LENGTH,
        "num_train_epochs": (steps + 0.5) * 32 * turns / 2_000,
        "log_steps": max(1, 10 // turns),
        "save_checkpoints_steps": 10_000,
    } | settings
    given = [f"--{name}={value}" for name, value in flags.items()]
    _launch(processes, [ROOT / "run_classifier_mgpu.py", *given])
    with (output / "metrics.jsonl").open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines][1:]  # the first one compiles
    speed = statistics.median(one["examples_per_second"] for one in records)
    waits = [one.get("allreduce_seconds", 0.0) for one in records]
    share = statistics.median(waits) * speed / (32 * turns)
    values = round(speed, 2), round(share, 4), None, None
    return row | dict(zip(MEASURED, values, strict=True))


def _sums(row: Row) -> Row:
    command = ["-m", "benchmarks.speed.processes", "rank", SUMS[row["what"]]]
    done = _launch(2, command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    found = done.stdout.rpartition("RESULT ")[2].split()
    values = (None, None, float(found[0]), float(found[1]))
    return row | dict(zip(MEASURED, values, strict=True))


def rank(dtype: str) -> None:
    """The work of each of two processes: copies, and sums with the other process."""
    import numpy as np
    import tensorflow as tf

    from bert_mgpu.distributed.collective import Horovod

    cores = sorted(os.sched_getaffinity(0))
    own = int(os.environ["HOROVOD_LOCAL_RANK"])
    os.sched_setaffinity(0, {cores[own % len(cores)]})
    group = Horovod(False, dtype, lambda step=None: None, pausing=lambda: None)
    values = np.ones(VALUES, np.float32)
    there = np.empty_like(values)

    @tf.function
    def summed(tensor: tf.Tensor) -> tf.Tensor:
        return group.all_reduce(tensor, tf.zeros([1]))[0][:1]

    tensor = tf.constant(values)
    copies, sums = [], []
    for _ in range(4):
        began = time.perf_counter()
        np.copyto(there, values)
        copies.append(time.perf_counter() - began)
        group.all_gather(b"")
        began = time.perf_counter()
        assert float(summed(tensor)[0]) == group.size
        sums.append(time.perf_counter() - began)
    if group.rank == 0:
        copied = values.nbytes / statistics.median(copies[1:]) / 1e9
        sent = group.bytes_sent(VALUES) / statistics.median(sums[1:]) / 1e9
        print(f"RESULT {copied:.3f} {sent:.3f}", flush=True)


def _median(name: str, measure: str) -> float | None:
    found = [row[measure] for row in TABLE.results() if row["what"] == name]
    return statistics.median(found) if found else None


def table() -> str:
    first = _median(next(iter(SETTINGS)), MEASURED[0])
    lines = ["| 32 rows a micro-batch | rows/s | ratio | of a step waiting for sums |"]
    lines.append("|---|---|---|---|")
    for name in SETTINGS:
        speed, share = _median(name, MEASURED[0]), _median(name, MEASURED[1])
        if speed and first and share is not None:
            shown = f"{speed:.1f} | {speed / first:.2f} | {share:.0%}"
            lines.append(f"| {name} | {shown} |")
    lines += [
        "",
        "| | GB/s sent by a process | a copy in memory, GB/s |",
        "|---|---|---|",
    ]
    for name in SUMS:
        sent, copied = _median(name, MEASURED[3]), _median(name, MEASURED[2])
        if sent and copied:
            lines.append(f"| {name} | {sent:.2f} | {copied:.1f} |")
    return "\n".join(lines)


def show() -> None:
    print(table())
    speeds = {name: _median(name, MEASURED[0]) for name in SETTINGS}
    missed = [
        f"{many} have {speeds[many] / speeds[one]:.2f} of {one}, wanted {WANTED}"
        for many, one in WANTED_PAIRS.items()
        if speeds[many] and speeds[one] and speeds[many] < WANTED * speeds[one]
    ]
    if missed:
        sys.exit("\n".join(missed))


TABLE = Table(RESULTS / "cluster.json", planned(), MEASURED)

if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank(sys.argv[2])
    else:
        runner.main(__doc__, TABLE, _run, show, prepare)
