"""Mixed precision: the dtypes in which a step computes, and loss scaling.

Weights, their moments and the sums of gradients are always float32 (Micikevicius et
al. 2018), and so are the encoder's statistics and softmax, the heads and the losses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.core.tensor_names import GOOD_STEPS, SCALE, SKIPPED, SKIPS, STATE
from bert_mgpu.training import rules

# The weights of the matrix products that take most of the time. Embeddings are only
# looked up, except in the output layer of a language model, which casts them itself.
LOW_PRECISION: rules.Rules[bool] = (
    (r"^(bert/encoder/.*|cls/predictions/transform/dense)/(kernel|bias)$", True),
    (r"", False),
)

FIRST_SCALE, FLOOR, CEILING = 2.0**15, 1.0, 2.0**24
GROW_AFTER = 2000  # steps, as in Micikevicius et al.
MAX_SKIPS = 25  # in a row; 15 lower the first scale to the floor

# TensorFlow has no dtype for TF32. It rounds the inputs of float32 products, which is
# switched on for the whole process (see `devices.configure`).
TF32 = "tf32"


def dtypes(names: Iterable[str], precision: str) -> dict[str, tf.DType]:
    """The dtype of each weight in a step; precision: the value of --precision."""
    low = tf.float32 if precision == TF32 else tf.dtypes.as_dtype(precision)
    is_low = rules.resolve(LOW_PRECISION, names)
    return {name: low if is_low[name] else tf.float32 for name in is_low}


def cast(params: Mapping[str, tf.Tensor], precision: str) -> dict[str, tf.Tensor]:
    """The weights, cast to the dtypes in which a step computes."""
    types = dtypes(params, precision)
    return {name: tf.cast(value, types[name]) for name, value in params.items()}


def first_state() -> dict[str, np.ndarray]:
    """The initial state of loss scaling, float32 scalars."""
    return {name: np.array(FIRST_SCALE * (name == SCALE), "f") for name in STATE}


def scaling(slots: Iterable[str]) -> list[str]:
    """The names among these slots of the state of loss scaling: all of them or none."""
    names = {*slots}
    return [name for name in STATE if name in names]


def after_step(state: Mapping[str, Any], finite: Any) -> dict[str, tf.Tensor]:
    """The state of loss scaling after a step; finite: bool, was its gradient finite?"""
    scale, good = state[SCALE], state[GOOD_STEPS] + 1.0
    grows = good >= GROW_AFTER
    grown = tf.where(grows, tf.minimum(scale * 2.0, CEILING), scale)
    return {
        SCALE: tf.where(finite, grown, tf.maximum(scale / 2.0, FLOOR)),
        GOOD_STEPS: tf.where(finite & ~grows, good, 0.0),
        SKIPS: tf.where(finite, 0.0, state[SKIPS] + 1.0),
        SKIPPED: state[SKIPPED] + tf.where(finite, 0.0, 1.0),
    }
