"""N towers of one model on D devices: the training step and the forward pass.

A tower is mathematics: it takes `b` rows of the global batch [N, b, ...] and
gives sums. A device is placement: it holds one copy of the weights and runs its
towers one after the other. Gradients are added in a pairwise tree over all the
towers, so that on CPUs every placement of powers of two gives the same bits. Between
GPUs NCCL adds, in its own order: there it is the same up to rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.task import Batch, Noise, Params, Task
from bert_mgpu.train import devices as devices_lib
from bert_mgpu.train import optimizers


def pairwise_sum(tensors: Iterable[Any]) -> Any:
    """((a + b) + (c + d)) + ...: the order follows from the count alone."""
    level = list(tensors)
    while len(level) > 1:
        pairs = [a + b for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def _strategy(devices: Sequence[str]) -> tf.distribute.MirroredStrategy:
    if devices[0].startswith("GPU"):
        return tf.distribute.MirroredStrategy(devices)  # adds by NCCL
    add = tf.distribute.ReductionToOneDevice(accumulation_fn=pairwise_sum)
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=add)


class Towers:
    """The weights on the devices, and what can be done with them."""

    def __init__(
        self,
        task: Task,
        n_towers: int,
        devices: Sequence[str],
        seed: int,
        xla: bool,
    ):
        self._task = task
        self.places = devices_lib.lay_out(n_towers, len(devices))
        self._strategy = _strategy(devices[: len(self.places)])
        self._seed = seed
        self._params: dict[str, tf.Variable] = {}
        self._slots: dict[str, tf.Variable] = {}
        # Pure functions over local tensors: XLA refuses a tower that reads a
        # variable of another device.
        # Inlined, the towers of a device would not take turns.
        apart = None if xla else {"_noinline": True}
        jitted = functools.partial(
            tf.function,
            jit_compile=xla,
            autograph=False,
            experimental_attributes=apart,
        )
        self._gradients = jitted(self._tower_gradients)
        self._update = jitted(optimizers.apply_gradients)
        self._forward = jitted(self._task.outputs)
        self._train_step = tf.function(self._replicated_step, autograph=False)
        self._outputs = tf.function(self._replicated_outputs, autograph=False)

    @property
    def n_towers(self) -> int:
        return self.places[-1].stop

    # -- the weights --------------------------------------------------------

    def load(
        self, params: Mapping[str, np.ndarray], slots: Mapping[str, np.ndarray]
    ) -> None:
        """Puts one copy of the weights (and slots) on every device, once."""
        if self._params:
            raise RuntimeError("the towers hold weights: traced steps use those")
        with self._strategy.scope():
            self._params = {
                name: tf.Variable(value, name=name) for name, value in params.items()
            }
            self._slots = {
                name: tf.Variable(value, name=name) for name, value in slots.items()
            }

    def snapshot(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """(params, slots) as the first device holds them; all hold the same."""

        def values(table: Mapping[str, tf.Variable]) -> dict[str, np.ndarray]:
            return {name: self._local(v, 0).numpy() for name, v in table.items()}

        return values(self._params), values(self._slots)

    def _local(self, variable: tf.Variable, replica: int) -> tf.Variable:
        return self._strategy.experimental_local_results(variable)[replica]

    def _read(self, table: Mapping[str, tf.Variable], replica: int) -> dict:
        return {
            name: self._local(variable, replica).read_value()
            for name, variable in table.items()
        }

    # -- training -----------------------------------------------------------

    def train_step(
        self, batch: Batch, step: int, rate: float
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """One optimizer step on a global batch of arrays [M, b, ...].

        M is a multiple of the number of towers: each tower works its share of the
        parts off, one after the other, and needs the memory of one of them.
        Returns the losses (weighted means over the global batch) and the norm
        of the summed gradient before clipping.
        """
        tensors = {name: tf.constant(value) for name, value in batch.items()}
        return self._train_step(
            tensors, tf.constant(step, tf.int64), tf.constant(rate, tf.float32)
        )

    def _tower_gradients(
        self,
        params: Params,
        batch: Batch,
        noise: Noise,
        weights: Mapping[str, Any],
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """A tower's part of the losses and of their gradient, both sums."""
        with tf.GradientTape() as tape:
            tape.watch(params)
            sums = self._task.loss_sums(params, batch, noise)
            parts = {
                name: tf.math.divide_no_nan(value, weights[name])
                for name, value in sums.items()
            }
            loss = tf.add_n(list(parts.values()))
        grads = tape.gradient(
            loss, params, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        # The norm of the clip counts every element once: no IndexedSlices.
        return parts, {name: tf.convert_to_tensor(g) for name, g in grads.items()}

    def _replicated_step(
        self, batch: Batch, step: tf.Tensor, rate: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        # Denominators are global and known before any backward pass, so that
        # gradients of towers simply add.
        rows = {
            name: tf.reshape(value, [-1, *value.shape[2:]])
            for name, value in batch.items()
        }
        weights = self._task.loss_weights(rows)
        parts, rows_per_part = batch["input_ids"].shape[:2]
        parts_per_tower = parts // self.n_towers
        tower_batch = _tower_rows(batch, 0)
        noise = Noise(
            tf.constant(self._seed, tf.uint64), step, tf.constant(0, tf.int64)
        )
        gradients = _traced(self._gradients, self._params, tower_batch, noise, weights)
        update = _traced(self._update, self._params, self._slots, self._params, rate)

        def replica_step() -> tuple[dict[str, tf.Tensor], tf.Tensor]:
            replica = self._replica()
            params = self._read(self._params, replica)

            def part(index: int) -> Any:
                first_row = tf.constant(index * rows_per_part, tf.int64)
                return gradients(
                    params,
                    _tower_rows(batch, index),
                    noise._replace(first_row=first_row),
                    weights,
                )

            place = self.places[replica]
            mine = range(place.start * parts_per_tower, place.stop * parts_per_tower)
            summed = _sum_in_turn(part, mine)
            context = tf.distribute.get_replica_context()
            losses, grads = context.all_reduce(tf.distribute.ReduceOp.SUM, summed)
            slots = self._read(self._slots, replica)
            params, slots, norm = update(params, slots, grads, rate)
            for table, values in ((self._params, params), (self._slots, slots)):
                for name, value in values.items():
                    self._local(table[name], replica).assign(value)
            return losses, norm

        losses, norm = self._strategy.run(replica_step)
        return tf.nest.map_structure(self._first, (losses, norm))

    # -- forward only -------------------------------------------------------

    def outputs(self, batch: Batch) -> dict[str, np.ndarray]:
        """The task's outputs for a global batch [N, b, ...], rows [N * b, ...]."""
        tensors = {name: tf.constant(value) for name, value in batch.items()}
        return {
            name: np.concatenate(
                [
                    part.numpy()
                    for part in self._strategy.experimental_local_results(value)
                ]
            )
            for name, value in self._outputs(tensors).items()
        }

    def _replicated_outputs(self, batch: Batch) -> dict[str, Any]:
        forward = _traced(self._forward, self._params, _tower_rows(batch, 0))

        def replica_outputs() -> dict[str, tf.Tensor]:
            replica = self._replica()
            params = self._read(self._params, replica)

            def tower(index: int) -> dict[str, tf.Tensor]:
                return forward(params, _tower_rows(batch, index))

            parts = _in_turn(tower, self.places[replica])
            return {
                name: tf.concat([part[name] for part in parts], 0) for name in parts[0]
            }

        return self._strategy.run(replica_outputs)

    def _replica(self) -> int:
        context = tf.distribute.get_replica_context()
        return int(tf.get_static_value(context.replica_id_in_sync_group))

    def _first(self, value: Any) -> Any:
        return self._strategy.experimental_local_results(value)[0]


def _traced(function: Any, *arguments: Any) -> Callable[..., Any]:
    """The function for arguments like these, traced once for all devices.

    tf.function itself would trace anew on every device.
    """
    specs = tf.nest.map_structure(
        lambda value: tf.TensorSpec(value.shape, value.dtype), arguments
    )
    return function.get_concrete_function(*specs)


def _tower_rows(batch: Batch, index: int) -> dict[str, tf.Tensor]:
    return {name: value[index] for name, value in batch.items()}


def _sum_in_turn(part: Callable[[int], Any], indices: Iterable[int]) -> Any:
    """The pairwise sum of what `part` gives, worked out one after the other.

    Holds at most log2(indices) + 1 results: two sums of equally many are added at once.
    """
    held: list[tuple[int, Any]] = []  # sums of so many parts: ever fewer

    def add_last_two() -> None:
        (count, left), (more, right) = held.pop(-2), held.pop()
        held.append((count + more, tf.nest.map_structure(tf.add, left, right)))

    for index in indices:
        before = tf.nest.flatten(held[-1][1]) if held else []
        with tf.control_dependencies(before):
            held.append((1, part(index)))
        while len(held) > 1 and held[-1][0] == held[-2][0]:
            add_last_two()
    while len(held) > 1:
        add_last_two()
    return held[0][1]


def _in_turn(tower: Callable[[int], Any], indices: Iterable[int]) -> list[Any]:
    """Runs the towers of one device one after the other, for memory's sake."""
    results: list[Any] = []
    for index in indices:
        before = tf.nest.flatten(results[-1])[:1] if results else []
        with tf.control_dependencies(before):
            results.append(tower(index))
    return results
