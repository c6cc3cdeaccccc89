"""Parameter updates as pure functions of tensors (or numpy arrays) of any shape.

To add an optimizer: write a function, add a row to OPTIMIZERS, and extend the choices
of --optimizer in config/base.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.core.tensor_names import AVERAGE
from bert_mgpu.training import quantized_moments, rules

BETA_1, BETA_2 = 0.9, 0.999
# Smaller tensors gain little from 8 bits (bitsandbytes has the same limit).
SMALLEST_IN_8_BITS = 4096

Slots = dict[str, Any]  # the slots of one parameter, by suffix
Shapes = dict[str, tuple[int, ...]]


class ParameterSettings(NamedTuple):
    """How the optimizer updates one parameter."""

    rate: Any  # the learning rate, times this parameter's factor
    weight_decay: float
    layer_adaptation: bool  # LAMB: scale the step to the parameter's norm
    step: Any  # int64, 0 for the first one
    moves: Any  # bool; if false, slots and parameter stay as they are

    def kept(self, new: Slots, old: Slots) -> Slots:
        """The slots after this step: `new` if the parameter moves, else `old`."""
        return {name: tf.where(self.moves, new[name], old[name]) for name in new}


def _moments(grad: Any, slots: Slots, settings: ParameterSettings) -> Slots:
    """Exponential averages of the gradient and of its square."""
    new = {
        "adam_m": BETA_1 * slots["adam_m"] + (1.0 - BETA_1) * grad,
        "adam_v": BETA_2 * slots["adam_v"] + (1.0 - BETA_2) * (grad * grad),
    }
    # Selected before they are used, so that XLA overwrites the old ones: no third copy.
    return settings.kept(new, slots)


def _unbiased_ratio(slots: Slots, step: Any, epsilon: float) -> Any:
    """Adam's update, with both averages corrected for their start at zero."""
    steps = tf.cast(step, tf.float32) + 1.0

    def weight(beta: float) -> Any:  # 1 - beta ** steps, exact for few steps too
        return -tf.math.expm1(steps * math.log(beta))

    m = slots["adam_m"] / weight(BETA_1)
    return m / (tf.sqrt(slots["adam_v"] / weight(BETA_2)) + epsilon)


def adamw_google_update(
    grad: Any, param: Any, slots: Slots, *, settings: ParameterSettings
) -> tuple[Any, Slots]:
    """AdamWeightDecayOptimizer of google-research/bert -> (param, slots).

    Adam (Kingma & Ba 2015) without bias correction, and with decay decoupled
    from the gradient.
    """
    slots = _moments(grad, slots, settings)
    update = slots["adam_m"] / (tf.sqrt(slots["adam_v"]) + 1e-6)
    return param - settings.rate * (update + settings.weight_decay * param), slots


def adamw_update(
    grad: Any, param: Any, slots: Slots, *, settings: ParameterSettings
) -> tuple[Any, Slots]:
    """AdamW (Loshchilov & Hutter 2019), with bias correction -> (param, slots)."""
    slots = _moments(grad, slots, settings)
    update = _unbiased_ratio(slots, settings.step, 1e-8)
    return param - settings.rate * (update + settings.weight_decay * param), slots


def lamb_update(
    grad: Any, param: Any, slots: Slots, *, settings: ParameterSettings
) -> tuple[Any, Slots]:
    """LAMB (You et al. 2020), with bias correction -> (param, slots).

    With layer adaptation the norm of the step is that of the parameter times the rate;
    without it, the step is Adam's.
    """
    slots = _moments(grad, slots, settings)
    update = _unbiased_ratio(slots, settings.step, 1e-6) + settings.weight_decay * param
    if not settings.layer_adaptation:
        return param - settings.rate * update, slots
    param_norm, update_norm = tf.norm(param), tf.norm(update)
    both = tf.logical_and(param_norm > 0.0, update_norm > 0.0)
    ratio = tf.where(both, param_norm / update_norm, 1.0)
    return param - settings.rate * ratio * update, slots


