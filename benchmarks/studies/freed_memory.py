"""What a training step on the CPU gains where malloc keeps freed memory.

    python -m benchmarks.studies.freed_memory    # eight minutes; an idle machine

Trains 6 layers x 384 on 16 rows of 128 tokens: as a run does, as malloc does by itself,
and as a run does with huge pages. The settings take turns, five times, each time in a
new process. Writes benchmarks/results/freed_memory.json.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.harness import RESULTS, ROOT, OtherLoad, machine, resident

LENGTH, ROWS, STEPS, ROUNDS = 128, 16, 8, 5
SETTINGS = {
    "kept": {},
    # It sets the default of a 64-bit machine, and is the user's own setting.
    "returned": {"MALLOC_ARENA_TEST": "8"},
    "kept, huge pages": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
}


def measure() -> dict[str, float]:
    """Seconds and page faults of a step (medians), and the peak in MB."""
    from bert_mgpu.distributed import devices
    from bert_mgpu.model import params as params_lib
    from bert_mgpu.model.config import BertConfig
    from bert_mgpu.tasks.classification.task import Classification
    from bert_mgpu.training.towers import Towers

    config = BertConfig(
        30522, 384, 6, num_attention_heads=12, intermediate_size=4 * 384
    )
    task = Classification("x", config, ["a", "b"], max_seq_length=LENGTH)
    ids = np.random.default_rng(1).integers(1000, 30000, (1, ROWS, LENGTH))
    batch = {
        "input_ids": ids.astype(np.int32),
        "input_mask": np.ones(ids.shape, np.int32),
        "segment_ids": np.zeros(ids.shape, np.int32),
        "label_ids": np.zeros((1, ROWS), np.int32),
        "is_real_example": np.ones((1, ROWS), np.float32),
    }
    towers = Towers(task, 1, devices.configure("cpu", 1), seed=1, xla=True)
    values = params_lib.initialize(task.param_specs(), 0.02, seed=1)
    towers.load(values, towers.initial_slots(values))
    seconds, faults = [], []
    for step in range(STEPS + 2):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        began = time.perf_counter()
        float(towers.train_step(batch, step, 1e-5).norm)
        seconds.append(time.perf_counter() - began)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return {
        "seconds": statistics.median(seconds[2:]),
        "faults": statistics.median(faults[2:]),
        "peak_mb": resident()[1],
    }


def run(setting: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, "row"],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **SETTINGS[setting]},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    if sys.argv[1:]:
        print(json.dumps(measure()))
        return
    load, found = OtherLoad(), {name: [] for name in SETTINGS}
    for number in range(ROUNDS):
        for name in SETTINGS:
            found[name].append(run(name))
            print(f"round {number + 1}: {name}: {found[name][-1]}", flush=True)
    ratios = {}
    for name in SETTINGS:
        pairs = zip(found[name], found["returned"], strict=True)
        ratios[name] = sorted(b["seconds"] / a["seconds"] for a, b in pairs)
    rows: dict[str, Any] = {
        name: {
            **{key: round(statistics.median(r[key] for r in of), 3) for key in of[0]},
            "speed": round(statistics.median(ratios[name]), 3),
            "from": round(ratios[name][0], 3),
            "to": round(ratios[name][-1], 3),
        }
        for name, of in found.items()
    }
    whole = {"machine": machine(), "other_load": load(), "rows": rows}
    (RESULTS / "freed_memory.json").write_text(json.dumps(whole, indent=1) + "\n")
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
