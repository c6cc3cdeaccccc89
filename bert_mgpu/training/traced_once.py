"""A tf.function that is traced once and called for every device."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class TracedOnce:
    """A tf.function, traced once for arguments of the same dtypes and shapes.

    tf.function itself traces anew for each device, since the function may depend on it.
    Variables are arguments like any other: a trace made with those of one device
    accepts those of every other device.
    """

    def __init__(self, function: Any):
        self._function = function
        self._traced: dict[Any, Any] = {}

    def trace(self, *arguments: Any, **named: Any) -> None:
        """Traces for these arguments or their specs; call it outside of tf.device."""
        key = _key((arguments, named))
        if key not in self._traced:
            specs, named_specs = tf.nest.map_structure(_spec, (arguments, named))
            function = self._function.get_concrete_function(*specs, **named_specs)
            self._traced[key] = function

    @property
    def count(self) -> int:
        """The number of traces."""
        return len(self._traced)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._traced[_key((arguments, named))](*arguments, **named)


def _spec(value: Any) -> Any:
    if isinstance(value, tf.Tensor):
        return tf.TensorSpec(value.shape, value.dtype)
    return value


def _key(arguments: Any) -> tuple[Any, ...]:
    return tuple(
        value if isinstance(value, str) else (tuple(value.shape), value.dtype)
        for value in tf.nest.flatten(arguments)
    )
