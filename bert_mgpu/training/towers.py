"""N towers of one model on D devices: the training step and the forward pass.

A tower is mathematics: it takes `b` rows of the global batch [N, b, ...] and
gives sums. A device is placement: it holds one copy of the weights and runs its
towers one after the other. Gradients are added in a pairwise tree over all the
towers, so that on CPUs every placement of powers of two gives the same bits. Between
GPUs NCCL adds, in its own order: there it is the same up to rounding.

A process has its share of the towers of all processes, and of the rows of a batch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.core import tensor_names
from bert_mgpu.core.task import Batch, Params, Task
from bert_mgpu.distributed import collective, pairwise, strategies
from bert_mgpu.distributed import devices as devices_lib
from bert_mgpu.distributed.collective import SOLO, Collective
from bert_mgpu.training import batches, failures, results
from bert_mgpu.training import precision as precision_lib
from bert_mgpu.training import update as update_lib
from bert_mgpu.training.batches import PlacedBatch
from bert_mgpu.training.copies import Replicas, read
from bert_mgpu.training.optimizers import Optimizer
from bert_mgpu.training.programs import Programs
from bert_mgpu.training.results import PendingOutputs, StepResult

Columns = tuple[dict[str, tf.Tensor], ...]  # of each device


class Towers:
    """The weights on the devices, and what can be done with them."""

    def __init__(
        self,
        task: Task,
        n_towers: int,
        devices: Sequence[str],
        *,
        seed: int,
        xla: bool,
        precision: str = "float32",
        optimizer: Optimizer = Optimizer(),  # noqa: B008 (it is frozen)
        frozen: Collection[str] = (),
        xla_update: bool | None = None,
        group: Collective = SOLO,
    ):
        """n_towers: of all processes of the group, which share them evenly.

        seed: of the dropout masks; may be set anew between two steps.
        xla: compile the passes through the model; xla_update: the update (as xla).
        frozen: names of the parameters that are not trained.
        """
        self.task, self.group, self.n_towers = task, group, n_towers
        self.seed = seed
        self._precision, self._optimizer, self._xla = precision, optimizer, xla
        self.own = devices_lib.assign_towers(n_towers, group.size)[group.rank]
        self.places = devices_lib.assign_towers(len(self.own), len(devices))
        self.devices = [*devices[: len(self.places)]]
        self._strategy = strategies.make_strategy(self.devices)
        self._reader = results.ResultReader()
        self._copies = Replicas(self.devices, precision, xla)
        # Rows of a tower in a forward pass: more are known not to fit.
        self.largest = sys.maxsize
        # What the devices were given to do last: for one of them, and its arguments.
        self._asked: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
        # Of the batch that comes next: summed over processes with the step before it.
        self._summed: tuple[PlacedBatch, tf.Tensor] | None = None
        updates = xla if xla_update is None else xla_update
        self._programs = Programs(
            task, precision, optimizer, frozen=frozen, xla=xla, xla_update=updates
        )

    # -- the weights --------------------------------------------------------

    def first_slots(self, params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What the optimizer keeps beside the weights, before the first step."""
        trained = self._programs.trained(params)
        low = self._precision == "float16" or self.group.rounds
        state = precision_lib.first_state() if low else {}
        return self._optimizer.zero_slots(trained) | state

    def load(
        self, params: Mapping[str, np.ndarray], slots: Mapping[str, np.ndarray]
    ) -> None:
        """Puts one copy of the weights (and slots) on every device, in the place of
        those that were there. What was compiled for them serves the new ones too.
        """
        self._asked = self._summed = None
        # New ones first: the old ones hold the variables that they were traced with.
        self._train_step = tf.function(self._replicated_step, autograph=False)
        self._outputs = tf.function(self._replicated_outputs, autograph=False)
        self._copies.load(params, slots)

    def snapshot(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """(params, slots). Raises RunError where the devices hold different ones."""
        self._copies.check_replicas_equal()
        return self._copies.snapshot()

    def check_replicas_equal(self) -> None:
        """Raises RunError where the devices hold different weights or slots."""
        self._copies.check_replicas_equal()

    @property
    def compilations(self) -> int:
        """How many shapes of batches have been compiled so far."""
        functions = (self._train_step, self._outputs)
        return sum(f.experimental_get_tracing_count() for f in functions)

    # -- training -----------------------------------------------------------

    def place(self, batch: Batch) -> PlacedBatch:
        """This process's share of a batch to train on, arrays [M, b, ...], placed.

        M is a multiple of the number of its towers: each works its share of the parts
        off, one after the other, and needs the memory of one of them.
        """
        return self.place_for_outputs(batch, self.task)

    def place_for_outputs(self, batch: Batch, task: Task | None = None) -> PlacedBatch:
        """The same of a batch that nothing is learnt from."""
        shares = [len(place) for place in self.places]
        towers = len(self.own)
        return batches.place(batch, self.devices, shares, towers=towers, task=task)

    def train_step(
        self,
        batch: Batch | PlacedBatch,
        step: int,
        rate: float,
        *,
        stop: bool = False,
        upcoming: PlacedBatch | None = None,
    ) -> StepResult:
        """One optimizer step on this process's share of a batch, see `place`.

        stop: tells the other processes that this one was asked to. upcoming: the batch
        of the next step, if it is known: then its denominators are summed with this
        step's gradients, and the processes meet once a step.
        """
        self.group.working(step)
        placed = batch if isinstance(batch, PlacedBatch) else self.place(batch)
        names = tuple(placed.weights)
        later = upcoming.weights if upcoming else dict.fromkeys(names, 0.0)
        with tf.device("CPU:0"):
            weights = self._denominators(placed)
            numbers = tf.constant([step, self.seed], tf.int64)
            scalars = tf.constant([rate, float(stop), *later.values()], tf.float32)
        inputs = placed.columns, weights, numbers, names, placed.rows
        self._asked = self._sums_of_device, inputs
        told, summed = self._train_step(*inputs, scalars)
        self._summed = (upcoming, summed) if upcoming else None
        scaling = precision_lib.scaling(self._copies[0].slots)
        overflows = self._precision == "float16"
        return StepResult(self._reader.ask(told), names, scaling, overflows=overflows)

    def _denominators(self, placed: PlacedBatch) -> tf.Tensor:
        """Of the losses over the batch of all processes, float32 [L]."""
        if self.group.size > 1 and self._summed and self._summed[0] is placed:
            return self._summed[1]
        own = np.array([*placed.weights.values()], np.float32)
        total = tf.constant(collective.sum_over_processes(self.group, own))
        if self.group.size == 1:
            return total
        # Where a step leaves those of the next one: elsewhere TensorFlow would prepare
        # the step's function twice. To bring them to the host would wait for the step.
        with tf.device(self.devices[0]):
            return tf.identity(total)

    def _replicated_step(
        self,
        columns: Columns,
        weights: tf.Tensor,
        numbers: tf.Tensor,
        losses: tuple[str, ...],
        rows: int,
        scalars: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        programs, copy = self._programs, self._copies[0]
        layout, one = programs.layout(losses), tf.constant(1.0)
        params = copy.params if self._xla else self._copies.specs()
        part = batches.specs_of_part(columns[0]), tf.constant(0), numbers, weights, one
        programs.part.trace(losses, params, *part)
        own_trained = programs.trained(copy.params)
        first = tf.TensorSpec([layout.count]), one, scalars[0], numbers[0]
        programs.update.trace(losses, own_trained, copy.slots, *first)

        def replica_step() -> tuple[tf.Tensor, tf.Tensor]:
            replica = strategies.replica_id()
            copy = self._copies[replica]
            vector = self._sums_of_device(
                replica, columns, weights, numbers, losses, rows
            )
            if len(self.places) > 1:
                context = tf.distribute.get_replica_context()
                vector = context.all_reduce(tf.distribute.ReduceOp.SUM, vector)
            gradient, sums = layout.split(vector)
            exact = tf.concat([sums, scalars[2:], scalars[1:2]], 0)
            gradient, exact, seconds = collective.timed_all_reduce(
                self.group, gradient, exact
            )
            norm = update_lib.global_norm(gradient)
            inputs = gradient, norm, scalars[0], numbers[0]
            own_trained = programs.trained(copy.params)
            state = programs.update(losses, own_trained, copy.slots, *inputs)
            sums, later, stops = tf.split(exact, [len(losses), len(losses), 1])
            return tf.concat([sums, stops, seconds[None], state], 0), later

        return tf.nest.map_structure(self._first, self._strategy.run(replica_step))

    def _sums_of_device(
        self,
        replica: int,
        columns: Columns,
        weights: tf.Tensor,
        numbers: tf.Tensor,
        losses: tuple[str, ...],
        rows: int,
    ) -> tf.Tensor:
        """The sums [n + L] of the towers of one device.

        weights: of the global batch, known before any backward pass, so that gradients
        of towers simply add.
        """
        copy, own, place = self._copies[replica], columns[replica], self.places[replica]
        count = own["input_ids"].shape[0]
        first_part = (self.own.start + place.start) * (count // len(place))
        params: Params = copy.params
        if not self._xla:  # compiled, it is no work to cast them in each part
            params = precision_lib.cast(read(params), self._precision)
        scale = tf.constant(1.0)
        if tensor_names.SCALE in copy.slots:
            scale = copy.slots[tensor_names.SCALE].read_value()

        def part(index: tf.Tensor) -> tf.Tensor:
            first_row = (first_part + index) * rows
            inputs = batches.part_of(own, index), first_row, numbers, weights, scale
            return self._programs.part(losses, params, *inputs)

        size = self._programs.layout(losses).size
        return pairwise.sequential_pairwise_sum(part, count, size)

    # -- forward only -------------------------------------------------------

    def refresh(self) -> None:
        """To be called before outputs are asked for, once for the same weights."""
        self._copies.refresh()

    def launch_outputs(self, placed: PlacedBatch) -> PendingOutputs:
        """The task's outputs for a batch [N, b, ...] of the N towers of this process:
        rows [N * b, ...], which can be read later. See `refresh`.
        """
        self.group.working()
        self._asked = self._outputs_of_device, (placed.columns,)
        found = self._outputs(placed.columns)
        parts = {
            name: self._strategy.experimental_local_results(rows)
            for name, rows in found.items()
        }
        return PendingOutputs(self._reader.ask_all(parts))

    def outputs(self, batch: Batch) -> dict[str, np.ndarray]:
        """The same at once, of arrays, with the weights as they are now."""
        self.refresh()
        return self.launch_outputs(self.place_for_outputs(batch)).read()

    def _replicated_outputs(self, columns: Columns) -> dict[str, Any]:
        of_part = batches.specs_of_part(columns[0])
        self._programs.forward.trace(self._copies[0].used, of_part)
        own = self._outputs_of_device
        return self._strategy.run(lambda: own(strategies.replica_id(), columns))

    def _outputs_of_device(
        self, replica: int, columns: Columns
    ) -> dict[str, tf.Tensor]:
        own, used = columns[replica], self._copies[replica].used

        def tower(index: tf.Tensor) -> dict[str, tf.Tensor]:
            return self._programs.forward(used, batches.part_of(own, index))

        return pairwise.concat_sequentially(tower, len(self.places[replica]))

    # -- failures -----------------------------------------------------------

    def out_of_memory(self, error: Exception) -> str | None:
        """What a device had no memory for; None for any other error."""
        asked = self._asked
        trained = asked is not None and asked[0] == self._sums_of_device
        return failures.out_of_memory(error, self.devices, asked, trained=trained)

    def _first(self, value: Any) -> Any:
        return self._strategy.experimental_local_results(value)[0]
