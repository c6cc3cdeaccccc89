"""What a run works with: its flags, model, task, data and processes."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from bert_mgpu.checkpoints.pretrained import Model
from bert_mgpu.config.base import RunConfig
from bert_mgpu.core import text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Rows
from bert_mgpu.core.task import Task
from bert_mgpu.data.padding import Batching
from bert_mgpu.distributed.topology import World
from bert_mgpu.training import rules
from bert_mgpu.training.optimizers import Optimizer
from bert_mgpu.training.towers import Towers


class Data(Protocol):
    """The sets of rows of a run."""

    flag: str  # where a user says which files

    def load(self, split: str) -> tuple[Rows, str]:
        """(rows, a fingerprint of them) of train, dev or test, told in the log."""
        ...

    def check(self, split: str, outputs: Mapping[str, np.ndarray]) -> None:
        """Raises UserError where there is nothing in outputs of a set to measure."""
        ...


class Job(NamedTuple):
    """What a run works with, once all of it is found."""

    run: RunConfig
    model: Model
    task: Task
    data: Data
    world: World
    output_dir: pathlib.Path

    @property
    def devices(self) -> list[str]:
        return self.world.devices

    @property
    def frozen(self) -> list[str]:
        """The parameters that are not trained."""
        run, layers = self.run, self.model.config.num_hidden_layers
        names = [*self.task.param_specs()]
        try:
            asked = rules.frozen(names, run.freeze, run.freeze_layers, layers)
        except ValueError as error:
            raise UserError(str(error)) from None
        # Weight decay would wear down what no gradient holds up.
        return [name for name in names if name in self.task.unused or name in asked]

    @property
    def optimizer(self) -> Optimizer:
        run, layers = self.run, self.model.config.num_hidden_layers
        rates = rules.layer_decay(layers, run.layer_lr_decay)
        try:
            kind = run.optimizer, int(run.slot_bits), run.ema_decay
            return Optimizer(*kind, rates, run.weight_decay)
        except ValueError as error:  # of what the flags allow, only this can be wrong
            raise UserError(f"--slot_bits={run.slot_bits}: {error}") from None

    @property
    def compiles(self) -> bool:
        """Are passes through the model compiled? The update is, but for --xla=off.

        XLA makes products of bfloat16 at half the speed of TensorFlow on a CPU. Rows
        that come one by one have many shapes, and wait for none of them.
        """
        if self.run.xla == "auto":
            slow = self.run.precision == "bfloat16" and "CPU" in self.devices[0]
            return not (slow or self.run.predict_file == text_files.STANDARD_INPUT)
        return self.run.xla == "on"

    @property
    def batch(self) -> int:
        """Examples of an optimizer step."""
        run = self.run
        turns = run.gradient_accumulation_steps
        return run.train_batch_size * self.world.towers * turns

    @property
    def batching(self) -> Batching:
        run = self.run
        return Batching(
            padding=run.padding,
            parts=self.world.towers * run.gradient_accumulation_steps,
            rows=run.train_batch_size,
            max_length=run.max_seq_length,
            seed=run.seed,
            random_numbers=run.random_numbers,
        )

    @property
    def batch_in_words(self) -> str:
        run, turns = self.run, self.run.gradient_accumulation_steps
        towers, processes = self.world.towers, self.world.group.size
        return (
            f"{run.train_batch_size} rows x {towers} tower{'s' * (towers > 1)}"
            + f" of {processes} processes" * (processes > 1)
            + f" x {turns} accumulation steps" * (turns > 1)
            + f" = {self.batch} examples a step"
        )


def make_towers(job: Job) -> Towers:
    run = job.run
    return Towers(
        *(job.task, job.world.towers, job.devices, run.seed, job.compiles),
        *(run.precision, job.optimizer, job.frozen),
        xla_update=run.xla != "off",
        group=job.world.group,
    )
