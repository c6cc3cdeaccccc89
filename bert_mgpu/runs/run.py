"""What a run works with: its flags, model, task, data and processes."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.base import RunConfig
from bert_mgpu.core import text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Example, Outputs, Rows
from bert_mgpu.core.task import Task
from bert_mgpu.data.padding import Batching
from bert_mgpu.distributed.topology import Topology
from bert_mgpu.training import rules
from bert_mgpu.training.optimizers import Optimizer
from bert_mgpu.training.towers import Towers


class Data(Protocol):
    """The sets of rows of a run."""

    flag: str  # where a user says which files

    def load(self, split: str) -> tuple[Rows, str]:
        """(rows, a fingerprint of them) of train, dev or test, told in the log."""
        ...

    def check(self, split: str, outputs: Outputs) -> None:
        """Raises UserError where there is nothing in outputs of a set to measure."""
        ...

    def examples(self, split: str) -> Sequence[Example]:
        """The texts of a set, where it has any."""
        ...


class Run(NamedTuple):
    """What a run works with, once all of it is found."""

    config: RunConfig
    model: Pretrained
    task: Task
    data: Data
    topology: Topology
    output_dir: pathlib.Path

    @property
    def devices(self) -> list[str]:
        return self.topology.devices

    @property
    def frozen(self) -> list[str]:
        """The parameters that are not trained."""
        config, layers = self.config, self.model.bert_config.num_hidden_layers
        names = [*self.task.param_specs()]
        try:
            asked = rules.frozen(
                names, config.freeze, config.freeze_layers, count=layers
            )
        except ValueError as error:
            raise UserError(str(error)) from None
        # Weight decay would wear down what no gradient holds up.
        return [name for name in names if name in self.task.unused or name in asked]

    @property
    def optimizer(self) -> Optimizer:
        config, layers = self.config, self.model.bert_config.num_hidden_layers
        rates = rules.layer_decay(layers, config.layer_lr_decay)
        try:
            kind = config.optimizer, int(config.slot_bits), config.ema_decay
            return Optimizer(*kind, rates, config.weight_decay)
        except ValueError as error:  # of what the flags allow, only this can be wrong
            raise UserError(f"--slot_bits={config.slot_bits}: {error}") from None

    @property
    def compiles(self) -> bool:
        """Are passes through the model compiled? The update is, but for --xla=off.

        XLA makes products of bfloat16 at half the speed of TensorFlow on a CPU. Rows
        that come one by one have many shapes, and wait for none of them.
        """
        if self.config.xla == "auto":
            slow = self.config.precision == "bfloat16" and "CPU" in self.devices[0]
            return not (slow or self.config.predict_file == text_files.STANDARD_INPUT)
        return self.config.xla == "on"

    @property
    def batch(self) -> int:
        """Examples of an optimizer step."""
        config = self.config
        turns = config.gradient_accumulation_steps
        return config.train_batch_size * self.topology.n_towers * turns

    @property
    def batching(self) -> Batching:
        config = self.config
        return Batching(
            padding=config.padding,
            parts=self.topology.n_towers * config.gradient_accumulation_steps,
            rows=config.train_batch_size,
            max_length=config.max_seq_length,
            seed=config.seed,
            random_numbers=config.random_numbers,
        )

    @property
    def batch_in_words(self) -> str:
        config, turns = self.config, self.config.gradient_accumulation_steps
        towers, processes = self.topology.n_towers, self.topology.group.size
        return (
            f"{config.train_batch_size} rows x {towers} tower{'s' * (towers > 1)}"
            + f" of {processes} processes" * (processes > 1)
            + f" x {turns} accumulation steps" * (turns > 1)
            + f" = {self.batch} examples a step"
        )


def make_towers(run: Run) -> Towers:
    config = run.config
    return Towers(
        run.task,
        run.topology.n_towers,
        run.devices,
        seed=config.seed,
        xla=run.compiles,
        precision=config.precision,
        optimizer=run.optimizer,
        frozen=run.frozen,
        xla_update=config.xla != "off",
        group=run.topology.group,
    )
