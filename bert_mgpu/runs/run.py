"""The parts of a run: its flags, model, task, data and processes."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.base import RunConfig
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Example, Rows
from bert_mgpu.core.task import Task
from bert_mgpu.data.batching import Batching
from bert_mgpu.distributed.topology import Topology
from bert_mgpu.evaluation.forward import ForwardSettings
from bert_mgpu.tasks.base import FinetuningTask
from bert_mgpu.tasks.dataset import TaskDataset
from bert_mgpu.training import rules, schedule
from bert_mgpu.training.optimizers import Optimizer
from bert_mgpu.training.programs import Compilation
from bert_mgpu.training.towers import Towers

_ROWS_ON_GPU = 64  # fewer leave most of a GPU idle
# Batches of a shape after which its program is compiled: by then they have taken about
# as long as XLA takes, and compiled ones take a quarter less (measured on 2 cores).
FREQUENT = 50


class Data(Protocol):
    """The sets of rows of a run."""

    flag: str  # with which a user names the files

    @property
    def task(self) -> Mapping[str, Any]:
        """The task as stored in run.json, as JSON values; empty if there is none."""
        ...

    def load(self, split: str) -> tuple[Rows, str]:
        """(the rows of a set, their fingerprint); logs a description."""
        ...

    def load_training(self) -> tuple[Rows, str]:
        """Like `load`, for the training rows, which may be drawn anew in each epoch."""
        ...

    def check(self, split: str, scored: Any) -> None:
        """Raises UserError if there is nothing to score in the scored rows of a set."""
        ...

    def examples(self, split: str) -> Sequence[Example]:
        """The texts of a set, if it has any."""
        ...


@dataclasses.dataclass(frozen=True)
class Run:
    """The parts of a run, and the settings that follow from them."""

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
        """The names of the parameters that are not trained."""
        config, layers = self.config, self.model.bert_config.num_hidden_layers
        names = [*self.task.param_specs()]
        try:
            asked = rules.frozen(
                names, config.freeze, config.freeze_layers, count=layers
            )
        except ValueError as error:
            raise UserError(str(error)) from None
        # Unused parameters have no gradient: weight decay alone would shrink them.
        frozen = self.task.unused_params | set(asked)
        if frozen.issuperset(names):
            raise UserError(
                "--freeze, --freeze_layers: all parameters that the task uses are"
                " frozen: leave some to train"
            )
        return [name for name in names if name in frozen]

    @property
    def optimizer(self) -> Optimizer:
        config, layers = self.config, self.model.bert_config.num_hidden_layers
        rates = rules.layer_decay(layers, config.layer_lr_decay, config.head_lr_factor)
        try:
            return Optimizer(
                config.optimizer,
                int(config.slot_bits),
                config.ema_decay,
                rates=rates,
                weight_decay=config.weight_decay,
            )
        except ValueError as error:  # the only mistake that the flags allow
            raise UserError(f"--slot_bits={config.slot_bits}: {error}") from None

    @property
    def compilation(self) -> Compilation:
        """What XLA compiles: the update, unless --xla=off, and perhaps passes through
        the model.

        On a CPU, XLA multiplies bfloat16 at half TensorFlow's speed. Rows of a stream
        have many shapes and must not wait until each is compiled: only frequent shapes
        are.
        """
        config = self.config
        slow = config.precision == "bfloat16" and "CPU" in self.devices[0]
        automatic = config.xla == "auto" and not slow
        passes = config.xla == "on" or (automatic and not config.predict_prints)
        after = FREQUENT if automatic and config.predict_prints else None
        return Compilation(passes, config.xla != "off", after)

    @property
    def batch(self) -> int:
        """The number of examples in an optimizer step."""
        config = self.config
        parts = self.topology.n_towers * config.gradient_accumulation_steps
        return config.train_batch_size * parts

    @property
    def batching(self) -> Batching:
        config = self.config
        return Batching(
            padding=config.padding,
            parts=self.topology.n_towers * config.gradient_accumulation_steps,
            rows=config.train_batch_size,
            max_length=config.row_length,
            segment=self.segment,
            seed=config.seed,
            random_numbers=config.random_numbers,
        )

    def forward_settings(
        self, name: str, *, predicting: bool = False
    ) -> ForwardSettings:
        """The settings of forward passes. The default batch is larger on a GPU.

        name: of the passes, in the log and in errors.
        """
        config = self.config
        rows = config.prediction_batch if predicting else config.eval_batch_size
        flags = {"eval_batch_size", *["predict_batch_size"] * predicting}
        if self.devices[0].startswith("GPU") and not flags & config.given:
            rows = max(rows, _ROWS_ON_GPU)
        return ForwardSettings(
            name,
            rows,
            config.row_length,
            precision=config.precision,
            recompute=config.recompute,
            segment=self.segment,
        )

    @property
    def segment(self) -> int | None:
        """The tokens of a segment, if rows may have several segments; else None."""
        config = self.config
        has_several = config.row_length > config.max_seq_length
        return config.max_seq_length if has_several else None

    @property
    def peak_rate(self) -> float:
        """The learning rate at the end of the warm-up."""
        return self.config.learning_rate * self.rate_factor

    @property
    def rate_factor(self) -> float:
        """What --lr_scaling makes of the learning rate."""
        return schedule.rate_factor(self.topology.n_towers, self.config.lr_scaling)

    @property
    def batch_in_words(self) -> str:
        config, accumulated = self.config, self.config.gradient_accumulation_steps
        towers, processes = self.topology.n_towers, self.topology.group.size
        return (
            f"{config.train_batch_size} examples x {towers} tower{'s' * (towers > 1)}"
            + f" of {processes} processes" * (processes > 1)
            + f" x {accumulated} accumulation steps" * (accumulated > 1)
            + f" = {self.batch} per step"
        )


@dataclasses.dataclass(frozen=True)
class FinetuningRun(Run):
    """The parts of a fine-tuning run."""

    config: FinetuneConfig
    task: FinetuningTask
    data: TaskDataset


def make_towers(run: Run) -> Towers:
    config = run.config
    return Towers(
        run.task,
        run.topology.n_towers,
        run.devices,
        seed=config.seed,
        xla=run.compilation,
        precision=config.precision,
        optimizer=run.optimizer,
        frozen=run.frozen,
        group=run.topology.group,
    )


def expect_few_shapes() -> None:
    """Hides TensorFlow's retracing warnings about this package's few batch shapes."""
    logging.getLogger("tensorflow").addFilter(_is_no_retracing)


def _is_no_retracing(record: logging.LogRecord) -> bool:
    """False for TensorFlow's warning that a function of `Towers` is retraced often."""
    message = record.getMessage()
    return not ("tf.function retracing" in message and "Towers._" in message)
