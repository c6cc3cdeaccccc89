"""Recomputation, which saves memory at the cost of more work in the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from bert_mgpu.core.task import Params


def delayed(value: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """The value, in a form that no compiler can compute before the other.

    It adds 0 times the other, which a compiler cannot fold: infinity times 0 is
    not 0.
    """
    return value + 0.0 * tf.reshape(other, [-1])[0]


def recomputed(
    function: Callable[..., tf.Tensor], params: Params, inputs: tf.Tensor
) -> tf.Tensor:
    """function(params, inputs); for the backward pass only its arguments are kept.

    That computes the rest again (Chen et al. 2016). The function has to be pure: its
    random numbers must come from stateless generators. Only its arguments get a
    gradient. inputs: [B, T, H].
    """
    names = list(params)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def apply(*tensors: tf.Tensor) -> Any:
        def backward(upstream: tf.Tensor) -> list[tf.Tensor]:
            # The compiler must neither start this early nor see that it was computed
            # before. XLA drops the barrier late: there `delayed` is what counts.
            *values, inputs, upstream = xla.optimization_barrier(*tensors, upstream)
            arguments = [*values, delayed(inputs, upstream)]
            with tf.GradientTape() as tape:
                tape.watch(arguments)
                params = dict(zip(names, arguments, strict=False))
                outputs = function(params, arguments[-1])
            return tape.gradient(outputs, arguments, upstream)

        *values, inputs = tensors
        return function(dict(zip(names, values, strict=True)), inputs), backward

    return apply(*params.values(), inputs)
