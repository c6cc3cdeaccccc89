"""Finds the device that ran out of memory, after one of several devices failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_mgpu.core import errors
from bert_mgpu.distributed import strategies

_CANCELLED = tf.errors.CancelledError, tf.errors.AbortedError

# The last work of every device: a function of (device index, inputs), and the inputs.
Work = tuple[Callable[..., Any], Any]


def out_of_memory(
    error: Exception, devices: Sequence[str], work: Work | None, *, trained: bool
) -> str | None:
    """The allocation that failed, with its device; None if memory was not the reason.

    When one of several devices fails, the others are cancelled, and TensorFlow often
    reports a cancellation instead. So each device repeats its last work alone. If none
    fails, the failure was in what they do together in a training step: the sum or the
    update. trained: whether the last work was a training step.
    """
    shortage = errors.out_of_memory(error)
    if isinstance(error, errors.RunError) or len(devices) == 1 or work is None:
        return shortage
    function, inputs = work
    other_failures = False
    for replica, device in enumerate(devices):
        if failure := strategies.failure_alone(device, function, replica, inputs):
            if device_shortage := errors.out_of_memory(failure):
                return f"{device_shortage} on {device}"
            other_failures |= not isinstance(failure, _CANCELLED)
    cancelled = isinstance(error, _CANCELLED)
    if trained and cancelled and not shortage and not other_failures:
        return "a device failed in the sum or the update, probably out of memory"
    return shortage
