"""Shows on this very machine that towers, devices and processes do not change a run.

A tiny model is trained for 100 steps on made-up rows, dropout on: by four towers on one
device, on several devices, and in two processes of horovodrun. Their losses and weights
are compared.
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
_TOLERANCE = 1e-4  # of a tensor's largest value: sums in another order, 100 steps


def _write_inputs(folder: pathlib.Path) -> None:
    rng = random.Random(1)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, *_WORDS]
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    (folder / "bert_config.json").write_text(json.dumps(_CONFIG))
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
        "vocab_file": folder / "vocab.txt",
        "bert_config_file": folder / "bert_config.json",
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
    with (output / "metrics.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line)["loss"] for line in lines]


def difference(
    wanted: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]
) -> float:
    """The largest of all values, over the largest value of its tensor.

    Of weights alone; the key biases, whose gradient is exactly zero but for rounding,
    are left out.
    """
    worst = 0.0
    for name, value in wanted.items():
        if value.dtype != np.float32 or "self/key/bias" in name or "adam" in name:
            continue
        off = np.abs(found[name] - value).max() / max(np.abs(value).max(), 1e-2)
        worst = max(worst, float(off))
    return worst


def _compared(one: pathlib.Path, other: pathlib.Path) -> tuple[bool, str]:
    if not (other / "metrics.jsonl").exists():
        return False, "did not train"
    wanted, found = google_read.read(one), google_read.read(other)
    same = wanted.keys() == found.keys() and all(
        np.array_equal(found[name], value) for name, value in wanted.items()
    )
    if same and _losses(one) == _losses(other):
        return True, "the same losses and weights, bit for bit"
    off = difference(wanted, found)
    return off <= _TOLERANCE, f"weights differ by {off:.1e} of their largest value"


def main() -> int:
    """The exit code: 0 where all of them agree."""
    gpus = _gpus()
    device, count = ("GPU", len(gpus)) if gpus else ("CPU device", 4)
    one = {"CUDA_VISIBLE_DEVICES": gpus[0] if gpus else ""}
    runs: dict[str, tuple[list[str], dict[str, str], int, int]] = {
        f"{_TOWERS} towers on 1 {device}": ([], one, _TOWERS, 1)
    }
    if count > 1:
        spread = {} if gpus else one
        cpus = 1 if gpus else count
        title = f"{_TOWERS} towers on {min(_TOWERS, count)} {device}s"
        runs[title] = ([], spread, _TOWERS, cpus)
    launcher = pathlib.Path(sys.executable).with_name("horovodrun")
    if launcher.exists() and (not gpus or count > 1):
        start = [str(launcher), "-np", "2", "-H", "localhost:2"]
        runs["2 towers in each of 2 processes"] = (start, {} if gpus else one, 2, 1)
    else:
        print("Horovod is not installed: one process alone is tried")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _write_inputs(folder)
        return _run_all(runs, folder, "gpu" if gpus else "cpu")


def _run_all(
    runs: Mapping[str, tuple[list[str], dict[str, str], int, int]],
    folder: pathlib.Path,
    device: str,
) -> int:
    agreed, first = True, folder / "run0"
    for number, (title, (start, env, towers, devices)) in enumerate(runs.items()):
        flags = _flags(folder, f"run{number}", towers, devices=devices, device=device)
        try:
            ended = _call([*start, sys.executable, *_SCRIPT, *flags], env)
        except subprocess.TimeoutExpired:
            print(f"{title}: not done after {_PATIENCE} s")
            return 1
        if ended.returncode:
            print(f"{title}: failed:\n{ended.stdout[-2000:]}")
            return 1
        if number == 0:
            print(
                f"{title}: {len(_losses(first))} steps, loss {_losses(first)[-1]:.6f}"
            )
            continue
        good, words = _compared(first, folder / f"run{number}")
        agreed &= good
        print(f"{title}: {words}{'' if good else ': TOO MUCH'}")
    return 0 if agreed else 1


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
    """The names by which CUDA_VISIBLE_DEVICES knows those that may be used."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name not in ("", "-1")]
    shown = [path.name for path in pathlib.Path("/dev").glob("nvidia[0-9]*")]
    return sorted(name.removeprefix("nvidia") for name in shown)