def adafactor_update(
    grad: Any, param: Any, slots: Slots, *, settings: ParameterSettings
) -> tuple[Any, Slots]:
    """Adafactor (Shazeer & Stern 2018) with a given rate -> (param, slots).

    The squared gradients of matrices [..., R, C] are stored as the means of rows
    [..., R] and of columns [..., C]. There is no momentum, and the step is not
    relative to the parameter's size; weight decay is that of AdamW.
    """
    weight = (tf.cast(settings.step, tf.float32) + 1.0) ** -0.8  # section 7.2

    def average(old: Any, new: Any) -> Any:
        return (1.0 - weight) * old + weight * new

    squares = grad * grad + 1e-30
    if "adafactor_v" in slots:
        new = {"adafactor_v": average(slots["adafactor_v"], squares)}
        update = grad * tf.math.rsqrt(new["adafactor_v"])
    else:
        rows = average(slots["adafactor_vr"], tf.reduce_mean(squares, -1))
        columns = average(slots["adafactor_vc"], tf.reduce_mean(squares, -2))
        new = {"adafactor_vr": rows, "adafactor_vc": columns}
        factors = rows / tf.reduce_mean(rows, -1, keepdims=True)
        # Two roots, one after the other: the product of both factors may underflow.
        update = grad * tf.math.rsqrt(factors)[..., tf.newaxis]
        update = update * tf.math.rsqrt(columns)[..., tf.newaxis, :]
    rms = tf.sqrt(tf.reduce_mean(update * update))
    update = update / tf.maximum(1.0, rms)  # section 6, with d = 1
    slots = settings.kept(new, slots)
    return param - settings.rate * (update + settings.weight_decay * param), slots


def lion_update(
    grad: Any, param: Any, slots: Slots, *, settings: ParameterSettings
) -> tuple[Any, Slots]:
    """Lion (Chen et al. 2023) -> (param, slots).

    Every element moves by the full rate, so a good rate is three to ten times smaller
    than AdamW's.
    """
    m = slots["lion_m"]
    update = tf.sign(0.9 * m + 0.1 * grad)
    slots = settings.kept({"lion_m": 0.99 * m + 0.01 * grad}, slots)
    return param - settings.rate * (update + settings.weight_decay * param), slots


def _like_param(*suffixes: str) -> Callable[[tuple[int, ...]], Shapes]:
    return lambda shape: dict.fromkeys(suffixes, shape)


def _factored(shape: tuple[int, ...]) -> Shapes:
    if len(shape) < 2:
        return {"adafactor_v": shape}
    return {"adafactor_vr": shape[:-1], "adafactor_vc": shape[:-2] + shape[-1:]}


@dataclasses.dataclass(frozen=True)
class _Method:
    update: Callable[..., tuple[Any, Slots]]
    slots: Callable[[tuple[int, ...]], Shapes]  # from the parameter's shape
    # The slots that have an 8-bit form -> whether their values have a sign.
    signed: Mapping[str, bool] = dataclasses.field(default_factory=dict)


_ADAM = (_like_param("adam_m", "adam_v"), {"adam_m": True, "adam_v": False})

