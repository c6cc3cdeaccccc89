"""What devices work out: parts of a step, the update, the forward pass.

Each is traced once and serves all the towers of all devices. None knows where it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import tensorflow as tf

from bert_mgpu.core.task import Batch, DropoutKey, Params, Task
from bert_mgpu.training import batches, precision, update
from bert_mgpu.training.copies import Variables, read
from bert_mgpu.training.once import TracedOnce
from bert_mgpu.training.optimizers import Optimizer
from bert_mgpu.training.vector import Layout


class Programs:
    """Of a task and an optimizer: `part`, `update` and `forward`.

    n values of all trained parameters, L losses.
    """

    def __init__(
        self,
        task: Task,
        dtype: str,
        optimizer: Optimizer,
        *,
        frozen: Collection[str],
        xla: bool,
        xla_update: bool,
    ):
        """dtype: what a pass computes in. See `Towers` for the others."""
        self._task = task
        self._dtype = dtype
        self._optimizer = optimizer
        self._frozen = frozenset(frozen)
        # A function that TensorFlow inlines is optimized anew at each place, and may
        # round differently there.
        plain = {"experimental_attributes": {"_noinline": True}}

        def traced(function: Callable[..., Any], compiled: bool) -> TracedOnce:
            how: dict[str, Any] = {"jit_compile": True} if compiled else plain
            return TracedOnce(tf.function(function, autograph=False, **how))

        self.part = traced(self._part_of_step, xla)
        self.update = traced(self._update_copy, xla_update)
        self.forward = traced(self._tower_outputs, xla)

    def trained(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Those that are not frozen."""
        return {name: params[name] for name in params if name not in self._frozen}

    def layout(self, losses: tuple[str, ...]) -> Layout:
        """Of a step's sums."""
        specs = self.trained(self._task.param_specs())
        return Layout({name: shape for name, (shape, _) in specs.items()}, losses)

    def _part_of_step(
        self,
        losses: tuple[str, ...],
        params: Params,
        rows: Batch,
        first_row: tf.Tensor,
        numbers: tf.Tensor,
        weights: tf.Tensor,
        scale: tf.Tensor,
    ) -> tf.Tensor:
        """The sums [n + L] of a part of a tower's rows."""
        low = precision.cast(read(params), self._dtype)
        trained = self.trained(low)
        step, seed = tf.unstack(numbers)
        place = tf.cast(first_row, tf.int64)
        sums, grads = update.gradients(
            self._task,
            trained,
            {name: low[name] for name in low if name not in trained},
            batch=batches.received(rows),
            dropout_key=DropoutKey(tf.cast(seed, tf.uint64), step, place),
            weights=dict(zip(losses, tf.unstack(weights), strict=True)),
            scale=scale,
        )
        return self.layout(losses).join(grads, sums)

    def _update_copy(
        self,
        losses: tuple[str, ...],
        trained: Variables,
        slots: Variables,
        gradient: tf.Tensor,
        norm: tf.Tensor,
        rate: tf.Tensor,
        step: tf.Tensor,
    ) -> tf.Tensor:
        """Updates a device's copy where it lies.

        XLA writes over variables that it reads and assigns itself: weights and moments
        are not held twice. -> the gradient's norm, then the state of loss scaling.
        """
        grads = self.layout(losses).gradients(gradient)
        params, new_slots, norm = update.apply_gradients(
            self._optimizer,
            read(trained),
            read(slots),
            grads=grads,
            norm=norm,
            rate=rate,
            step=step,
        )
        for table, values in ((trained, params), (slots, new_slots)):
            for name, value in values.items():
                table[name].assign(value)
        return tf.stack([norm, *(new_slots[n] for n in precision.scaling(slots))])

    def _tower_outputs(self, used: Variables, rows: Batch) -> dict[str, tf.Tensor]:
        """The task's outputs for the rows of a tower."""
        return self._task.outputs(read(used), batches.received(rows))
