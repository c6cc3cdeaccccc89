"""What rounding does to a training: the same steps, added up in another order.

    python -m benchmarks.studies.rounding [--steps=20]

Trains the first row of accuracy_by_towers.py (1 tower of 24 headlines, dropout on) and
beside it the same as 6 towers of 4, without XLA, and from first weights off by
half a unit in the last place. Prints by step how far gradients and weights of each
are from the first's, and asks float64 at the step where they part. Distances are
Euclidean, over all weights, relative. Writes sensitivity.json to benchmarks/results/.
Needs ../shared.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf

from benchmarks import harness
from benchmarks.studies import accuracy_by_towers
from bert_mgpu.checkpoints import pretrained
from bert_mgpu.config import parsing
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.task import DropoutKey, TrainState
from bert_mgpu.data import batching, packing, pipeline
from bert_mgpu.distributed.pairwise import pairwise_sum
from bert_mgpu.runs import resume
from bert_mgpu.tasks import dataset, registry
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training import schedule, update
from bert_mgpu.training.optimizers import Optimizer

Weights = dict[str, tf.Tensor]
RESULTS = harness.RESULTS / "sensitivity.json"
HALF_UNIT = 2.0**-24  # in the last place of float32, relative
# name -> (towers, with XLA, relative error of the initial weights)
RUNS = {
    "1 x 24": (1, True, 0.0),
    "6 x 4": (6, True, 0.0),
    "1 x 24, no XLA": (1, False, 0.0),
    "1 x 24, half a unit": (1, True, HALF_UNIT),
}


def _set_up() -> tuple[Classification, TrainState, Callable[[int], dict], Any]:
    """The task, its first state, and functions step -> batch [1, B, ...] and rate."""
    accuracy_by_towers.prepare()
    folder = tempfile.mkdtemp()
    given = accuracy_by_towers.flags_of(accuracy_by_towers.planned()[0])
    given["output_dir"] = folder
    argv = ["", *(f"--{name}={value}" for name, value in given.items())]
    run, _ = parsing.parse(argv, "", FinetuneConfig)
    output_dir = pathlib.Path(folder)
    model = pretrained.find_model(run, trains=True)
    files = registry.find_task_files(run)
    family = registry.family_of(files)
    task = Classification(
        files.name, model.bert_config, files.labels, max_seq_length=run.max_seq_length
    )
    data = dataset.TaskDataset(
        run, files, family, model=model, cache=pathlib.Path(str(run.cache_dir))
    )
    features, _ = data.load("train")
    initial_slots = Optimizer().zero_slots
    state = resume.training_state(
        run,
        task,
        model,
        identity={},
        output_dir=output_dir,
        initial_slots=initial_slots,
    )
    steps = run.steps_of(len(features), run.train_batch_size)
    warmup = run.warmup_of(steps)

    def batch(step: int) -> dict[str, np.ndarray]:
        rows = batching.rows_of_step(
            len(features), run.train_batch_size, step, seed=run.seed
        )
        placement = packing.one_per_row(rows, 1, run.max_seq_length)
        return pipeline.collate(features, placement)

    def rate(step: int) -> tf.Tensor:
        value = schedule.learning_rate(step, run.learning_rate, steps, warmup=warmup)
        return tf.constant(value, tf.float32)

    return task, state, batch, rate


def _gradient_of(task: Classification, xla: bool, dtype: tf.DType) -> Callable:
    """(weights, batch [1, B, ...], step, towers) -> the gradient of the mean loss."""

    @tf.function(jit_compile=xla, autograph=False)
    def of_tower(
        params: Weights, rows: dict, dropout_key: DropoutKey, total: int
    ) -> Weights:
        with tf.GradientTape() as tape:
            tape.watch(params)
            loss = task.loss_sums(params, rows, dropout_key)["loss"] / total
        grads = tape.gradient(loss, params)
        return {name: tf.convert_to_tensor(grad) for name, grad in grads.items()}

    def gradient(
        params: Weights, batch: dict[str, np.ndarray], step: int, towers: int
    ) -> Weights:
        rows = {name: value[0] for name, value in batch.items()}
        total = len(rows["label_ids"])
        size = total // towers
        parts = []
        for first in range(0, total, size):
            part = {
                name: tf.constant(value[first : first + size])
                for name, value in rows.items()
            }
            part["is_real_example"] = tf.cast(part["is_real_example"], dtype)
            dropout_key = DropoutKey(
                tf.constant(1, tf.uint64),
                tf.constant(step, tf.int64),
                tf.constant(first, tf.int64),
            )
            parts.append(of_tower(params, part, dropout_key, total))
        return {name: pairwise_sum([p[name] for p in parts]) for name in params}

    return gradient


def _distance(a: Weights, b: Weights) -> float:
    """|a - b| / |a| over all tensors, in float64."""

    def norm(values: list[np.ndarray]) -> float:
        return float(np.sqrt(sum(float(np.sum(value**2)) for value in values)))

    ours = {name: np.float64(value) for name, value in a.items()}
    gaps = [value - np.float64(b[name]) for name, value in ours.items()]
    return norm(gaps) / norm(list(ours.values()))


def _disturbed(params: dict[str, np.ndarray], error: float) -> Weights:
    rng = np.random.default_rng(0)
    return {
        name: tf.constant(
            value * (1 + error * rng.choice([-1.0, 1.0], value.shape)), tf.float32
        )
        for name, value in params.items()
    }


def measure(steps: int) -> dict[str, Any]:
    task, state, batch_of, rate_of = _set_up()
    clip_and_apply = functools.partial(update.apply_gradients, Optimizer())
    updated = tf.function(clip_and_apply, jit_compile=True, autograph=False)
    by_xla = {xla: _gradient_of(task, xla, tf.float32) for xla in (True, False)}
    slots = {name: tf.constant(value) for name, value in state.slots.items()}
    now = {
        name: (_disturbed(state.params, error), slots)
        for name, (_, _, error) in RUNS.items()
    }
    rows, exact = [], []
    first = next(iter(RUNS))
    for step in range(steps):
        batch = batch_of(step)
        grads = {
            name: by_xla[xla](now[name][0], batch, step, towers)
            for name, (towers, xla, _) in RUNS.items()
        }
        same_weights = by_xla[True](now[first][0], batch, step, 6)
        row: dict[str, Any] = {
            "step": step + 1,
            "6 x 4 at the weights of 1 x 24": _distance(grads[first], same_weights),
        }
        for name in list(RUNS)[1:]:
            row[name] = {
                "weights": _distance(now[first][0], now[name][0]),
                "gradient": _distance(grads[first], grads[name]),
            }
        rows.append(row)
        print(_line(row), flush=True)
        if not exact and row["6 x 4"]["gradient"] > 1e-4:
            exact = _in_float64(task, now, batch, step)
            print(json.dumps(exact), flush=True)
        for name in RUNS:
            rate, number = rate_of(step), tf.constant(step, tf.int64)
            norm = tf.linalg.global_norm(list(grads[name].values()))
            params, moments, _ = updated(*now[name], grads[name], norm, rate, number)
            now[name] = (params, moments)
    return {"steps": rows, "float64": exact}


def _in_float64(task: Classification, now: dict, batch: dict, step: int) -> list[dict]:
    """The change of the float64 gradient from the weights of 1 x 24 to those of 6 x 4.

    A gradient that is wrong in float32 would not change like this in float64, and
    one that jumps would not change in proportion to the distance.
    """
    gradient = _gradient_of(task, False, tf.float64)
    wide = [
        {name: tf.cast(value, tf.float64) for name, value in now[run][0].items()}
        for run in ("1 x 24", "6 x 4")
    ]
    here = gradient(wide[0], batch, step, 1)
    found = []
    for share in (0.5, 1.0, 2.0):
        there = {
            name: value + share * (wide[1][name] - value)
            for name, value in wide[0].items()
        }
        change = _distance(here, gradient(there, batch, step, 1))
        found.append({"step": step + 1, "share": share, "gradient": change})
    return found


def _line(row: dict[str, Any]) -> str:
    cells = [f"{row['step']}", f"{row['6 x 4 at the weights of 1 x 24']:.1e}"]
    for name in list(RUNS)[1:]:
        cells += [f"{row[name]['weights']:.1e}", f"{row[name]['gradient']:.1e}"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    names = [f"{name}: {what}" for name in list(RUNS)[1:] for what in ("w", "g")]
    print(f"| step | g at same w | {' | '.join(names)} |")
    print("|---" * (2 + len(names)) + "|")
    RESULTS.write_text(json.dumps(measure(arguments.steps), indent=1) + "\n")
