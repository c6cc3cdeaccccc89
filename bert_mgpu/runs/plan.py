"""--plan: the steps, memory and time of a run, and flags to change; trains nothing."""

from __future__ import annotations

import dataclasses
import math
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from bert_mgpu.config.base import RunConfig
from bert_mgpu.core import units
from bert_mgpu.core.errors import memory_advice
from bert_mgpu.core.log import fact
from bert_mgpu.core.task import Batch, TrainState
from bert_mgpu.data import batching, packing, pipeline
from bert_mgpu.distributed import devices
from bert_mgpu.model.config import BertConfig
from bert_mgpu.runs import assessment, memory
from bert_mgpu.runs.run import Run, make_towers
from bert_mgpu.runs.train import start
from bert_mgpu.training import loop
from bert_mgpu.training.towers import Towers

_FILLED = 0.9  # fraction of the memory to plan for, as estimates are not exact
_HIGH_RATE = 1e-4  # google-research/bert trains with 2e-5 to 5e-5
_MANY_TOWERS = 4
_KEPT = 99  # per cent of the rows that a proposed length does not truncate
_LONG = 24 * 3600.0  # seconds on a CPU above which a smaller model is proposed
_SAMPLED_STEPS = 50  # steps that are searched for a batch of the usual size
_PROBES = 3  # steps that are timed, after those that compile


def show(run: Run) -> None:
    """Logs the plan of a training."""
    config = run.config
    rows, data_key = run.data.load_training()
    towers = make_towers(run)
    plan, _, state = start(run, len(rows), data_key, towers=towers)
    orders = batching.training_orders(run.batching, rows)
    fractions = pipeline.padding_fractions(
        orders, rows.lengths, run.batching, steps=plan.steps
    )
    tokens = {
        policy: rows.lengths.mean() * run.batch / (1 - fraction)
        for policy, fraction in fractions.items()
    }
    _show("batch", iter([run.batch_in_words]))
    _show("steps", _steps(run, plan.steps, state.step, rows=len(rows)))
    _show("learning rate", _rate(run, plan, state.step))
    if rows.notes:  # the rows were made from texts by this run
        _show("max_seq_length", _length(run, rows.notes))
    _show("padding", _padding(config.padding, fractions, tokens))
    _show("parameters", _parameters(run))
    order, mean_tokens = orders[config.padding], tokens[config.padding]
    widest = order.widest()
    count = widest.numbers.shape[1]
    targets = widest.most_real_targets / count
    _show("memory", _memory(run, count, widest.length, targets=targets))
    usual = min(
        map(order.placement, range(min(_SAMPLED_STEPS, plan.steps))),
        key=lambda placement: abs(_tokens(placement) - mean_tokens),
    )
    batches = [pipeline.collate(rows, placement) for placement in (widest, usual)]
    _show(
        "time",
        _time(
            run,
            towers,
            batches,
            steps=max(0, plan.steps - state.step),
            ratio=mean_tokens / _tokens(usual),
            shapes=order.compilations,
        ),
    )
    _show("disk", _disk(config, state, plan.steps))
    _show("devices", _devices(run))


def _tokens(placement: packing.Placement) -> int:
    towers, rows, _ = placement.numbers.shape
    return towers * rows * placement.length


def _show(name: str, lines: Iterator[str]) -> None:
    for line in lines:
        fact(name, line)


