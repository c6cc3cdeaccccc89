"""Less memory for more work: results that are worked out again when needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from bert_mgpu.core.task import Params


def after(value: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """The value, in a way that no compiler can work out before the other.

    It adds a zero that only the other can tell: infinity times 0 is none.
    """
    return value + 0.0 * tf.reshape(other, [-1])[0]


def recomputed(
    function: Callable[..., tf.Tensor], params: Params, inputs: tf.Tensor
) -> tf.Tensor:
    """function(params, inputs), of which a backward pass keeps the arguments alone.

    It works the rest out again (Chen et al. 2016). The function has to be pure: its
    random numbers must come from stateless generators. What it takes from outside
    its arguments gets no gradient. inputs: [B, T, H].
    """
    names = list(params)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def apply(*tensors: tf.Tensor) -> Any:
        def backward(upstream: tf.Tensor) -> list[tf.Tensor]:
            # Not before it is needed, and not seen to have been done before. XLA drops
            # the barrier in the end: what counts there is `after`.
            *again, inputs, upstream = xla.optimization_barrier(*tensors, upstream)
            again.append(after(inputs, upstream))
            with tf.GradientTape() as tape:
                tape.watch(again)
                outputs = function(dict(zip(names, again, strict=False)), again[-1])
            return tape.gradient(outputs, again, upstream)

        *values, inputs = tensors
        return function(dict(zip(names, values, strict=True)), inputs), backward

    return apply(*params.values(), inputs)
