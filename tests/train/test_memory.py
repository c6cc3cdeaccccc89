"""Towers of one device take turns: more of them need little more memory."""

import subprocess
import sys

import pytest

# Peak resident memory of a few steps, in MB: 8 rows x 256 tokens a tower.
SCRIPT = """
import dataclasses, resource, sys
import numpy as np
from bert_mgpu.config import BertConfig
from bert_mgpu.nn import params as params_lib
from bert_mgpu.tasks.classification import Classification
from bert_mgpu.train import checkpoint, devices
from bert_mgpu.train.towers import Towers
n, xla = int(sys.argv[1]), sys.argv[2] == "xla"
config = BertConfig(61, 128, 4, 4, 512, max_position_embeddings=256)
task = Classification("x", config, ["0", "1"], 256)
towers = Towers(task, n, devices.configure("cpu", 1), 1, xla)
params = params_lib.initialize(task.param_specs(), 0.02, 1)
towers.load(params, checkpoint.zero_slots(params))
ids = np.ones((n, 8, 256), np.int32)
batch = {"input_ids": ids, "input_mask": ids, "segment_ids": 0 * ids}
batch["label_ids"] = np.zeros((n, 8), np.int32)
batch["is_real_example"] = np.ones((n, 8), np.float32)
for step in range(3):
    losses, _ = towers.train_step(batch, step, 1e-5)
    float(losses["loss"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def peak(towers, how):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(towers), how],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.parametrize("how", ["xla", "plain"])
def test_six_towers_need_little_more_than_one(how):
    one, six = peak(1, how), peak(6, how)
    assert six < 1.3 * one, f"{one} MB with one tower, {six} MB with six"
