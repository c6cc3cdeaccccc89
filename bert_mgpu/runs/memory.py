"""The memory that training needs, by part, and what to do if there is too little."""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from bert_mgpu.checkpoints import train_state
from bert_mgpu.core.errors import DoesNotFit, OutOfMemory, memory_advice
from bert_mgpu.distributed import launcher
from bert_mgpu.model import memory as model_memory
from bert_mgpu.runs.run import Run
from bert_mgpu.training import precision, rules


def by_part(
    run: Run, rows: int, length: int, *, targets: float = 0
) -> dict[str, float]:
    """The bytes of a device that training needs beyond TensorFlow's own, by part.

    rows, length: of the widest batch of one tower; targets: masked words per row, on
    average.
    """
    config = run.config
    specs = run.task.param_specs()
    params = {name: np.zeros(shape, np.float32) for name, (shape, _) in specs.items()}
    trained = {name: params[name] for name in params.keys() - set(run.frozen)}
    weights = sum(value.nbytes for value in params.values())
    gradients = sum(value.nbytes for value in trained.values())
    slots = sum(v.nbytes for v in run.optimizer.zero_slots(trained).values())
    batches = config.gradient_accumulation_steps * -(-config.n_gpus // len(run.devices))
    # Stored sums of earlier micro-batches: see `pairwise.sequential_pairwise_sum`.
    partial_sums = (batches - 1).bit_length()
    segments = -(-length // run.segment) if run.segment else 1  # encoder rows
    activations = model_memory.activation_bytes(
        run.model.bert_config,
        rows * segments,
        min(length, run.segment or length),
        recompute=config.recompute,
        precision=config.precision,
        frozen=rules.frozen_layers(trained, run.model.bert_config.num_hidden_layers),
    )
    activations += model_memory.masked_lm_bytes(run.model.bert_config, rows * targets)
    # Once the activations are freed, the gradients exist as single tensors and as one
    # vector. A compiled update overwrites its inputs; 8-bit moments are updated in 32
    # bits.
    update = 0
    if config.xla == "off":
        update = gradients + slots
    if config.slot_bits == "8":
        unpacked = dataclasses.replace(run.optimizer, slot_bits=32).zero_slots(trained)
        update += sum(value.nbytes for value in unpacked.values())
    working = max(activations, gradients, update)
    parts = {
        "weights": weights,
        "slots": slots,
        "gradients": (partial_sums + 1) * gradients,
        "activations and updates": working,
    }
    if config.eval_every:  # weights cast for evaluations are kept
        dtypes = precision.dtypes(specs, config.precision)
        cast = [name for name in specs if dtypes[name] != tf.float32]
        copies = sum(params[name].size * dtypes[name].size for name in cast)
        parts |= {"copies for evaluation": copies} if cast else {}
    if run.compilation.passes and run.devices[0].startswith("CPU"):
        parts["XLA's compiler"] = model_memory.compiler_bytes(
            run.model.bert_config, config.recompute
        )
    return parts


def smaller_parts(run: Run, shortage: str) -> OutOfMemory:
    """The error for a step that did not fit, with flags for smaller micro-batches."""
    config = run.config
    rows, accumulated = config.train_batch_size, config.gradient_accumulation_steps
    if rows == 1:
        advice = memory_advice(True, config.recompute)
        return OutOfMemory(f"{shortage}, with one row at a time: {advice}")
    parts = next(n for n in range(2, rows + 1) if rows % n == 0)
    flags = (
        f"--train_batch_size={rows // parts}"
        f" --gradient_accumulation_steps={accumulated * parts}, the same rows a step"
    )
    saved = bool(train_state.saved_steps(run.output_dir))
    origin = "newest checkpoint" if saved else "start"
    return DoesNotFit(
        f"{shortage}: pass {flags}",
        f"{shortage}: continuing from the {origin} with {flags}",
        parts * launcher.batch_parts(),
    )
