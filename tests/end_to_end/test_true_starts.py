"""Each kind of entry as users start it, in a Python of its own.

Other tests fork a process that has TensorFlow loaded (tests/support/warm.py); here
nothing is loaded before. The command bert_mgpu: tests/export/test_convert.py.
"""

import os
import pathlib
import subprocess
import sys

from bert_mgpu.checkpoints import train_state
from tests.support.pretraining import LENGTH, MOST, records
from tests.support.processes import PRETRAINING, SCRIPT

SHORT = {"do_train": True, "num_train_epochs": 0.5}


def start(*command):
    """(exit code, stderr) of a command without a GPU, and none of the tests' own."""
    env = {name: v for name, v in os.environ.items() if not name.startswith("BERT_")}
    done = subprocess.run(
        [*map(str, command)],
        env={**env, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


def test_run_classifier(tiny, tmp_path):
    code, output = start(sys.executable, SCRIPT, *tiny.flags(tmp_path, **SHORT))
    assert code == 0, output
    assert train_state.saved_steps(tmp_path)


def test_run_pretraining(tiny, tmp_path):
    (tmp_path / "a.tfrecord").write_bytes(b"".join(records()))
    flags = {
        "input_file": tmp_path / "a.tfrecord",
        "vocab_file": tiny.model / "vocab.txt",
        "bert_config_file": tiny.model / "bert_config.json",
        "output_dir": tmp_path / "out",
        "do_train": "true",
        "num_train_steps": 1,
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": MOST,
        "xla": "off",
    }
    named = [f"--{name}={value}" for name, value in flags.items()]
    code, output = start(sys.executable, PRETRAINING, *named)
    assert code == 0, output
    assert train_state.saved_steps(tmp_path / "out") == [1]


def test_horovodrun(tiny, tmp_path, cluster):
    horovodrun = pathlib.Path(sys.executable).with_name("horovodrun")
    launch = [horovodrun, "-np", 2, "-H", "localhost:2"]
    flags = tiny.flags(tmp_path, **SHORT)
    code, output = start(*launch, sys.executable, SCRIPT, *flags)
    assert code == 0, output
    assert "processes  2, sums by gloo" in output
    assert train_state.saved_steps(tmp_path)