OPTIMIZERS: dict[str, _Method] = {
    "adamw_google": _Method(adamw_google_update, *_ADAM),
    "adamw": _Method(adamw_update, *_ADAM),
    "lamb": _Method(lamb_update, *_ADAM),
    "adafactor": _Method(adafactor_update, _factored),
    "lion": _Method(lion_update, _like_param("lion_m")),
}


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """One of OPTIMIZERS with its settings, which may depend on a parameter's name."""

    name: str = "adamw_google"
    slot_bits: int = 32  # 8: block-wise quantised moments
    ema_decay: float = 0.0  # of the weights' moving average; 0: none is kept
    rates: rules.Rules[float] = ((r"", 1.0),)  # factors of the learning rate
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        if self.name not in OPTIMIZERS:
            raise ValueError(
                f"unknown optimizer {self.name!r}: pass one of {', '.join(OPTIMIZERS)}"
            )
        if self.slot_bits not in (8, 32):
            raise ValueError(f"slots of {self.slot_bits} bits: pass 8 or 32")
        if self.slot_bits == 8 and not self._method.signed:
            quantized = [name for name, method in OPTIMIZERS.items() if method.signed]
            raise ValueError(
                f"{self.name} has no slots of 8 bits: pass 32, or one of the"
                f" optimizers {', '.join(quantized)}"
            )
        if not 0.0 <= self.ema_decay < 1.0:
            raise ValueError(
                f"an average with decay {self.ema_decay}: pass 0 for none or a"
                " number below 1, such as 0.999"
            )

    @property
    def _method(self) -> _Method:
        return OPTIMIZERS[self.name]

    def zero_slots(self, params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The initial slots of these parameters, all of which are trained."""
        in_8_bits = self._in_8_bits(params)
        slots: dict[str, np.ndarray] = {}
        for name, param in params.items():
            specs = self._specs(param, name in in_8_bits)
            for suffix, (shape, dtype) in specs.items():
                slots[f"{name}/{suffix}"] = np.zeros(shape, dtype)
            if self.ema_decay:
                slots[f"{name}/{AVERAGE}"] = param.copy()
        return slots

    def update(
        self,
        params: Mapping[str, Any],
        slots: Mapping[str, Any],
        grads: Mapping[str, Any],
        *,
        rate: Any,
        step: Any,
        moves: Any = True,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """One step with gradients that are already clipped -> (params, slots).

        A pure function. rate: before the factors of `rates`; step: 0 for the first one;
        slots: named as in `zero_slots`; moves: if false, nothing changes.
        """
        decays = rules.resolve(rules.weight_decay(self.weight_decay), params)
        adaptations = rules.resolve(rules.LAYER_ADAPTATION, params)
        factors = rules.resolve(self.rates, params)
        in_8_bits = self._in_8_bits(params)
        update, signed = self._method.update, self._method.signed
        new_params, new_slots = dict[str, Any](), dict[str, Any]()
        dependency: Any = 0.0
        for name, param in params.items():
            quantized = name in in_8_bits
            own = {s: slots[f"{name}/{s}"] for s in self._specs(param, quantized)}
            settings = ParameterSettings(
                rate * factors[name],
                decays[name],
                adaptations[name],
                step=step,
                moves=moves,
            )
            if quantized:
                new, own, dependency = quantized_moments.update_in_8_bits(
                    update,
                    signed,
                    dependency,
                    grad=grads[name],
                    param=param,
                    slots=own,
                    settings=settings,
                )
            else:
                new, own = update(grads[name], param, own, settings=settings)
            new_params[name] = tf.where(moves, new, param)
            new_slots |= {f"{name}/{s}": value for s, value in own.items()}
            if self.ema_decay:
                average = slots[key := f"{name}/{AVERAGE}"]
                change = (1.0 - self._ema_decay(step)) * (new - average)
                new_slots[key] = tf.where(moves, average + change, average)
        return new_params, new_slots

    def _ema_decay(self, step: Any) -> Any:
        """The decay of the averages in this step.

        Lower at first, as in tf.train.ExponentialMovingAverage with `num_updates`, so
        that initial weights do not dominate the average of a short training.
        """
        steps = tf.cast(step, tf.float32)
        return tf.minimum(self.ema_decay, (1.0 + steps) / (10.0 + steps))

    def _specs(self, param: Any, quantized: bool) -> quantized_moments.Specs:
        """The shapes and dtypes of the slots of a parameter, by suffix."""
        shape = tuple(param.shape)
        if quantized:
            return quantized_moments.specs(self._method.signed, math.prod(shape))
        return {s: (own, np.float32) for s, own in self._method.slots(shape).items()}

    def _in_8_bits(self, params: Mapping[str, Any]) -> set[str]:
        """The names of the parameters whose slots are stored in 8 bits."""
        if self.slot_bits == 32:
            return set()
        bits = rules.resolve(rules.SLOT_BITS, params)
        return {
            name
            for name, param in params.items()
            if bits[name] == 8 and math.prod(param.shape) >= SMALLEST_IN_8_BITS
        }
