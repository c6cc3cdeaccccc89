"""The memory that a training needs, by part."""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from bert_mgpu.model import memory as model_memory
from bert_mgpu.runs.run import Run
from bert_mgpu.training import precision, rules


def by_part(run: Run, rows: int, length: int, *, targets: int = 0) -> dict[str, float]:
    """Bytes that a device needs above those of TensorFlow itself, by part.

    rows, length: of the widest batch of one tower; targets: masked words of a row.
    """
    config = run.config
    specs = run.task.param_specs()
    params = {name: np.zeros(shape, np.float32) for name, (shape, _) in specs.items()}
    trained = {name: params[name] for name in params.keys() - set(run.frozen)}
    weights = sum(value.nbytes for value in params.values())
    gradients = sum(value.nbytes for value in trained.values())
    slots = sum(v.nbytes for v in run.optimizer.zero_slots(trained).values())
    turns = config.gradient_accumulation_steps * -(-config.n_gpus // len(run.devices))
    held = (turns - 1).bit_length()  # sums of earlier turns, see turns.sum_in_turn
    activations = model_memory.activations(
        run.model.bert_config,
        rows,
        length,
        recompute=config.recompute,
        precision=config.precision,
        frozen=rules.frozen_layers(trained, run.model.bert_config.num_hidden_layers),
    )
    activations += model_memory.words(run.model.bert_config, rows * targets)
    # Gradients one by one, then as one vector, when the activations are gone. The
    # update writes over what it reads, unless it is not compiled, and works moments of
    # 8 bits out in 32.
    update = 0
    if config.xla == "off":
        update = gradients + slots
    if config.slot_bits == "8":
        whole = dataclasses.replace(run.optimizer, slot_bits=32).zero_slots(trained)
        update += sum(value.nbytes for value in whole.values())
    working = max(activations, gradients, update)
    parts = {
        "weights": weights,
        "slots": slots,
        "gradients": (held + 1) * gradients,
        "activations and updates": working,
    }
    if config.eval_every:  # what forward passes read, kept from the first one on
        low = precision.dtypes(specs, config.precision)
        cast = [name for name in specs if low[name] != tf.float32]
        copies = sum(params[name].size * low[name].size for name in cast)
        parts |= {"copies for evaluation": copies} if cast else {}
    if run.compiles and run.devices[0].startswith("CPU"):
        parts["XLA's compiler"] = model_memory.compiler(
            run.model.bert_config, config.recompute
        )
    return parts
