"""Parameter updates as pure functions of tensors (or numpy arrays)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_mgpu.train import rules

CLIP_NORM = 1.0
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-6
SLOTS = ("adam_m", "adam_v")  # a slot's name in a checkpoint is NAME/adam_m


def adam_weight_decay_update(
    grad: Any, param: Any, m: Any, v: Any, rate: Any, weight_decay: float
) -> tuple[Any, Any, Any]:
    """AdamWeightDecay of google-research/bert -> (param, m, v).

    Adam (Kingma & Ba 2015) without bias correction, and with decay decoupled
    from the gradient (Loshchilov & Hutter 2019).
    """
    m = BETA_1 * m + (1.0 - BETA_1) * grad
    v = BETA_2 * v + (1.0 - BETA_2) * (grad * grad)
    update = m / (v**0.5 + EPSILON)
    if weight_decay:
        update = update + weight_decay * param
    return param - rate * update, m, v


def global_norm(grads: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Euclidean norm over all gradients, which must be dense."""
    squares = [tf.reduce_sum(tf.square(grad)) for grad in grads.values()]
    return tf.sqrt(tf.add_n(squares))


def clip_scale(norm: tf.Tensor, limit: float) -> tf.Tensor:
    """Factor that brings a norm down to the limit (Pascanu et al. 2013)."""
    return limit * tf.minimum(1.0 / norm, 1.0 / limit)


def apply_gradients(
    params: Mapping[str, tf.Tensor],
    slots: Mapping[str, tf.Tensor],
    grads: Mapping[str, tf.Tensor],
    rate: tf.Tensor,
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], tf.Tensor]:
    """Clips the summed gradients and updates everything once.

    Returns the new parameters, the new slots and the norm before clipping.
    """
    norm = global_norm(grads)
    scale = clip_scale(norm, CLIP_NORM)
    decays = rules.resolve(rules.WEIGHT_DECAY, params)
    new_params, new_slots = {}, {}
    for name, param in params.items():
        m, v = f"{name}/adam_m", f"{name}/adam_v"
        new_params[name], new_slots[m], new_slots[v] = adam_weight_decay_update(
            grads[name] * scale, param, slots[m], slots[v], rate, decays[name]
        )
    return new_params, new_slots, norm
