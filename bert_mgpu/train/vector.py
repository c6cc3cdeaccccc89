"""Gradients and losses as one vector: one sum over towers, devices and processes.

Letters: n values of all trained parameters, L losses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf


class Layout:
    """Where each value stands: the gradients in order of their names, then the losses.

    The gradients come first, so that a slice of them shares the vector's memory.
    """

    def __init__(
        self, shapes: Mapping[str, Sequence[int]], losses: Sequence[str]
    ) -> None:
        """shapes: of the trained parameters, by name."""
        self._shapes = {name: [*shape] for name, shape in shapes.items()}
        self._sizes = [math.prod(shape) for shape in self._shapes.values()]
        self.losses = tuple(losses)
        self.count = sum(self._sizes)  # n

    @property
    def size(self) -> int:
        """Values of the whole vector, n + L."""
        return self.count + len(self.losses)

    def join(self, grads: Mapping[str, Any], losses: Mapping[str, Any]) -> tf.Tensor:
        """-> float32 [n + L]; the gradients must be dense."""
        flat = [tf.reshape(grads[name], [-1]) for name in self._shapes]
        return tf.concat([*flat, tf.stack([losses[name] for name in self.losses])], 0)

    def split(self, vector: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """[n + L] -> the gradients [n] and the losses [L]."""
        return vector[: self.count], vector[self.count :]

    def gradients(self, flat: tf.Tensor) -> dict[str, tf.Tensor]:
        """[n] -> each gradient in its shape, by name."""
        parts = tf.split(flat, self._sizes)
        named = zip(self._shapes.items(), parts, strict=True)
        return {name: tf.reshape(part, shape) for (name, shape), part in named}
