"""Several devices of a process: how their sums are added, which of them has failed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_mgpu.distributed import pairwise

_KEYS = 1_000_000  # more than a strategy asks for
_made = itertools.count(1)


def make_strategy(devices: Sequence[str]) -> tf.distribute.MirroredStrategy:
    """On GPUs NCCL adds. On CPUs our tree: the bits of one device with all towers."""
    if devices[0].startswith("GPU"):
        return mirrored(devices)
    tree = tf.distribute.ReductionToOneDevice(accumulation_fn=pairwise.pairwise_sum)
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=tree)


def mirrored(devices: Sequence[str]) -> tf.distribute.MirroredStrategy:
    """TensorFlow's default, whose collectives are NCCL's on GPUs, a ring's on CPUs.

    Each has names of its own for them: by TensorFlow's, a process that has added on
    four devices could not add on two.
    """
    own = {"_collective_key_base": _KEYS * next(_made)}
    kind = type("MirroredStrategy", (tf.distribute.MirroredStrategy,), own)
    return kind(devices)


def replica_id() -> int:
    """Which of the devices the work that is being traced is for."""
    context = tf.distribute.get_replica_context()
    return int(tf.get_static_value(context.replica_id_in_sync_group))


def failure_alone(
    device: str, work: Callable[..., Any], *inputs: Any
) -> Exception | None:
    """How one device fails when it does its work without the others; None if not."""
    try:
        with tf.device(device):
            found = tf.function(work, autograph=False)(*inputs)
            tf.nest.map_structure(lambda value: value.numpy(), found)
    except Exception as error:
        return error
    return None
