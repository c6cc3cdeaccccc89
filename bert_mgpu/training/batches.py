"""Batches as the devices get them, made while the steps before them run.

Letters: N towers of this process, M their parts in all, b rows of a part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.core.task import Task
from bert_mgpu.distributed import pairwise


class PlacedBatch(NamedTuple):
    """A batch whose rows lie on the devices that work with them."""

    columns: tuple[dict[str, tf.Tensor], ...]  # of each device: [its parts, b, ...]
    weights: dict[str, np.float32]  # denominators of the losses, of all these rows
    parts: int  # M
    rows: int  # b


def place(
    batch: Mapping[str, np.ndarray],
    devices: Sequence[str],
    shares: Sequence[int],
    *,
    towers: int,
    task: Task | None = None,
) -> PlacedBatch:
    """Puts the rows of each device there.

    batch: arrays [M, b, ...]; shares: towers of each device; task: weighs the losses,
    None where none is asked for.
    """
    parts, rows = batch["input_ids"].shape[:2]
    of_a_tower = parts // towers
    columns, first = [], 0
    for device, share in zip(devices, shares, strict=True):
        last = first + share * of_a_tower
        with tf.device(device):
            own = {name: _sent(values[first:last]) for name, values in batch.items()}
        columns.append(own)
        first = last
    weights = {} if task is None else _weights(task, batch)
    return PlacedBatch(tuple(columns), weights, parts, rows=rows)


def _sent(values: np.ndarray) -> tf.Tensor:
    # TensorFlow keeps whole numbers of 32 bits in the host's memory, wherever they are
    # said to be.
    whole = values.dtype == np.int32
    with tf.device("CPU:0"):
        there = tf.constant(values.astype(np.int64) if whole else values)
    # A copy to a GPU waits for all that the GPU was given to do before. As an operation
    # it lets go of Python's lock, so that meanwhile the next step is launched.
    return tf.identity(there)


def received(rows: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Rows as a task gets them: whole numbers are int32."""
    return {
        name: tf.cast(values, tf.int32) if values.dtype == tf.int64 else values
        for name, values in rows.items()
    }


def _weights(task: Task, batch: Mapping[str, np.ndarray]) -> dict[str, np.float32]:
    """Summed as gradients are: the same for any number of processes."""
    parts = [
        task.loss_weights({name: values[part] for name, values in batch.items()})
        for part in range(len(batch["input_ids"]))
    ]
    return {
        name: pairwise.pairwise_sum([one[name] for one in parts]) for name in parts[0]
    }


def part_of(columns: Mapping[str, Any], index: tf.Tensor) -> dict[str, tf.Tensor]:
    """Part `index` of a device's columns: [b, ...]."""
    return {name: values[index] for name, values in columns.items()}


def specs_of_part(columns: Mapping[str, tf.Tensor]) -> dict[str, tf.TensorSpec]:
    """The shapes of any such part."""
    return {n: tf.TensorSpec(v.shape[1:], v.dtype) for n, v in columns.items()}
