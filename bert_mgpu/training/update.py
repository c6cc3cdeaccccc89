"""The gradients of a micro-batch, and the update of the weights after clipping."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_mgpu.core import tensor_names
from bert_mgpu.core.task import Batch, DropoutKey, Params, Task
from bert_mgpu.training import precision
from bert_mgpu.training.optimizers import Optimizer

CLIP_NORM = 1.0  # google-research/bert's


def gradients(
    task: Task,
    trained: Params,
    frozen: Params,
    *,
    batch: Batch,
    dropout_key: DropoutKey,
    weights: Mapping[str, Any],
    scale: tf.Tensor,
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    """A micro-batch's share of the losses, and their gradients times `scale`.

    weights: the loss denominators over the global batch, so that the shares of losses
    and gradients add up.
    """
    with tf.GradientTape() as tape:
        tape.watch(trained)
        sums = task.loss_sums({**trained, **frozen}, batch, dropout_key)
        losses = {
            name: tf.math.divide_no_nan(value, weights[name])
            for name, value in sums.items()
        }
        loss = functools.reduce(tf.add, losses.values()) * scale
    grads = tape.gradient(
        loss, trained, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    # Dense: the norm of IndexedSlices would treat a repeated row as several.
    dense = {name: tf.convert_to_tensor(grad) for name, grad in grads.items()}
    return losses, {name: tf.cast(g, tf.float32) for name, g in dense.items()}


def global_norm(gradient: tf.Tensor) -> tf.Tensor:
    """The Euclidean norm of all gradients, given as one vector [n].

    Not compiled: on a CPU, XLA sums at a quarter of the speed of this kernel. Its last
    bits depend on the number of threads, which must be the same in all processes.
    """
    return tf.sqrt(2.0 * tf.nn.l2_loss(gradient))


def clip_scale(norm: tf.Tensor, limit: float) -> tf.Tensor:
    """The factor that reduces a norm to at most the limit (Pascanu et al. 2013)."""
    return limit * tf.minimum(1.0 / norm, 1.0 / limit)


def apply_gradients(
    optimizer: Optimizer,
    params: Mapping[str, tf.Tensor],
    slots: Mapping[str, tf.Tensor],
    *,
    grads: Mapping[str, tf.Tensor],
    norm: tf.Tensor,
    rate: tf.Tensor,
    step: tf.Tensor,
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], tf.Tensor]:
    """Clips the gradient and applies it -> (params, slots, norm before clipping).

    norm: `global_norm` of the gradient; step: from 0. If the slots include a loss
    scale, gradient and norm are multiplied by it, and the returned norm is not. A
    gradient that is not finite changes nothing but the state of loss scaling.
    """
    scaling = {name: slots[name] for name in precision.scaling(slots)}
    scale = scaling.get(tensor_names.SCALE, 1.0)
    norm = norm / scale
    factor = clip_scale(norm, CLIP_NORM) / scale
    if scaling:  # an optimizer does not count skipped steps
        step = step - tf.cast(scaling[tensor_names.SKIPPED], step.dtype)
    clipped = {name: grad * factor for name, grad in grads.items()}
    moments = {name: value for name, value in slots.items() if name not in scaling}
    finite = tf.math.is_finite(norm)
    new_params, new_slots = optimizer.update(
        params, moments, clipped, rate=rate, step=step, moves=finite
    )
    after = precision.after_step(scaling, finite) if scaling else {}
    return new_params, new_slots | after, norm
