"""The distribution strategy of a process's devices, and a test of one device."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_mgpu.distributed import pairwise

_KEYS = 1_000_000  # more than a strategy uses
_strategies = itertools.count(1)


def make_strategy(devices: Sequence[str]) -> tf.distribute.MirroredStrategy:
    """A strategy whose sums are NCCL's on GPUs, and the pairwise tree on CPUs.

    With the tree, the bits are those of one device with all towers.
    """
    if devices[0].startswith("GPU"):
        return mirrored(devices)
    tree = tf.distribute.ReductionToOneDevice(accumulation_fn=pairwise.pairwise_sum)
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=tree)


def mirrored(devices: Sequence[str]) -> tf.distribute.MirroredStrategy:
    """TensorFlow's default strategy: collectives by NCCL on GPUs, by a ring on CPUs.

    Each one gets collective keys of its own: with TensorFlow's, a process that has
    summed over four devices cannot sum over two.
    """
    keys = {"_collective_key_base": _KEYS * next(_strategies)}
    strategy = type("MirroredStrategy", (tf.distribute.MirroredStrategy,), keys)
    return strategy(devices)


def replica_id() -> int:
    """The index of the device that is being traced for."""
    context = tf.distribute.get_replica_context()
    return int(tf.get_static_value(context.replica_id_in_sync_group))


def failure_alone(
    device: str, function: Callable[..., Any], *inputs: Any
) -> Exception | None:
    """The error of a function on one device without the others; None if it works."""
    try:
        with tf.device(device):
            outputs = tf.function(function, autograph=False)(*inputs)
            tf.nest.map_structure(lambda value: value.numpy(), outputs)
    except Exception as error:
        return error
    return None
