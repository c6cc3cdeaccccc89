"""Batches, placed on the devices that process them.

Letters: N towers of this process, M micro-batches of all of them together, b rows of a
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
    """A batch whose rows lie on the devices that process them."""

    columns: tuple[dict[str, tf.Tensor], ...]  # by device: [micro-batches, b, ...]
    weights: dict[str, np.float32]  # loss denominators, over all these rows
    rows: int  # b


class StepInputs(NamedTuple):
    """The inputs from which each device computes its sums in a training step."""

    columns: tuple[dict[str, tf.Tensor], ...]  # as in PlacedBatch
    weights: tf.Tensor  # loss denominators, over the global batch
    numbers: tf.Tensor  # the step and the seed
    losses: tuple[str, ...]  # names of the losses
    rows: int  # b


def place(
    batch: Mapping[str, np.ndarray],
    devices: Sequence[str],
    tower_counts: Sequence[int],
    *,
    towers: int,
    task: Task | None = None,
) -> PlacedBatch:
    """Copies to each device its rows of the batch.

    batch: arrays [M, b, ...]; tower_counts: number of towers on each device; task:
    gives the loss denominators, None for a batch that is not trained on.
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
    """The loss denominators, summed over all processes, float32 [L]."""
    own = np.array([*placed.weights.values()], np.float32)
    total = tf.constant(collective.sum_over_processes(group, own))
    if group.size == 1:
        return total
    # A step leaves the denominators of the next one on this device, since a copy to the
    # host would wait for the step. If those computed here lay elsewhere, TensorFlow
    # would prepare the step's function twice.
    with tf.device(device):
        return tf.identity(total)


def _to_device(values: np.ndarray) -> tf.Tensor:
    """Copies the values to the current device, int32 as int64."""
    # TensorFlow keeps int32 tensors in the host's memory, whatever their device.
    is_int32 = values.dtype == np.int32
    with tf.device("CPU:0"):
        on_host = tf.constant(values.astype(np.int64) if is_int32 else values)
    # A copy to a GPU waits for all work queued on the GPU before it. An operation
    # releases Python's global lock while it waits, so the next step can be launched.
    return tf.identity(on_host)


def as_task_batch(rows: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The rows in the form that a task expects, with integers cast back to int32."""
    return {
        name: tf.cast(values, tf.int32) if values.dtype == tf.int64 else values
        for name, values in rows.items()
    }


def _loss_weights(task: Task, batch: Mapping[str, np.ndarray]) -> dict[str, np.float32]:
    """The loss denominators, by name of the loss.

    They are summed in the same order as gradients, so that they do not depend on the
    number of processes.
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
    """The micro-batch `index`, arrays [b, ...], of arrays [M, b, ...]."""
    return {name: values[index] for name, values in columns.items()}


def micro_batch_specs(columns: Mapping[str, tf.Tensor]) -> dict[str, tf.TensorSpec]:
    """The shapes and dtypes that every micro-batch of these columns has."""
    return {n: tf.TensorSpec(v.shape[1:], v.dtype) for n, v in columns.items()}
