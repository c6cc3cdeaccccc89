"""The state from which a run starts: resumed, initialised or trained."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from bert_mgpu.checkpoints import initial_weights, train_state, vocab_growth
from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.base import RunConfig
from bert_mgpu.core import tensor_names
from bert_mgpu.core.errors import UserError, listed
from bert_mgpu.core.log import fact, say, weights_fact
from bert_mgpu.core.task import Task, TrainState
from bert_mgpu.model import params as params_lib
from bert_mgpu.runs import run_json
from bert_mgpu.runs.identity import check_identity
from bert_mgpu.training import precision

_DEVIATION = 0.02  # of random weights that are not used


def training_state(
    config: RunConfig,
    task: Task,
    model: Pretrained,
    *,
    identity: dict[str, Any],
    output_dir: pathlib.Path,
    initial_slots: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]],
) -> TrainState:
    """The state to train from: the newest in output_dir, else the initial weights.

    model: its vocabulary may be larger than that of --init_checkpoint. initial_slots:
    returns the optimizer's slots before the first step, given the weights.
    """
    saved, specs = train_state.newest(output_dir, say), task.param_specs()
    if saved is None:
        first = params_lib.initialize(
            specs, model.bert_config.initializer_range, config.seed
        )
        params = initial_weights.first_weights(
            specs,
            first,
            config.init_checkpoint,
            say=weights_fact,
            model=model,
            labels=task.labels,
        )
        new = {name for name, value in params.items() if value is first[name]}
        if config.init_checkpoint and not config.freeze:
            for name, warning in task.new_head_warnings.items():
                if name in new:
                    weights_fact(f"WARNING: {warning}")
        if own := task.first_values(params, new):
            weights_fact(f"set from the training rows: {listed(sorted(own))}")
        params |= own
        return TrainState(params, initial_slots(params), 0, identity=identity)
    state, prefix = saved
    check_identity(config, state.identity, identity, output_dir=output_dir)
    params = _checked(state.params, specs, prefix)
    first = initial_slots(params)
    if precision.scaling(state.slots):  # saved by several processes, resumed by one
        first = precision.first_state() | first
    absent = set(first) - set(state.slots) - set(tensor_names.STATE)
    for name in first.keys() & state.slots.keys():
        wanted, slot = first[name], state.slots[name]
        if (wanted.shape, wanted.dtype) != (slot.shape, slot.dtype):
            raise UserError(
                f"{prefix}: {name}: the optimizer expects shape"
                f" {list(wanted.shape)}, {wanted.dtype}; the checkpoint has"
                f" {list(slot.shape)}, {slot.dtype}:"
                " pass the optimizer and --slot_bits that it was trained with"
            )
    fact(
        "resuming",
        f"from {prefix}: step {state.step} with its weights, optimizer and position in"
        " the data",
    )
    if state.identity is None:
        text = "written by other code: its data and settings cannot be compared"
        fact("resuming", text)
    if absent and state.step and config.optimizer != "adamw_google":
        raise UserError(
            f"{prefix} has no slots of --optimizer={config.optimizer}, which counts its"
            " steps: pass the optimizer that it was trained with, or another"
            " --output_dir with this as --init_checkpoint"
        )
    if absent:
        text = f"{len(absent)} optimizer slots are missing and start afresh"
        fact("resuming", text)
    if config.init_checkpoint:
        began = run_json.began_from(output_dir)
        if began in (None, run_json.absolute(config.init_checkpoint)):
            text = "--init_checkpoint was read when the run began, not now"
            fact("resuming", text)
        else:
            fact(
                "resuming",
                f"WARNING: --init_checkpoint={config.init_checkpoint} is not read:"
                f" this run began from {began}; to start from it pass another"
                " --output_dir",
            )
    slots = {name: state.slots.get(name, value) for name, value in first.items()}
    return TrainState(params, slots, state.step, identity=identity)


def _checked(
    params: Mapping[str, np.ndarray], specs: params_lib.Specs, prefix: str
) -> dict[str, np.ndarray]:
    """The weights that the model needs. Raises UserError if any is missing or unfit."""
    for name, (shape, _) in specs.items():
        value = params.get(name)
        if value is None or value.shape != shape or value.dtype != np.float32:
            stored = "no such weight"
            if value is not None:
                stored = f"{list(value.shape)}, {value.dtype}"
            raise UserError(
                f"{prefix}: {name}: expected shape {list(shape)}, the checkpoint"
                f" has {stored}: pass the config and task that it was trained with"
            )
    return {name: params[name] for name in specs}


def trained_state(
    config: RunConfig,
    specs: params_lib.Specs,
    identity: dict[str, Any],
    *,
    output_dir: pathlib.Path,
    unused: Collection[str] = (),
    model: Pretrained | None = None,
) -> TrainState:
    """The trained weights to use: the newest in output_dir, else --init_checkpoint.

    unused: parameters on which no result depends; they may be random. model: its
    vocabulary may be larger than that of --init_checkpoint. Raises UserError
    if the head is not trained, so that its predictions would be random, or if the flags
    name another vocabulary or config than the model was trained with.
    """
    saved = train_state.newest(output_dir, say)
    if saved is not None:
        state, prefix = saved
        check_identity(config, state.identity, identity, output_dir=output_dir)
        weights_fact(f"those of {prefix}")
        params = _checked(state.averaged, specs, prefix)
        return dataclasses.replace(state, params=params, slots={})
    if config.init_checkpoint is None:
        raise UserError(
            f"{output_dir}: no trained model: pass --do_train=true first, or"
            " --init_checkpoint"
        )
    absent = {name: np.full(shape, np.nan, "f") for name, (shape, _) in specs.items()}
    params = initial_weights.first_weights(
        specs, absent, config.init_checkpoint, say=weights_fact, model=model
    )
    missing = [name for name, value in params.items() if np.isnan(value).all()]
    for name in missing:
        if name not in unused:
            raise UserError(
                f"{config.init_checkpoint}: {name} is not trained for this task, so the"
                " results would be random: pass --do_train=true or a fine-tuned model"
            )
    for name in params.keys() & {*vocab_growth.TABLES} - {*missing}:
        params[name] = np.nan_to_num(params[name])  # rows that no token has
    own = {name: specs[name] for name in missing}
    return TrainState(params | params_lib.initialize(own, _DEVIATION, 0), {}, 0)
