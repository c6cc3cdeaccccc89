"""What `--allreduce_dtype=float16` loses of a gradient, with and without a scale.

    python -m benchmarks.studies.half_sums

Two processes have half a batch each: 4 x 256, 64 rows of 128 tokens, initial weights. A
small gradient, as late in training, is that gradient divided by 64. Nothing is timed.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from benchmarks.speed.workloads import CLASSES, SEED, Shape, full_length
from bert_mgpu.core.task import DropoutKey
from bert_mgpu.model import params as params_lib
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training import precision, update

SHAPE = Shape(4, 256, 4, batch=64, length=128)


def gradients() -> list[np.ndarray]:
    """The gradients of both halves of the batch, each as one vector."""
    labels = [str(label) for label in range(CLASSES)]
    task = Classification("x", SHAPE.config, labels, max_seq_length=SHAPE.length)
    drawn = params_lib.initialize(task.param_specs(), 0.02, SEED)
    params = {name: tf.constant(value) for name, value in drawn.items()}
    batch = full_length(SHAPE)
    weights = {n: tf.constant(w) for n, w in task.loss_weights(batch).items()}
    found = []
    for first in (0, SHAPE.batch // 2):
        rows = {n: v[first : first + SHAPE.batch // 2] for n, v in batch.items()}
        numbers = tf.constant(SEED, tf.uint64), tf.constant(0, tf.int64)
        dropout_key = DropoutKey(*numbers, tf.constant(first, tf.int64))
        one = tf.constant(1.0)
        _, grads = update.gradients(
            task,
            params,
            {},
            batch=rows,
            dropout_key=dropout_key,
            weights=weights,
            scale=one,
        )
        flat = [tf.reshape(grads[name], [-1]) for name in params]
        found.append(tf.concat(flat, 0).numpy())
    return found


def lost(halves: list[np.ndarray], scale: float) -> tuple[float, float, float]:
    """(share of values that become 0, median and 99 % quantile of relative errors)."""
    sent = [(half * np.float32(scale)).astype(np.float16) for half in halves]
    received = (sent[0] + sent[1]).astype(np.float32) / np.float32(scale)
    exact = halves[0] + halves[1]
    there = exact != 0
    error = np.abs(received - exact)[there] / np.abs(exact)[there]
    zero = float(np.mean(received[there] == 0))
    return zero, float(np.median(error)), float(np.quantile(error, 0.99))


def main() -> None:
    halves = gradients()
    print("| gradient | scale | become 0 | median error | 99 % of errors below |")
    print("|---|---|---|---|---|")
    for name, size in (("first weights", 1.0), ("1/64 of it", 1 / 64)):
        for scale in (1.0, precision.FIRST_SCALE):
            small = [half * np.float32(size) for half in halves]
            zero, median, most = lost(small, scale)
            cells = [name, f"{scale:g}", f"{zero:.3%}", f"{median:.3%}", f"{most:.2%}"]
            print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
