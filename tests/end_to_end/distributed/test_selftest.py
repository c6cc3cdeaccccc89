"""python -m bert_mgpu doctor --selftest, on this machine."""

import subprocess
import sys

import numpy as np
import pytest

from bert_mgpu.cli.doctor import selftest
from tests.support.paths import ROOT


@pytest.mark.nightly
def test_says_that_towers_and_processes_agree(cluster):
    command = [sys.executable, "-m", "bert_mgpu", "doctor", "--selftest"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("4 towers on 1 CPU device: 100 steps, loss ")
    same = "the same losses and weights, bit for bit"
    assert lines[1:] == [
        f"4 towers on 4 CPU devices: {same}",
        f"2 towers in each of 2 processes: {same}",
    ]


def test_measures_what_differs_by_the_largest_value_of_a_tensor():
    one = {"a/kernel": np.array([4.0, 1.0], np.float32), "global_step": np.array(3)}
    other = one | {"a/kernel": np.array([4.0, 1.5], np.float32)}
    assert selftest.difference(one, one) == 0
    assert selftest.difference(one, other) == 0.125
    left_out = {"x/self/key/bias": np.ones(2, np.float32)}
    assert selftest.difference(left_out, {"x/self/key/bias": np.zeros(2, "f")}) == 0
