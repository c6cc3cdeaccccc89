"""Which device lacked memory, where one of several failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_mgpu.core import errors
from bert_mgpu.distributed import strategies

_CANCELLED = tf.errors.CancelledError, tf.errors.AbortedError

# What each device was asked for last: a function of its number and these arguments.
Asked = tuple[Callable[..., Any], tuple[Any, ...]]


def out_of_memory(
    error: Exception, devices: Sequence[str], asked: Asked | None, *, trained: bool
) -> str | None:
    """What a device had no memory for, of several also which; None for any other error.

    When one of several devices fails the others are cancelled, and TensorFlow often
    tells that instead. So each does its last work once more, alone. If none fails at
    that, it was what they do together, in a step that `trained`: their sum, or the
    update after it.
    """
    lacking = errors.out_of_memory(error)
    if isinstance(error, errors.RunError) or len(devices) == 1 or asked is None:
        return lacking
    work, inputs = asked
    others = False  # failures of another kind
    for replica, device in enumerate(devices):
        if failed := strategies.failure_alone(device, work, replica, *inputs):
            if alone := errors.out_of_memory(failed):
                return f"{alone} on {device}"
            others |= not isinstance(failed, _CANCELLED)
    if trained and not lacking and not others and isinstance(error, _CANCELLED):
        return "a device failed at the sum or the update, likely out of memory"
    return lacking
