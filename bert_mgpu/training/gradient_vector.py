"""The gradients and losses of a step as one vector, so that one sum adds them all.

Letters: n values of all trained parameters, rounded up to a multiple of 16; L losses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

# A float32 slice shares the vector's memory if it ends at a multiple of this number:
# TensorFlow copies what is not aligned to 64 bytes (EIGEN_MAX_ALIGN_BYTES).
_ALIGNMENT = 16


class Layout:
    """The layout of the vector: the gradient of each parameter, zeros, losses.

    The zeros pad the gradients to an aligned length, so that slicing copies nothing.
    """

    def __init__(
        self, shapes: Mapping[str, Sequence[int]], losses: Sequence[str]
    ) -> None:
        """shapes: the shapes of the trained parameters, by name."""
        self._shapes = {name: [*shape] for name, shape in shapes.items()}
        self._sizes = [math.prod(shape) for shape in self._shapes.values()]
        self.losses = tuple(losses)
        self._zeros = -sum(self._sizes) % _ALIGNMENT
        self.count = sum(self._sizes) + self._zeros  # n

    @property
    def size(self) -> int:
        """The length of the whole vector, n + L."""
        return self.count + len(self.losses)

    def join(self, grads: Mapping[str, Any], losses: Mapping[str, Any]) -> tf.Tensor:
        """The vector, float32 [n + L]; the gradients must be dense."""
        flat = [tf.reshape(grads[name], [-1]) for name in self._shapes]
        zeros = tf.zeros([self._zeros])
        return tf.concat([*flat, zeros, tf.stack([losses[n] for n in self.losses])], 0)

    def split(self, vector: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """[n + L] -> the gradients [n] and the losses [L]."""
        return vector[: self.count], vector[self.count :]

    def gradients(self, flat: tf.Tensor) -> dict[str, tf.Tensor]:
        """[n] -> the gradient of each parameter in its shape, by name."""
        pieces = tf.split(flat, [*self._sizes, self._zeros])
        named = zip(self._shapes.items(), pieces, strict=False)
        return {name: tf.reshape(piece, shape) for (name, shape), piece in named}
