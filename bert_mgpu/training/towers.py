"""N towers of one model on D devices: the training step and the forward pass.

A tower is a unit of computation: it maps `b` rows of the global batch [N, b, ...] to
sums. A device is a matter of placement: it has one replica of the weights and runs its
towers one after the other. Gradients are added in a pairwise tree over all towers, so
that on CPUs every placement by powers of two gives the same bits. Between GPUs NCCL
adds in its own order: there, results agree up to rounding.

Each process has a share of the towers, and so of the rows of a batch.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.core.task import Batch, Params, Task
from bert_mgpu.distributed import devices as devices_lib
from bert_mgpu.distributed import pairwise, strategies
from bert_mgpu.distributed.collective import SOLO, Collective
from bert_mgpu.training import batches, divergence, failures, reduction, results
from bert_mgpu.training import precision as precision_lib
from bert_mgpu.training.batches import PlacedBatch, StepInputs
from bert_mgpu.training.optimizers import Optimizer
from bert_mgpu.training.programs import Compilation, Programs
from bert_mgpu.training.replicas import Replicas, as_tensors
from bert_mgpu.training.results import PendingOutputs, StepResult
from bert_mgpu.training.traced_once import TracedOnce

Columns = tuple[dict[str, tf.Tensor], ...]  # by device


class Towers:
    """The weights on the devices, and the steps and forward passes that use them."""

    def __init__(
        self,
        task: Task,
        n_towers: int,
        devices: Sequence[str],
        *,
        seed: int,
        xla: bool | Compilation,
        precision: str = "float32",
        optimizer: Optimizer = Optimizer(),  # noqa: B008 (it is frozen)
        frozen: Collection[str] = (),
        group: Collective = SOLO,
    ):
        """n_towers: of all processes of the group, which share them evenly.

        seed: of the dropout masks; may be changed between steps.
        xla: what is compiled; True: everything, False: nothing.
        frozen: names of the parameters that are not trained.
        """
        self.task, self.group, self.n_towers = task, group, n_towers
        self.seed = seed
        self._precision, self._optimizer = precision, optimizer
        self._xla = Compilation(xla, xla) if isinstance(xla, bool) else xla
        self.own_towers = devices_lib.assign_towers(n_towers, group.size)[group.rank]
        self._device_towers = devices_lib.assign_towers(
            len(self.own_towers), len(devices)
        )
        self.devices = [*devices[: len(self._device_towers)]]
        self._strategy = strategies.make_strategy(self.devices)
        self._local_results = self._strategy.experimental_local_results
        self._reader = results.ResultReader()
        self._replicas = Replicas(self.devices, precision, self._xla.passes)
        # The most rows of a tower in a forward pass; lowered when more did not fit.
        self.max_rows = sys.maxsize
        self._last_work: failures.Work | None = None
        # The next batch, and its loss denominators, summed over processes in this step.
        self._upcoming_weights: tuple[PlacedBatch, tf.Tensor] | None = None
        self.programs = Programs(
            task, precision, optimizer, frozen=frozen, xla=self._xla
        )

    # -- the weights --------------------------------------------------------

    def initial_slots(self, params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The slots of the optimizer and of loss scaling before the first step."""
        trained = self.programs.trained(params)
        scales = self._precision == "float16" or self.group.sends_float16
        scaling = precision_lib.first_state() if scales else {}
        return self._optimizer.zero_slots(trained) | scaling

    def load(
        self, params: Mapping[str, np.ndarray], slots: Mapping[str, np.ndarray]
    ) -> None:
        """Copies the weights and slots to every device, replacing what was there.

        Programs that were compiled before can still be used.
        """
        self._last_work = self._upcoming_weights = None
        self._refreshed = False
        # First, since the old functions keep the variables they were traced with alive.
        self._train_step = tf.function(self._replicated_step, autograph=False)
        self._outputs = tf.function(self._replicated_outputs, autograph=False)
        self._replicas.load(params, slots)

    def sharing(self, task: Task) -> Towers:
        """Towers for forward passes of another task that share the weights of these.
        Neither may be trained or loaded again while both are in use.
        """
        # Shallow: forward passes only rebind attributes and change no shared object.
        other = copy.copy(self)
        other.task = task
        other.programs = Programs(
            task, self._precision, self._optimizer, frozen=(), xla=self._xla
        )
        other._outputs = tf.function(other._replicated_outputs, autograph=False)
        return other

    def snapshot(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The (params, slots) of all devices. Raises RunError if the devices differ."""
        self._replicas.check_replicas_equal()
        return self._replicas.snapshot()

    def check_replicas_equal(self) -> None:
        """Raises RunError if weights or slots differ between devices."""
        self._replicas.check_replicas_equal()

    @property
    def compilations(self) -> int:
        """The number of batch shapes traced so far, also with other weights."""
        return self.programs.traces

    # -- training -----------------------------------------------------------

    def place(self, batch: Batch) -> PlacedBatch:
        """Places this process's share of a training batch, arrays [M, b, ...].

        M is a multiple of the number of its towers: each tower runs its micro-batches
        one after the other and needs the memory of one.
        """
        return self.place_for_outputs(batch, self.task)

    def place_for_outputs(self, batch: Batch, task: Task | None = None) -> PlacedBatch:
        """Places a batch for forward passes; task: adds its loss denominators, too."""
        counts = [len(towers) for towers in self._device_towers]
        towers = len(self.own_towers)
        return batches.place(batch, self.devices, counts, towers=towers, task=task)

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

        stop: tells the other processes that this one was asked to stop; upcoming: the
        batch of the next step, if known: its loss denominators are then summed with
        this step's gradients, so that the processes communicate once a step.
        """
        self.group.working(step)
        placed = batch if isinstance(batch, PlacedBatch) else self.place(batch)
        names = tuple(placed.weights)
        later = upcoming.weights if upcoming else dict.fromkeys(names, 0.0)
        with tf.device("CPU:0"):
            weights = self._denominators(placed)
            numbers = tf.constant([step, self.seed], tf.int64)
            scalars = tf.constant([rate, float(stop), *later.values()], tf.float32)
        inputs = StepInputs(
            placed.columns, weights, numbers, losses=names, rows=placed.rows
        )
        self._last_work, self._refreshed = (self._device_sums, inputs), False
        outputs, summed = self._train_step(inputs, scalars)
        self._upcoming_weights = (upcoming, summed) if upcoming else None
        scaling = precision_lib.scaling(self._replicas[0].slots)
        future = self._reader.read_later(outputs)
        overflows = self._precision == "float16"
        return StepResult(future, names, scaling, overflows=overflows)

    def _denominators(self, placed: PlacedBatch) -> tf.Tensor:
        """The loss denominators, summed over all processes, float32 [L]."""
        upcoming = self._upcoming_weights
        if self.group.size > 1 and upcoming and upcoming[0] is placed:
            return upcoming[1]
        return batches.denominators(placed, self.group, self.devices[0])

    def _replicated_step(
        self, inputs: StepInputs, scalars: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        losses, numbers, programs = inputs.losses, inputs.numbers, self.programs
        cast = None if self._xla.passes else self._replicas.specs()
        specs = batches.micro_batch_specs(inputs.columns[0])
        programs.trace_step(
            self._replicas[0], cast, specs, numbers=numbers, losses=losses
        )

        def replica_step() -> tuple[tf.Tensor, tf.Tensor]:
            index = strategies.replica_id()
            return reduction.add_and_update(
                self._device_sums(index, inputs),
                self._replicas[index],
                programs,
                group=self.group,
                inputs=inputs,
                scalars=scalars,
                n_devices=len(self.devices),
            )

        outputs, later = map(self._local_results, self._strategy.run(replica_step))
        return outputs[0], later[0]

    def _device_sums(self, index: int, inputs: StepInputs) -> tf.Tensor:
        """The sums of gradients and losses [n + L] over the towers of one device.

        The loss denominators are those of the global batch, known before any backward
        pass, so that the gradients of towers simply add up.
        """
        replica, batch = self._replicas[index], inputs.columns[index]
        towers = self._device_towers[index]
        count = batch["input_ids"].shape[0]
        first = (self.own_towers.start + towers.start) * (count // len(towers))
        params: Params = replica.params
        if not self._xla.passes:  # compiled micro-batches cast the weights at no cost
            params = precision_lib.cast(as_tensors(params), self._precision)
        scale = replica.loss_scale()

        def micro_batch_sums(number: tf.Tensor) -> tf.Tensor:
            return self.programs.micro_batch(
                inputs.losses,
                params,
                batches.micro_batch(batch, number),
                first_row=(first + number) * inputs.rows,
                numbers=inputs.numbers,
                weights=inputs.weights,
                scale=scale,
            )

        size = self.programs.layout(inputs.losses).size
        return pairwise.sequential_pairwise_sum(micro_batch_sums, count, size)

    # -- forward only -------------------------------------------------------

    def refresh(self) -> None:
        """Prepares the weights for forward passes, if they have changed."""
        if not self._refreshed:
            self._replicas.refresh()
            self._refreshed = True

    def launch_outputs(self, placed: PlacedBatch) -> PendingOutputs:
        """Launches a forward pass over a batch [N, b, ...] of this process's N towers.
        Its outputs [N * b, ...] are read later. Call `refresh` first.
        """
        self.group.working()
        program = self.programs.forward(placed.columns[0])
        self._last_work = partial(self._device_outputs, program), placed.columns
        outputs = self._outputs(program, placed.columns)
        by_device = {name: self._local_results(outputs[name]) for name in outputs}
        return PendingOutputs(self._reader.concat_later(by_device))

    def outputs(self, batch: Batch) -> dict[str, np.ndarray]:
        """The task's outputs for a batch of arrays, with the current weights."""
        self.refresh()
        return self.launch_outputs(self.place_for_outputs(batch)).read()

    def _replicated_outputs(self, program: TracedOnce, columns: Columns) -> Any:
        specs = batches.micro_batch_specs(columns[0])
        program.trace(self._replicas[0].forward_params, specs)
        return self._strategy.run(
            lambda: self._device_outputs(program, strategies.replica_id(), columns)
        )

    def _device_outputs(self, program: TracedOnce, index: int, columns: Columns) -> Any:
        """The outputs of the towers of one device."""
        batch, params = columns[index], self._replicas[index].forward_params

        def tower(number: tf.Tensor) -> dict[str, tf.Tensor]:
            return program(params, batches.micro_batch(batch, number))

        return pairwise.concat_sequentially(tower, len(self._device_towers[index]))

    # -- failures -----------------------------------------------------------

    def find_nonfinite(self, batch: Batch, step: int) -> dict[int, str]:
        """Tower -> where a step on this process's share first becomes non-finite."""
        placed, numbers = self.place(batch), (step, self.seed)
        towers = self.own_towers
        return divergence.search(
            self.programs, self._replicas, placed, towers=towers, numbers=numbers
        )

    def out_of_memory(self, error: Exception) -> str | None:
        """The allocation that failed; None if memory was not the reason."""
        work = self._last_work
        trained = work is not None and work[0] == self._device_sums
        return failures.out_of_memory(error, self.devices, work, trained=trained)
