"""Gradients and losses as one vector: one sum over towers, devices and processes.

Letters: n values of all trained parameters, rounded up to a multiple of 16; L losses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

# Where a slice of float32 has to end to share the vector's memory: TensorFlow copies
# what is not aligned to 64 bytes (EIGEN_MAX_ALIGN_BYTES).
_ALIGNED = 16


class Layout:
    """Where each value stands: the gradients in order of their names, then the losses.

    The gradients come first, zeros after them, so that a slice of them is no copy.
    """

    def __init__(
        self, shapes: Mapping[str, Sequence[int]], losses: Sequence[str]
    ) -> None:
        """shapes: of the trained parameters, by name."""
        self._shapes = {name: [*shape] for name, shape in shapes.items()}
        self._sizes = [math.prod(shape) for shape in self._shapes.values()]
        self.losses = tuple(losses)
        self._zeros = -sum(self._sizes) % _ALIGNED
        self.count = sum(self._sizes) + self._zeros  # n

    @property
    def size(self) -> int:
        """Values of the whole vector, n + L."""
        return self.count + len(self.losses)

    def join(self, grads: Mapping[str, Any], losses: Mapping[str, Any]) -> tf.Tensor:
        """-> float32 [n + L]; the gradients must be dense."""
        flat = [tf.reshape(grads[name], [-1]) for name in self._shapes]
        zeros = tf.zeros([self._zeros])
        return tf.concat([*flat, zeros, tf.stack([losses[n] for n in self.losses])], 0)

    def split(self, vector: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """[n + L] -> the gradients [n] and the losses [L]."""
        return vector[: self.count], vector[self.count :]

    def gradients(self, flat: tf.Tensor) -> dict[str, tf.Tensor]:
        """[n] -> each gradient in its shape, by name."""
        parts = tf.split(flat, [*self._sizes, self._zeros])
        named = zip(self._shapes.items(), parts, strict=False)
        return {name: tf.reshape(part, shape) for (name, shape), part in named}
