"""Checks on this machine that towers, devices and processes do not change results.

A tiny model is trained for 100 steps on made-up rows, with dropout: by four towers on
one device, on several devices, and in two processes of horovodrun. Their losses and
weights are compared.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

import numpy as np

from bert_mgpu.checkpoints import google_read
from bert_mgpu.core.log import show
from bert_mgpu.core.run_files import CONFIG, METRICS, VOCAB

_SCRIPT = ("-m", "bert_mgpu.cli.run_classifier")
_WORDS = ["sun", "joy", "win", "rain", "loss", "fear", "the", "of", "and", "in", "it"]
_CONFIG = {
    "vocab_size": 5 + len(_WORDS),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
}
_TASK = {"train": "train.tsv", "dev": "train.tsv", "label": 0, "text_a": 1}
_TOWERS, _ROWS, _EPOCHS = 4, 32, 25  # 2 rows a tower: 4 x 25 = 100 steps
_PATIENCE = 600  # seconds for a run
_TOLERANCE = 1e-4  # of a tensor's largest value: 100 steps that sum in another order


def _write_inputs(folder: pathlib.Path) -> None:
    rng = random.Random(1)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, *_WORDS]
    (folder / VOCAB).write_text("".join(f"{word}\n" for word in words))
    (folder / CONFIG).write_text(json.dumps(_CONFIG))
    (folder / "task.json").write_text(json.dumps(_TASK))
    rows = []
    for number in range(_ROWS):
        good = number % 2
        text = rng.choices(_WORDS[:3] if good else _WORDS[3:6], k=2)
        text += rng.choices(_WORDS[6:], k=rng.randint(1, 9))
        rows.append(f"{('bad', 'good')[good]}\t{' '.join(text)}\n")
    (folder / "train.tsv").write_text("".join(rows))


def _flags(
    folder: pathlib.Path, output: str, towers: int, *, devices: int, device: str
) -> list[str]:
    values = {
        "task_name": "selftest",
        "data_dir": folder,
        "vocab_file": folder / VOCAB,
        "bert_config_file": folder / CONFIG,
        "output_dir": folder / output,
        "do_train": "true",
        "max_seq_length": 16,
        "train_batch_size": 2,
        "learning_rate": 1e-3,
        "num_train_epochs": _EPOCHS,
        "log_steps": 1,
        "n_gpus": towers,
        "cpu_devices": devices,
        "device": device,
    }
    return [f"--{name}={value}" for name, value in values.items()]


def _losses(output: pathlib.Path) -> list[float]:
    with (output / METRICS).open(encoding="utf-8") as lines:
        return [json.loads(line)["loss"] for line in lines]


def difference(
    expected: Mapping[str, np.ndarray], actual: Mapping[str, np.ndarray]
) -> float:
    """The largest difference of two checkpoints, relative to its tensor's maximum.

    Only weights are compared, without the key biases, whose gradient is zero but for
    rounding.
    """
    worst = 0.0
    for name, value in expected.items():
        if value.dtype != np.float32 or "self/key/bias" in name or "adam" in name:
            continue
        error = np.abs(actual[name] - value).max() / max(np.abs(value).max(), 1e-2)
        worst = max(worst, float(error))
    return worst


def _compare(first: pathlib.Path, other: pathlib.Path) -> tuple[bool, str]:
    """Whether two runs agree, and a text that says how closely."""
    if not (other / METRICS).exists():
        return False, "did not train"
    expected, actual = google_read.read(first), google_read.read(other)
    same = expected.keys() == actual.keys() and all(
        np.array_equal(actual[name], value) for name, value in expected.items()
    )
    if same and _losses(first) == _losses(other):
        return True, "the same losses and weights, bit for bit"
    error = difference(expected, actual)
    return error <= _TOLERANCE, f"weights differ by {error:.1e} of their largest value"


def main() -> int:
    """Trains and compares; returns 0 where all runs agree."""
    gpus = _gpus()
    device, count = ("GPU", len(gpus)) if gpus else ("CPU device", 4)
    one_gpu = {"CUDA_VISIBLE_DEVICES": gpus[0] if gpus else ""}
    runs: dict[str, tuple[list[str], dict[str, str], int, int]] = {
        f"{_TOWERS} towers on 1 {device}": ([], one_gpu, _TOWERS, 1)
    }
    if count > 1:
        visible = {} if gpus else one_gpu
        cpus = 1 if gpus else count
        title = f"{_TOWERS} towers on {min(_TOWERS, count)} {device}s"
        runs[title] = ([], visible, _TOWERS, cpus)
    launcher = pathlib.Path(sys.executable).with_name("horovodrun")
    if launcher.exists() and (not gpus or count > 1):
        start = [str(launcher), "-np", "2", "-H", "localhost:2"]
        runs["2 towers in each of 2 processes"] = (start, {} if gpus else one_gpu, 2, 1)
    else:
        show("testing one process only: two processes need Horovod, and a GPU each")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _write_inputs(folder)
        return _run_all(runs, folder, "gpu" if gpus else "cpu")


def _run_all(
    runs: Mapping[str, tuple[list[str], dict[str, str], int, int]],
    folder: pathlib.Path,
    device: str,
) -> int:
    all_agree, first = True, folder / "run0"
    for number, (title, (start, env, towers, devices)) in enumerate(runs.items()):
        flags = _flags(folder, f"run{number}", towers, devices=devices, device=device)
        try:
            finished = _call([*start, sys.executable, *_SCRIPT, *flags], env)
        except subprocess.TimeoutExpired:
            show(f"{title}: not done after {_PATIENCE} s")
            return 1
        if finished.returncode:
            show(f"{title}: failed:\n{finished.stdout[-2000:]}")
            return 1
        if number == 0:
            show(f"{title}: {len(_losses(first))} steps, loss {_losses(first)[-1]:.6f}")
            continue
        agrees, text = _compare(first, folder / f"run{number}")
        all_agree &= agrees
        show(f"{title}: {text}{'' if agrees else ': TOO MUCH'}")
    return 0 if all_agree else 1


def _call(
    command: Sequence[str], env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_PATIENCE,
    )


def _gpus() -> list[str]:
    """The GPUs that may be used, by their names in CUDA_VISIBLE_DEVICES."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name not in ("", "-1")]
    shown = [path.name for path in pathlib.Path("/dev").glob("nvidia[0-9]*")]
    return sorted(name.removeprefix("nvidia") for name in shown)
