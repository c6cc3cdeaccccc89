"""What follows the backward pass: the summed gradient is clipped and applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_mgpu.train import precision
from bert_mgpu.train.optimizers import Optimizer

CLIP_NORM = 1.0  # google-research/bert's


def global_norm(grads: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Euclidean norm over all gradients, which must be dense.

    Not to be compiled: XLA sums on a CPU at a quarter of the speed of this kernel.
    """
    halves = [tf.nn.l2_loss(grad) for grad in grads.values()]
    return tf.sqrt(2.0 * tf.add_n(halves))


def clip_scale(norm: tf.Tensor, limit: float) -> tf.Tensor:
    """Factor that brings a norm down to the limit (Pascanu et al. 2013)."""
    return limit * tf.minimum(1.0 / norm, 1.0 / limit)


def apply_gradients(
    optimizer: Optimizer,
    params: Mapping[str, tf.Tensor],
    slots: Mapping[str, tf.Tensor],
    grads: Mapping[str, tf.Tensor],
    norm: tf.Tensor,
    rate: tf.Tensor,
    step: tf.Tensor,
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], tf.Tensor]:
    """Clips the gradient and updates everything once, in one pass.

    norm: `global_norm` of the gradient; step: from 0.
    Where the slots hold a loss scale, the gradient is that many times too large, and
    one that is not finite changes nothing but the scale.
    Returns the new parameters, the new slots, and the norm before clipping of the
    gradient without the scale.
    """
    scaling = {name: slots[name] for name in precision.STATE if name in slots}
    scale = scaling.get(precision.SCALE, 1.0)
    norm = norm / scale
    factor = clip_scale(norm, CLIP_NORM) / scale
    if scaling:  # an optimizer counts what it has done
        step = step - tf.cast(scaling[precision.SKIPPED], step.dtype)
    clipped = {name: grad * factor for name, grad in grads.items()}
    own = {name: value for name, value in slots.items() if name not in scaling}
    new_params, new_slots = optimizer.update(params, own, clipped, rate, step)
    if not scaling:
        return new_params, new_slots, norm
    finite = tf.math.is_finite(norm)

    def kept(new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        return {name: tf.where(finite, new[name], old[name]) for name in new}

    after = precision.after_step(scaling, finite)
    return kept(new_params, params), kept(new_slots, own) | after, norm
