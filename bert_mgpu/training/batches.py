"""Batches placed on the devices that work with them.

Letters: N towers of this process, M their micro-batches in all, b rows of a
micro-batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.core.task import Task
from bert_mgpu.distributed import collective, pairwise
from bert_mgpu.distributed.collective import Collective


class PlacedBatch(NamedTuple):
    """A batch whose rows lie on the devices that work with them."""

    columns: tuple[dict[str, tf.Tensor], ...]  # by device: [its micro-batches, b, ...]
    weights: dict[str, np.float32]  # denominators of the losses, of all these rows
    rows: int  # b


class StepInputs(NamedTuple):
    """What the sums of a training step are computed from, on every device."""

    columns: tuple[dict[str, tf.Tensor], ...]  # as in PlacedBatch
    weights: tf.Tensor  # denominators of the losses, of the global batch
    numbers: tf.Tensor  # step and seed
    losses: tuple[str, ...]  # their names
    rows: int  # b


def place(
    batch: Mapping[str, np.ndarray],
    devices: Sequence[str],
    tower_counts: Sequence[int],
    *,
    towers: int,
    task: Task | None = None,
) -> PlacedBatch:
    """The batch, with the rows of each device on it.

    batch: arrays [M, b, ...]; tower_counts: towers of each device; task: whose losses
    are weighed, None for a batch that is not trained on.
    """
    micro_batches, rows = batch["input_ids"].shape[:2]
    per_tower = micro_batches // towers
    columns, first = [], 0
    for device, count in zip(devices, tower_counts, strict=True):
        last = first + count * per_tower
        with tf.device(device):
            columns.append(
                {name: _to_device(values[first:last]) for name, values in batch.items()}
            )
        first = last
    weights = {} if task is None else _loss_weights(task, batch)
    return PlacedBatch(tuple(columns), weights, rows)


def denominators(placed: PlacedBatch, group: Collective, device: str) -> tf.Tensor:
    """The denominators of the losses over all processes, float32 [L]."""
    own = np.array([*placed.weights.values()], np.float32)
    total = tf.constant(collective.sum_over_processes(group, own))
    if group.size == 1:
        return total
    # On the device where a step leaves those of the next one: otherwise TensorFlow
    # prepares the step's function twice, and a copy to the host would wait for it.
    with tf.device(device):
        return tf.identity(total)


def _to_device(values: np.ndarray) -> tf.Tensor:
    """The values on the current device, int32 as int64."""
    # TensorFlow keeps int32 tensors in the host's memory, whatever their device.
    is_int32 = values.dtype == np.int32
    with tf.device("CPU:0"):
        on_host = tf.constant(values.astype(np.int64) if is_int32 else values)
    # A copy to a GPU waits for all that the GPU was given to do before. As an operation
    # it releases Python's lock, so that the next step is launched meanwhile.
    return tf.identity(on_host)


def as_task_batch(rows: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Rows as a task gets them, with integers as int32 again."""
    return {
        name: tf.cast(values, tf.int32) if values.dtype == tf.int64 else values
        for name, values in rows.items()
    }


def _loss_weights(task: Task, batch: Mapping[str, np.ndarray]) -> dict[str, np.float32]:
    """The denominators of the losses, by name.

    Summed in the order of gradients, so that they are the same for any number of
    processes.
    """
    weights = [
        task.loss_weights(micro_batch(batch, index))
        for index in range(len(batch["input_ids"]))
    ]
    return {
        name: pairwise.pairwise_sum([weight[name] for weight in weights])
        for name in weights[0]
    }


def micro_batch(columns: Mapping[str, Any], index: Any) -> dict[str, Any]:
    """Micro-batch `index` of arrays [M, b, ...]: [b, ...]."""
    return {name: values[index] for name, values in columns.items()}


def micro_batch_specs(columns: Mapping[str, tf.Tensor]) -> dict[str, tf.TensorSpec]:
    """The shapes and types of every micro-batch of these."""
    return {n: tf.TensorSpec(v.shape[1:], v.dtype) for n, v in columns.items()}