def _steps(run: Run, steps: int, done: int, *, rows: int) -> Iterator[str]:
    count = round(steps * run.batch / rows, 1)
    epochs = f"{count:g} epoch{'s' * (count != 1)}"
    yield f"{steps}: {rows} rows, {epochs}" + f"; {done} are done" * (done > 0)
    if run.config.eval_every:
        every = run.config.eval_every
        evaluations = -(-steps // every) - done // every if done < steps else 0
        yield f"{units.counted(evaluations, 'evaluation')}, not in the time below"
    if done:
        yield "(the changes below would be another run, in another --output_dir)"


def _rate(run: Run, plan: loop.TrainingPlan, done: int) -> Iterator[str]:
    config = run.config
    yield plan.rate_in_words
    yield from (warnings := assessment.rate_warnings(run, plan, done))
    high = plan.peak_rate > _HIGH_RATE and config.optimizer.startswith("adamw")
    if high and assessment.trains_encoder(run) and not warnings:
        yield f"WARNING: above {_HIGH_RATE:g} BERT often diverges; usual: 2e-5 to 5e-5"
    towers, accumulated = config.n_gpus, config.gradient_accumulation_steps
    parts = units.counted(towers, "tower")
    parts += f" x {accumulated} accumulation steps" * (accumulated > 1)
    factor, scaling = towers * accumulated, config.lr_scaling
    if factor >= _MANY_TOWERS and scaling == "none":
        yield (
            f"WARNING: {parts} make {factor} times the batch at the same rate: lower"
            " --train_batch_size, or train more epochs, if accuracy falls"
        )
    elif towers > 1 and scaling != "none" and config.optimizer == "adamw_google":
        yield (
            f"WARNING: --lr_scaling={scaling} loses more accuracy than it gains, with"
            " this optimizer: lower --train_batch_size instead"
        )


def _length(run: Run, notes: dict[str, Any]) -> Iterator[str]:
    config, truncated = run.config, notes["truncated"] / notes["rows"]
    yield f"{config.length_in_words}: {truncated:.1%} of the rows are truncated"
    most = run.model.bert_config.longest
    needed = int(notes["length_percentiles"][str(_KEPT)])
    proposed = int(packing.rounded(needed))
    if run.segment:
        yield f"{_KEPT} % of the rows have up to {needed} tokens"
    elif proposed > most:
        lengths = f"{_KEPT} % of the rows have up to {needed} tokens"
        yield f"{lengths}, the model takes {most}"
        if notes.get("truncation", True):
            yield "--truncation=head_tail keeps both ends of a text"
    elif proposed != config.max_seq_length:
        yield f"--max_seq_length={proposed} keeps {_KEPT} % of the rows untruncated"


def _padding(
    chosen: str, fractions: dict[str, float], tokens: dict[str, float]
) -> Iterator[str]:
    yield ", ".join(f"{name} {fraction:.0%}" for name, fraction in fractions.items())
    best = min(tokens, key=lambda name: tokens[name])
    saved = 1 - tokens[best] / tokens[chosen]
    if saved > 0.1:
        yield f"--padding={best} saves {saved:.0%} of the tokens of {chosen}"


def _disk(config: RunConfig, state: TrainState, steps: int) -> Iterator[str]:
    size = sum(v.nbytes for v in [*state.params.values(), *state.slots.values()])
    saved = -(-steps // config.save_checkpoints_steps)
    kept = min(saved, config.keep_checkpoint_max or saved)
    most = units.size_text((kept + 1) * size)
    best = units.size_text(sum(v.nbytes for v in state.params.values()))
    held = f"{most} for {kept} and one being written"
    beside = f"; best/ {best}" if config.eval_every else ""
    yield f"{units.size_text(size)} a checkpoint, {held}{beside}"


def _parameters(run: Run) -> Iterator[str]:
    sizes = {n: math.prod(shape) for n, (shape, _) in run.task.param_specs().items()}
    trained = sum(sizes[name] for name in sizes.keys() - set(run.frozen))
    yield f"{sum(sizes.values()):,} values, {trained:,} of them trained"


def _memory(run: Run, rows: int, length: int, *, targets: float = 0) -> Iterator[str]:
    config, parts = run.config, memory.by_part(run, rows, length, targets=targets)
    free = devices.free_memory(run.devices)  # beyond what the towers already take
    total = math.inf if free is None else parts["weights"] + parts["slots"] + free
    of_total = "" if free is None else f", of {units.size_text(total)}"
    yield f"about {units.size_text(sum(parts.values()))} a device{of_total}:"
    yield ", ".join(f"{name} {units.size_text(size)}" for name, size in parts.items())
    if free is None:
        return
    tower_rows = config.train_batch_size * config.gradient_accumulation_steps
    # The largest micro-batch that gives the same steps and fits.
    for batch in (n for n in range(tower_rows, 0, -1) if tower_rows % n == 0):
        accumulated = tower_rows // batch
        changed = dataclasses.replace(
            config, train_batch_size=batch, gradient_accumulation_steps=accumulated
        )
        needed = memory.by_part(
            dataclasses.replace(run, config=changed),
            -(-rows * batch // config.train_batch_size),
            length,
            targets=targets,
        )
        if sum(needed.values()) <= _FILLED * total:
            break
    else:
        advice = memory_advice(True, config.recompute)
        yield f"WARNING: one row at a time is too much: {advice}"
        return
    flags = f"--train_batch_size={batch} --gradient_accumulation_steps={accumulated}"
    if batch < config.train_batch_size:
        yield f"WARNING: too much: {flags} would fit, for the same steps"
    elif batch > config.train_batch_size:
        yield f"{flags} fits too: the same steps in fewer micro-batches"


def _time(
    run: Run,
    towers: Towers,
    batches: Sequence[Batch],
    *,
    steps: int,
    ratio: float,
    shapes: int,
) -> Iterator[str]:
    """The time of this many steps, estimated from a few that are measured.

    ratio: tokens of a mean step over those of the last batch; shapes: the number of
    batch shapes, for each of which a step is compiled.
    """
    try:
        first, step = _probe(towers, batches)
    except Exception as error:
        if not (shortage := towers.out_of_memory(error)):
            raise
        yield f"a step does not fit: {shortage}"
        yield "training would start again with smaller micro-batches until one fits,"
        yield "for the same steps: see also --recompute=block"
        return
    seconds = step * ratio * steps
    about = units.duration_text(seconds)
    yield f"about {about} for {steps} steps of {step * ratio:.2f} s,"
    each = f" for each of {shapes} shapes of batches" * (shapes > 1)
    compiles = run.compilation.passes
    what = f"of compilation{each}" if compiles else "for the first one"
    yield f"after {first[0]:.0f} s {what}"
    if compiles and (count := len(towers.devices)) > 1:
        yield (
            f"(each of {count} devices compiles for itself: {first[1]:.0f} s of"
            " processor time in all)"
        )
    measured = f"measured over {_PROBES} steps, after one with the widest batch"
    yield f"({measured}; {_peak(run)})"
    if seconds > _LONG and run.devices[0].startswith("CPU"):
        bert_config, length = run.model.bert_config, run.config.max_seq_length
        length = min(length, batches[-1]["input_ids"].shape[2])
        layers, half = bert_config.num_hidden_layers, bert_config.num_hidden_layers // 2
        if half and run.task.unused_params.issuperset(run.frozen):
            # A backward pass takes twice the time of a forward pass.
            ratio = (layers + 2 * (layers - half)) / (3 * layers)
            freezing = f"--freeze_layers=embeddings,0-{half - 1}"
            yield f"{freezing}: about {ratio:.0%} of that"
        small = dataclasses.replace(
            bert_config, num_hidden_layers=4, hidden_size=256, intermediate_size=1024
        )
        ratio = _products(small, length) / _products(bert_config, length)
        if ratio < 1:
            yield f"a model of 4 layers x 256: about {ratio:.0%} of that"


def _probe(
    towers: Towers, batches: Sequence[Batch]
) -> tuple[tuple[float, float], float]:
    """((wall, CPU) seconds of the first step; median seconds with the last batch)."""
    times = []
    for step, batch in enumerate([*batches, *[batches[-1]] * _PROBES]):
        began = time.perf_counter(), time.process_time()
        float(towers.train_step(batch, step, 1e-6).norm)
        seconds = time.perf_counter() - began[0]
        times.append((seconds, time.process_time() - began[1]))
    return times[0], statistics.median(seconds for seconds, _ in times[-_PROBES:])


def _products(bert_config: BertConfig, length: int) -> float:
    """The number of multiplications per token, up to a constant factor."""
    width, inner = bert_config.hidden_size, bert_config.intermediate_size
    dense = 4 * width * width + 2 * width * inner
    return bert_config.num_hidden_layers * (dense + 2 * length * width)


def _devices(run: Run) -> Iterator[str]:
    config, count = run.config, len(run.devices)
    if run.devices[0].startswith("GPU"):
        many = f"{count} GPUs are visible: --n_gpus={count} uses all of them"
        fit = f"{count} GPUs for {config.n_gpus} towers"
        yield many if count > config.n_gpus else fit
        return
    yield f"CPU, {len(os.sched_getaffinity(0))} threads"
    if config.n_gpus > 1:
        yield f"{config.n_gpus} towers on one CPU run one after the other:"
        yield "they change the batch, not the speed"


def _peak(run: Run) -> str:
    if run.devices[0].startswith("GPU"):
        peak = tf.config.experimental.get_memory_info(run.devices[0])["peak"]
        return f"peak memory of the device {units.size_text(peak)}"
    peak = devices.peak_memory()
    return f"peak memory of the process, with TensorFlow, {units.size_text(peak)}"
