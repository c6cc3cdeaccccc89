"""N towers of one model on D devices: the training step and the forward pass.

A tower is mathematics: it takes `b` rows of the global batch [N, b, ...] and
gives sums. A device is placement: it holds one copy of the weights and runs its
towers one after the other. Gradients are added in a pairwise tree over all the
towers, so that on CPUs every placement of powers of two gives the same bits. Between
GPUs NCCL adds, in its own order: there it is the same up to rounding.

A process has its share of the towers of all processes, and of the rows of a batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.task import Batch, Noise, Params, Task
from bert_mgpu.train import collective, optimizers, turns
from bert_mgpu.train import devices as devices_lib
from bert_mgpu.train import precision as precision_lib
from bert_mgpu.train import update as update_lib
from bert_mgpu.train.collective import SOLO, Collective
from bert_mgpu.train.optimizers import Optimizer


def _strategy(devices: Sequence[str]) -> tf.distribute.MirroredStrategy:
    if devices[0].startswith("GPU"):
        return tf.distribute.MirroredStrategy(devices)  # adds by NCCL
    add = tf.distribute.ReductionToOneDevice(accumulation_fn=turns.pairwise_sum)
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=add)


class StepResult(NamedTuple):
    """What a training step tells."""

    losses: dict[str, tf.Tensor]  # weighted means over the global batch
    norm: tf.Tensor  # of the summed gradient before clipping
    scaling: dict[str, tf.Tensor]  # the state of loss scaling, if there is one
    stops: tf.Tensor  # how many processes were asked to stop
    reduction: tf.Tensor  # seconds until the sums of other processes were there


class Towers:
    """The weights on the devices, and what can be done with them."""

    def __init__(
        self,
        task: Task,
        n_towers: int,
        devices: Sequence[str],
        seed: int,
        xla: bool,
        precision: str = "float32",
        optimizer: Optimizer = Optimizer(),  # noqa: B008 (it is frozen)
        frozen: Collection[str] = (),
        xla_update: bool | None = None,
        group: Collective = SOLO,
    ):
        """n_towers: of all processes of the group, which share them evenly.

        xla: compile the passes through the model; xla_update: the update (as xla).
        frozen: names of the parameters that are not trained.
        """
        self._task = task
        self._precision = precision
        self._optimizer = optimizer
        self._frozen = frozenset(frozen)
        self.group = group
        self.n_towers = n_towers
        self.own = devices_lib.lay_out(n_towers, group.size)[group.rank]
        self.places = devices_lib.lay_out(len(self.own), len(devices))
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
        xla_update = xla if xla_update is None else xla_update
        self._gradients = jitted(self._tower_gradients)
        self._update = jitted(self._apply_gradients, jit_compile=xla_update)
        self._forward = jitted(self._task.outputs)
        self._train_step = tf.function(self._replicated_step, autograph=False)
        self._outputs = tf.function(self._replicated_outputs, autograph=False)

    # -- the weights --------------------------------------------------------

    def first_slots(self, params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What the optimizer keeps beside the weights, before the first step."""
        trained, _ = self._split(params)
        state = precision_lib.first_state(self._precision)
        return self._optimizer.zero_slots(trained) | state

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

    def _cast(self, params: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return precision_lib.cast(params, self._precision)

    def _cast_specs(self) -> dict[str, tf.TensorSpec]:
        """Of what `_cast` gives: to trace with, without reading any weight."""
        wanted = precision_lib.dtypes(self._params, self._precision)
        return {n: tf.TensorSpec(v.shape, wanted[n]) for n, v in self._params.items()}

    def _read(self, table: Mapping[str, tf.Variable], replica: int) -> dict:
        return {
            name: self._local(variable, replica).read_value()
            for name, variable in table.items()
        }

    # -- training -----------------------------------------------------------

    def train_step(
        self, batch: Batch, step: int, rate: float, stop: bool = False
    ) -> StepResult:
        """One optimizer step on this process's share of a batch, arrays [M, b, ...].

        M is a multiple of the number of its towers: each works its share of the parts
        off, one after the other, and needs the memory of one of them.
        stop: tells the other processes that this one was asked to.
        """
        self.group.working(step)
        tensors = {name: tf.constant(value) for name, value in batch.items()}
        return self._train_step(
            *(tensors, tf.constant(step, tf.int64), tf.constant(rate, tf.float32)),
            tf.constant(float(stop)),
        )

    @property
    def compilations(self) -> int:
        """How many shapes of batches have been compiled so far."""
        functions = (self._train_step, self._outputs)
        return sum(f.experimental_get_tracing_count() for f in functions)

    def _tower_gradients(self, *tensors: Any) -> Any:
        return update_lib.gradients(self._task, *tensors)

    def _apply_gradients(self, *tensors: Any) -> Any:
        return update_lib.apply_gradients(self._optimizer, *tensors)

    def _replicated_step(
        self, batch: Batch, step: tf.Tensor, rate: tf.Tensor, stop: tf.Tensor
    ) -> StepResult:
        # Denominators are global and known before any backward pass, so that
        # gradients of towers simply add.
        rows = {
            name: tf.reshape(value, [-1, *value.shape[2:]])
            for name, value in batch.items()
        }
        weights, stops = collective.sum_weights(
            self.group, self._task.loss_weights(rows), stop
        )
        parts, rows_per_part = batch["input_ids"].shape[:2]
        parts_per_tower = parts // len(self.own)
        first_part = self.own.start * parts_per_tower
        noise = Noise(
            tf.constant(self._seed, tf.uint64), step, tf.constant(0, tf.int64)
        )
        one = tf.constant(1.0)
        gradients = _traced(
            self._gradients,
            *self._split(self._cast_specs()),
            *(_tower_rows(batch, 0), noise, weights, one),
        )
        trained, _ = self._split(self._params)
        update = _traced(self._update, trained, self._slots, trained, one, rate, step)

        def replica_step() -> StepResult:
            replica = self._replica()
            params = self._read(self._params, replica)
            slots = self._read(self._slots, replica)
            low = self._split(self._cast(params))
            scale = slots.get(precision_lib.SCALE, one)

            def part(index: int) -> Any:
                first_row = (first_part + index) * rows_per_part
                place = noise._replace(first_row=tf.constant(first_row, tf.int64))
                return gradients(*low, _tower_rows(batch, index), place, weights, scale)

            place = self.places[replica]
            mine = range(place.start * parts_per_tower, place.stop * parts_per_tower)
            summed = turns.sum_in_turn(part, mine)
            context = tf.distribute.get_replica_context()
            summed = context.all_reduce(tf.distribute.ReduceOp.SUM, summed)
            (losses, grads), seconds = collective.timed_sum(self.group, *summed)
            trained, _ = self._split(params)
            norm = update_lib.global_norm(grads)
            trained, slots, norm = update(trained, slots, grads, norm, rate, step)
            for table, values in ((self._params, trained), (self._slots, slots)):
                for name, value in values.items():
                    self._local(table[name], replica).assign(value)
            scaling = {n: slots[n] for n in precision_lib.STATE if n in slots}
            return StepResult(losses, norm, scaling, stops, seconds)

        result = self._strategy.run(replica_step)
        return tf.nest.map_structure(self._first, result)

    def _split(self, params: Params) -> tuple[Params, Params]:
        """(trained, frozen)."""
        trained = {n: value for n, value in params.items() if n not in self._frozen}
        return trained, {n: params[n] for n in params if n in self._frozen}

    # -- forward only -------------------------------------------------------

    def outputs(self, batch: Batch) -> dict[str, np.ndarray]:
        """The task's outputs for a batch [N, b, ...] of the N towers of this process.

        Rows [N * b, ...].
        """
        self.group.working()
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
        to_use = {
            name: self._slots.get(f"{name}/{optimizers.AVERAGE}", variable)
            for name, variable in self._params.items()
        }
        forward = _traced(self._forward, self._cast_specs(), _tower_rows(batch, 0))

        def replica_outputs() -> dict[str, tf.Tensor]:
            replica = self._replica()
            params = self._cast(self._read(to_use, replica))

            def tower(index: int) -> dict[str, tf.Tensor]:
                return forward(params, _tower_rows(batch, index))

            parts = turns.in_turn(tower, self.places[replica])
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
