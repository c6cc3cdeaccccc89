"""The distribution strategy of a process's devices, and a trial of a single one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_mgpu.core.errors import RunError
from bert_mgpu.distributed import pairwise

_KEYS = 1_000_000  # more collective keys than a strategy uses
_strategies = itertools.count(1)


def make_strategy(devices: Sequence[str]) -> tf.distribute.MirroredStrategy:
    """A strategy that sums by NCCL on GPUs and by a pairwise tree on CPUs.

    With the tree, sums have the same bits as on one device with all towers.
    """
    if devices[0].startswith("GPU"):
        return mirrored(devices)
    tree = tf.distribute.ReductionToOneDevice(accumulation_fn=pairwise.pairwise_sum)
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=tree)


def mirrored(devices: Sequence[str]) -> tf.distribute.MirroredStrategy:
    """TensorFlow's default strategy: collectives by NCCL on GPUs, by a ring on CPUs.

    Each strategy gets collective keys of its own: with TensorFlow's keys, a process
    that has summed over four devices cannot sum over two.
    """
    keys = {"_collective_key_base": _KEYS * next(_strategies)}
    strategy = type("MirroredStrategy", (tf.distribute.MirroredStrategy,), keys)
    return strategy(devices)


def replica_id() -> int:
    """The index of the device for which a function is being traced."""
    context = tf.distribute.get_replica_context()
    return int(tf.get_static_value(context.replica_id_in_sync_group))


def failure_alone(
    device: str, function: Callable[..., Any], *inputs: Any
) -> Exception | None:
    """The error of a function run on one device alone; None if it succeeds.

    Raises RunError, such as that of SIGTERM, which is no failure of the function.
    """
    try:
        with tf.device(device):
            outputs = tf.function(function, autograph=False)(*inputs)
            tf.nest.map_structure(lambda value: value.numpy(), outputs)
    except RunError:
        raise
    except Exception as error:
        return error
    return None
