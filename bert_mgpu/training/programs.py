"""The computations of a device: a micro-batch's gradients, the update, a forward pass.

Each is traced once and serves all towers of all devices; none depends on its device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from bert_mgpu.core.task import Batch, DropoutKey, Params, Task
from bert_mgpu.training import batches, precision, update
from bert_mgpu.training.gradient_vector import Layout
from bert_mgpu.training.optimizers import Optimizer
from bert_mgpu.training.replicas import Replica, Variables, as_tensors
from bert_mgpu.training.traced_once import TracedOnce


class Compilation(NamedTuple):
    """Which computations XLA compiles."""

    passes: bool  # forward and backward passes through the model
    update: bool
    # If `passes` is false: compile forward passes after this many of the same shape;
    # None: never.
    forward_after: int | None = None


class Programs:
    """`micro_batch`, `update` and `forward` of a task and an optimizer.

    Letters as in gradient_vector.py.
    """

    def __init__(
        self,
        task: Task,
        dtype: str,
        optimizer: Optimizer,
        *,
        frozen: Collection[str],
        xla: Compilation,
    ):
        """dtype: of the computations of a pass; other arguments: as for `Towers`."""
        self._task = task
        self._dtype = dtype
        self._optimizer = optimizer
        self._frozen = frozenset(frozen)
        self._xla = xla
        self._counts: Counter[Any] = Counter()  # forward passes for each shape of rows
        # TensorFlow optimizes an inlined function anew at each call site, where it may
        # round differently.
        plain = {"experimental_attributes": {"_noinline": True}}

        def traced(function: Callable[..., Any], compiled: bool) -> TracedOnce:
            options: dict[str, Any] = {"jit_compile": True} if compiled else plain
            return TracedOnce(tf.function(function, autograph=False, **options))

        self.micro_batch = traced(self._micro_batch_sums, xla.passes)
        self.update = traced(self._update_replica, xla.update)
        self._forward = traced(self._tower_outputs, xla.passes)
        self._compiled_forward = traced(self._tower_outputs, True)

    def trained(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters that are not frozen."""
        return {name: params[name] for name in params if name not in self._frozen}

    def forward(self, rows: Mapping[str, tf.Tensor]) -> TracedOnce:
        """The program for a forward pass over rows of this shape.

        It is compiled once the shape has become frequent, see `Compilation`.
        """
        shape = tuple(sorted((name, *value.shape) for name, value in rows.items()))
        self._counts[shape] += 1
        after = self._xla.forward_after
        if after is not None and self._counts[shape] > after:
            return self._compiled_forward
        return self._forward

    @property
    def traces(self) -> int:
        """The number of batch shapes for which there are passes, of either kind."""
        programs = (self.micro_batch, self._forward, self._compiled_forward)
        return sum(program.count for program in programs)

    @property
    def compiles(self) -> bool:
        """Whether passes are compiled, at once or when they have become frequent."""
        return self._xla.passes or self._xla.forward_after is not None

    def stop_compiling_frequent_shapes(self) -> bool:
        """Stops compiling frequent forward passes; returns whether any was compiled."""
        before = self._xla.forward_after
        self._xla = self._xla._replace(forward_after=None)
        return before is not None and max(self._counts.values(), default=0) > before

    def layout(self, losses: tuple[str, ...]) -> Layout:
        """The layout of a step's sums."""
        specs = self.trained(self._task.param_specs())
        return Layout({name: shape for name, (shape, _) in specs.items()}, losses)

    def trace_step(
        self,
        replica: Replica,
        cast: Params | None,
        rows: dict[str, tf.TensorSpec],
        *,
        numbers: tf.Tensor,
        losses: tuple[str, ...],
    ) -> None:
        """Traces `micro_batch` and `update`, which can then be called for any device.

        cast: specs of the weights in the dtypes in which a step computes, None where
        `micro_batch` casts them itself; rows: specs of a micro-batch.
        """
        params = replica.params if cast is None else cast
        weights, one = tf.TensorSpec([len(losses)]), tf.TensorSpec([])
        row = tf.TensorSpec([], tf.int32)
        self.micro_batch.trace(
            losses,
            params,
            rows,
            first_row=row,
            numbers=numbers,
            weights=weights,
            scale=one,
        )
        gradient = tf.TensorSpec([self.layout(losses).count])
        trained, step = self.trained(replica.params), numbers[0]
        self.update.trace(
            losses,
            trained,
            replica.slots,
            gradient=gradient,
            norm=one,
            rate=one,
            step=step,
        )

    def _micro_batch_sums(
        self,
        losses: tuple[str, ...],
        params: Params,
        rows: Batch,
        *,
        first_row: tf.Tensor,
        numbers: tf.Tensor,
        weights: tf.Tensor,
        scale: tf.Tensor,
    ) -> tf.Tensor:
        """The gradients and losses [n + L] of a micro-batch."""
        sums, grads = self.losses_and_gradients(
            params,
            rows,
            first_row=first_row,
            numbers=numbers,
            weights=dict(zip(losses, tf.unstack(weights), strict=True)),
            scale=scale,
        )
        return self.layout(losses).join(grads, sums)

    def losses_and_gradients(
        self,
        params: Params,
        rows: Batch,
        *,
        first_row: tf.Tensor,
        numbers: tf.Tensor,
        weights: Mapping[str, Any],
        scale: tf.Tensor,
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """(losses, gradients) of a micro-batch, see `update.gradients`.

        numbers: the step and the seed.
        """
        cast = precision.cast(as_tensors(params), self._dtype)
        trained = self.trained(cast)
        step, seed = tf.unstack(numbers)
        return update.gradients(
            self._task,
            trained,
            {name: cast[name] for name in cast if name not in trained},
            batch=batches.as_task_batch(rows),
            dropout_key=DropoutKey(
                tf.cast(seed, tf.uint64), step, tf.cast(first_row, tf.int64)
            ),
            weights=weights,
            scale=scale,
        )

    def _update_replica(
        self,
        losses: tuple[str, ...],
        trained: Variables,
        slots: Variables,
        *,
        gradient: tf.Tensor,
        norm: tf.Tensor,
        rate: tf.Tensor,
        step: tf.Tensor,
    ) -> tf.Tensor:
        """Updates a device's replica in place.

        XLA overwrites variables that it both reads and assigns, so weights and moments
        are not stored twice. Returns a vector: the gradient's norm, then the state of
        loss scaling.
        """
        grads = self.layout(losses).gradients(gradient)
        params, new_slots, norm = update.apply_gradients(
            self._optimizer,
            as_tensors(trained),
            as_tensors(slots),
            grads=grads,
            norm=norm,
            rate=rate,
            step=step,
        )
        for table, values in ((trained, params), (slots, new_slots)):
            for name, value in values.items():
                table[name].assign(value)
        return tf.stack([norm, *(new_slots[n] for n in precision.scaling(slots))])

    def _tower_outputs(self, params: Variables, rows: Batch) -> dict[str, tf.Tensor]:
        """The task's outputs for the rows of a tower."""
        return self._task.outputs(as_tensors(params), batches.as_task_batch(rows))
