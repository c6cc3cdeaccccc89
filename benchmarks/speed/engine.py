"""What a step costs beside its products: compilation, memory, the host, many parts.

    python -m benchmarks.speed.engine run    # about ten minutes; an idle machine
    python -m benchmarks.speed.engine show

Each row is a process of its own. Results stand in benchmarks/results/engine.json, under
the name of the commit.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks.harness import ROOT, resident

RESULTS = harness.RESULTS / "engine.json"
BASE, MINILM, SMALL = (12, 768, 12), (12, 384, 12), (12, 32, 2)  # layers, width, heads
VOCAB, LENGTH = 30522, 32


def build(shape: tuple[int, int, int], n_devices: int, towers: int, **settings: Any):
    """(Towers with initial weights, those weights); imports TensorFlow."""
    from bert_mgpu.distributed import devices
    from bert_mgpu.model import params as params_lib
    from bert_mgpu.model.config import BertConfig
    from bert_mgpu.tasks.classification.task import Classification
    from bert_mgpu.training.towers import Towers

    if n_devices > 1:
        as_on_gpus()
    layers, width, heads = shape
    vocabulary = VOCAB if width > 100 else 100
    config = BertConfig(
        vocabulary,
        width,
        layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )
    task = Classification("x", config, ["a", "b"], max_seq_length=LENGTH)
    visible = devices.configure("cpu", n_devices)
    made = Towers(task, towers, visible, seed=1, xla=True, **settings)
    params = params_lib.initialize(task.param_specs(), 0.02, 1)
    made.load(params, made.initial_slots(params))
    return made, params


def as_on_gpus() -> None:
    """Makes CPU devices sum gradients by TensorFlow's default strategy, as GPUs do."""
    from bert_mgpu.training import towers

    towers.strategies.make_strategy = towers.strategies.mirrored


def batch_of(parts: int, rows: int = 1) -> dict[str, np.ndarray]:
    ids = np.ones((parts, rows, LENGTH), np.int32)
    batch = {"input_ids": ids, "input_mask": ids, "segment_ids": 0 * ids}
    batch["label_ids"] = np.zeros((parts, rows), np.int32)
    return batch | {"is_real_example": np.ones((parts, rows), np.float32)}


def step_seconds(towers: Any, batch: Any, count: int = 30) -> dict[str, float]:
    """The median time of a step: wall-clock, and CPU time of all cores."""
    clock, processor = [], []
    for step in range(1, count + 1):
        began = time.perf_counter(), time.process_time()
        float(towers.train_step(batch, step, 1e-5).norm)
        clock.append(time.perf_counter() - began[0])
        processor.append(time.process_time() - began[1])
    middle = statistics.median
    return {"step_ms": 1e3 * middle(clock), "processor_ms": 1e3 * middle(processor)}


def operations(towers: Any) -> int:
    """The operations of a step's graph that are not compiled, inputs not counted."""
    (traced,) = towers._train_step._list_all_concrete_functions()
    still = {"Placeholder", "Const", "NoOp"}
    return sum(op.type not in still for op in traced.graph.get_operations())


def first_step(devices: int, shape: tuple[int, int, int] = BASE) -> dict[str, float]:
    """Compilation: time and additional resident memory of the first step."""
    towers, params = build(shape, devices, devices)
    before, began = resident()[0], (time.perf_counter(), time.process_time())
    float(towers.train_step(batch_of(devices), 0, 1e-5).norm)
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    return {
        "first_step_s": seconds[0],
        "processor_s": seconds[1],
        "more_memory_mb": resident()[1] - before,
        "values_mb": sum(p.nbytes for p in params.values()) / 2**20,
    }


def host(devices: int, shape: tuple[int, int, int]) -> dict[str, float]:
    """The fixed cost of a step: its operations, and its time with a tiny batch."""
    towers, _ = build(shape, devices, devices)
    batch = batch_of(devices)
    float(towers.train_step(batch, 0, 1e-5).norm)
    return {"operations": operations(towers)} | step_seconds(towers, batch)


def update() -> dict[str, float]:
    """The memory that XLA plans for an update of BERT-base, with arguments and results.

    Resident memory would not show it: TensorFlow keeps what it has freed.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XLA_FLAGS"] = f"--xla_dump_to={folder} --xla_dump_hlo_as_text"
        towers, params = build(BASE, 1, 1)
        float(towers.train_step(batch_of(1), 0, 1e-5).norm)
        held = {
            path.name: float(path.read_text().split("(")[0].split(":")[1]) / 2**20
            for path in pathlib.Path(folder).glob("*-memory-usage-report.txt")
        }
    (peak,) = [held[name] for name in held if "_update_replica_" in name]
    values = sum(value.nbytes for value in params.values()) / 2**20
    # Weights, two moments and gradients are the least that is needed.
    return {"peak_mb": peak, "share": peak / (4 * values)}


def parts(count: int) -> dict[str, float]:
    """One device with `count` parts: the graph, the first step and later ones."""
    towers, _ = build(SMALL, 1, 1)
    batch, began = batch_of(count), time.perf_counter()
    float(towers.train_step(batch, 0, 1e-5).norm)
    first = time.perf_counter() - began
    found = {"operations": operations(towers), "first_step_s": first}
    return found | step_seconds(towers, batch, 5)


ROWS = {
    "host, 12 x 32, 1 device": (host, 1, SMALL),
    "host, 12 x 32, 2 devices": (host, 2, SMALL),
    "host, 12 x 32, 4 devices": (host, 4, SMALL),
    "host, MiniLM, 1 device": (host, 1, MINILM),
    "update, BERT-base": (update,),
    "1 part": (parts, 1),
    "8 parts": (parts, 8),
    "64 parts": (parts, 64),
    "1024 parts": (parts, 1024),
    "first step, BERT-base, 1 device": (first_step, 1),
    "first step, BERT-base, 4 devices": (first_step, 4),
}


def measure(only: str) -> None:
    name = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    for row in ROWS:
        if only in row:
            program = [sys.executable, "-m", "benchmarks.speed.engine", "row", row]
            done = subprocess.run(
                program,
                cwd=ROOT,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
                capture_output=True,
                text=True,
            )
            if done.returncode:
                sys.exit(done.stderr)
            figures = json.loads(done.stdout.splitlines()[-1])
            known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            known.setdefault(name, {})[row] = figures
            RESULTS.write_text(json.dumps(known, indent=2) + "\n")
            print(f"{row}: {figures}", flush=True)


def show() -> None:
    known = json.loads(RESULTS.read_text())
    for row in ROWS:
        for name, rows in known.items():
            if row in rows:
                told = ", ".join(f"{k} {v:.4g}" for k, v in rows[row].items())
                print(f"{row:34} {name:10} {told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "show", "row"))
    parser.add_argument("name", nargs="?", help="of a row")
    parser.add_argument("--only", default="", help="rows with this in their names")
    asked = parser.parse_args()
    if asked.what == "row":
        function, *arguments = ROWS[asked.name]
        print(json.dumps({k: round(v, 4) for k, v in function(*arguments).items()}))
    elif asked.what == "run":
        measure(asked.only)
    else:
        show()


if __name__ == "__main__":
    main()
