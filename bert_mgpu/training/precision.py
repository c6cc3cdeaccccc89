"""Mixed precision: which weights a step computes in fewer bits, and loss scaling.

Weights, their moments and the sums of gradients are float32 always (Micikevicius et
al. 2018); the encoder makes its statistics and softmax in float32 too, and all that
stands on top of it, up to the loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.core.tensor_names import GOOD_STEPS, SCALE, SKIPPED, SKIPS, STATE
from bert_mgpu.training import rules

# The products that take the time. Embeddings are rows that are only looked up, but for
# the output layer of a language model, which takes them in the precision of its kernel.
LOW: rules.Rules[bool] = (
    (r"^(bert/encoder/.*|cls/predictions/transform/dense)/(kernel|bias)$", True),
    (r"", False),
)

FIRST_SCALE, FLOOR, CEILING = 2.0**15, 1.0, 2.0**24
GROW_AFTER = 2000  # steps, as in Micikevicius et al.
MAX_SKIPS = 25  # 15 of them reach the floor from the first scale


# TF32 is no type of TensorFlow's: products of float32 are rounded on their way in, by a
# switch of the whole process (see `devices.configure`).
TF32 = "tf32"


def dtypes(names: Iterable[str], precision: str) -> dict[str, tf.DType]:
    """What a step computes with each weight in; precision: that of the flag."""
    low = tf.float32 if precision == TF32 else tf.dtypes.as_dtype(precision)
    chosen = rules.resolve(LOW, names)
    return {name: low if chosen[name] else tf.float32 for name in chosen}


def cast(params: Mapping[str, tf.Tensor], precision: str) -> dict[str, tf.Tensor]:
    """The weights as a step computes with them."""
    wanted = dtypes(params, precision)
    return {name: tf.cast(value, wanted[name]) for name, value in params.items()}


def first_state() -> dict[str, np.ndarray]:
    """The state of loss scaling, float32 scalars."""
    return {name: np.array(FIRST_SCALE * (name == SCALE), "f") for name in STATE}


def scaling(slots: Iterable[str]) -> list[str]:
    """Which of these names are the state of loss scaling: all of it or none."""
    there = {*slots}
    return [name for name in STATE if name in there]


def after_step(state: Mapping[str, Any], finite: Any) -> dict[str, tf.Tensor]:
    """The state after a step whose gradient was finite or was not (bool scalar)."""
    scale, good = state[SCALE], state[GOOD_STEPS] + 1.0
    grows = good >= GROW_AFTER
    grown = tf.where(grows, tf.minimum(scale * 2.0, CEILING), scale)
    return {
        SCALE: tf.where(finite, grown, tf.maximum(scale / 2.0, FLOOR)),
        GOOD_STEPS: tf.where(finite & ~grows, good, 0.0),
        SKIPS: tf.where(finite, 0.0, state[SKIPS] + 1.0),
        SKIPPED: state[SKIPPED] + tf.where(finite, 0.0, 1.0),
    }
