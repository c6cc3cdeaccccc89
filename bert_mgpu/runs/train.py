"""The training part of a run: what is trained, on which batches, from which state."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bert_mgpu.checkpoints import train_state
from bert_mgpu.core.errors import DoesNotFit, OutOfMemory, UserError, listed, smaller
from bert_mgpu.core.log import say
from bert_mgpu.core.rows import Rows
from bert_mgpu.core.task import TrainState
from bert_mgpu.data import padding, pipeline
from bert_mgpu.distributed import collective, launcher
from bert_mgpu.distributed.collective import Horovod
from bert_mgpu.evaluation.evaluator import Evaluator, best_folder
from bert_mgpu.runs import identity as identity_lib
from bert_mgpu.runs import init_distributed, resume
from bert_mgpu.runs.run import Job, make_towers
from bert_mgpu.training import loop, schedule
from bert_mgpu.training.batches import Placed
from bert_mgpu.training.recorder import Recorder, Silence
from bert_mgpu.training.towers import Towers


class Start(NamedTuple):
    """What a training starts from, and what it will do."""

    plan: loop.Plan
    identity: dict[str, Any]  # of the run
    state: TrainState


def trained(
    job: Job,
    evaluator: Evaluator | None = None,
    use_best: bool = False,
    towers: Towers | None = None,
) -> tuple[TrainState, Towers]:
    """The model as this run trains it, else as it was trained before.

    evaluator: looks at it on the way; use_best: then with the weights it found best;
    towers: to be used again, of a run that differs in its seed alone.
    """
    if job.run.do_train:
        towers = towers or make_towers(job)
        towers.seed = job.run.seed
        state = train(job, towers, evaluator)
        if not use_best:
            return state, towers
        del state  # its memory is needed
    return _saved(job, towers, use_best)


def _saved(
    job: Job, towers: Towers | None, use_best: bool
) -> tuple[TrainState, Towers]:
    specs = job.task.param_specs()
    identity = identity_lib.model_identity(job.model, job.task)
    collective.agree(job.world.group, identity)

    def find() -> TrainState:  # in the first process, which alone has to see them
        folder = best_folder(job.output_dir) if use_best else job.output_dir
        return resume.trained_state(job.run, specs, identity, folder)

    state = init_distributed.shared_state(job.world.group, find)
    towers = towers or make_towers(job)
    towers.load(state.params, {})
    return state, towers


def train(job: Job, towers: Towers, evaluator: Evaluator | None = None) -> TrainState:
    """Trains. Raises DoesNotFit where a step needs more memory than there is."""
    specs = job.task.param_specs()
    frozen, _ = job.frozen, job.optimizer  # mistakes are said before time is spent
    rows, data_key = job.data.load("train")
    say(f"effective batch: {job.batch_in_words}")
    if len(frozen) > len(job.task.unused):
        trained = sum(math.prod(specs[name][0]) for name in specs.keys() - frozen)
        say(f"{len(frozen)} of {len(specs)} parameters are frozen: {listed(frozen)}")
        say(f"  {trained} values are trained; run.json lists what is frozen")
    return _train(job, rows, data_key, towers, evaluator)


def _smaller_parts(job: Job, lacking: str) -> OutOfMemory:
    """The error of a step that did not fit: with what the same steps may."""
    run = job.run
    rows, turns = run.train_batch_size, run.gradient_accumulation_steps
    if rows == 1:
        advice = smaller(True, run.recompute)
        return OutOfMemory(f"{lacking}, with one row at a time: {advice}")
    parts = next(n for n in range(2, rows + 1) if rows % n == 0)
    flags = (
        f"--train_batch_size={rows // parts}"
        f" --gradient_accumulation_steps={turns * parts}, the same rows a step"
    )
    begun = bool(train_state.saved_steps(job.output_dir))
    where = "newest checkpoint" if begun else "start"
    return DoesNotFit(
        f"{lacking}: pass {flags}",
        f"{lacking}: going on from the {where} with {flags}",
        parts * launcher.parts(),
    )


def start(job: Job, rows: int, data_key: str, towers: Towers) -> Start:
    """Puts the weights to start from on the towers: of output_dir, else the first.

    Raises UserError where output_dir holds a run that this one cannot go on with.
    """
    plan = _plan(job, rows)
    identity = identity_lib.identity(
        *(job.run, job.model, job.task, {job.data.flag: data_key}, job.batch),
        plan.peak_rate,
    )
    collective.agree(job.world.group, identity)
    state = init_distributed.shared_state(
        job.world.group,
        lambda: resume.training_state(
            job.run,
            job.task.param_specs(),
            job.model,
            identity,
            job.output_dir,
            towers.first_slots,
            job.task.labels,
        ),
    )
    towers.load(state.params, state.slots)
    if job.world.group.size > 1:
        loaded = TrainState(*towers.snapshot(), state.step)
        collective.check_same(loaded, job.world.group)
    return Start(plan, identity, state)


def _train(
    job: Job, rows: Rows, data_key: str, towers: Towers, evaluator: Evaluator | None
) -> TrainState:
    run, model, labels = job.run, job.model, list(job.task.labels)
    plan, identity, state = start(job, len(rows), data_key, towers)
    if evaluator:
        evaluator.begin(state.step, identity)
        if evaluator.missed(state.step, plan.steps):
            evaluator.after(state.step, towers)
    if state.step >= plan.steps:
        say(f"nothing left to train: step {state.step} of {plan.steps} is done")
        return state
    if evaluator and (why := evaluator.stops):
        say(f"nothing left to train: {why}")
        return state
    tried = padding.orders_of(job.batching, rows)
    shares = padding.shares(tried, rows.lengths, job.batching, plan.steps)
    texts = [f"{policy} {share:.0%}" for policy, share in shares.items()]
    say(f"tokens that are padding: {', '.join(texts)}; chosen: --padding={run.padding}")
    order = tried[run.padding]
    group = job.world.group
    if group.rank == 0:
        resume.write_run_files(run, model, labels, job.frozen, identity, job.output_dir)
    say(
        f"training: steps {state.step + 1} to {plan.steps}, learning rate"
        f" {plan.peak_rate:g} after a warm-up until step {plan.warmup}; seed {run.seed}"
    )
    if plan.warmup >= plan.steps:
        say("  WARNING: the warm-up does not end: lower --num_warmup_steps")

    def batches() -> Iterator[Placed]:
        for step in itertools.count(state.step):
            share = order.placement(step).share(towers.own, towers.n_towers)
            yield towers.place(pipeline.collate(rows, share))

    def save(state: TrainState) -> None:
        train_state.save(job.output_dir, state, run.keep_checkpoint_max)

    def look(step: int, stopping: Callable[[], bool]) -> bool:
        assert evaluator
        return evaluator.after(step, towers, stopping)

    evaluate = look if evaluator else None
    with pipeline.ahead(batches()) as made, _recorder(job, state, plan) as recorder:
        # The devices hold the weights now: the host's copies can go.
        state = dataclasses.replace(state, params={}, slots={})
        try:
            state = loop.train(towers, state, plan, made, save, recorder, evaluate)
        except Exception as error:
            if lacking := towers.out_of_memory(error):
                raise _smaller_parts(job, lacking) from None
            raise
    say(f"saved: {train_state.stem(state.step)} in {job.output_dir}")
    return state


def _recorder(
    job: Job, state: TrainState, plan: loop.Plan
) -> contextlib.AbstractContextManager[loop.Recorder]:
    group, run = job.world.group, job.run
    if group.rank > 0:
        return contextlib.nullcontext(Silence())
    sent = 0
    if isinstance(group, Horovod):
        specs = job.task.param_specs()
        trained = specs.keys() - set(job.frozen)
        sent = group.bytes_sent(sum(math.prod(specs[name][0]) for name in trained))
    places = job.output_dir, state.step, plan.steps
    return Recorder(*places, job.batch, run.log_steps, sent)


def _plan(job: Job, rows: int) -> loop.Plan:
    run, batch = job.run, job.batch
    steps = run.steps_of(rows, batch)
    if steps < 1:
        epochs = getattr(run, "num_train_epochs", 1.0)
        raise UserError(
            f"{rows} rows x {epochs:g} epochs are less than one batch of {batch}: lower"
            " --train_batch_size or --n_gpus, or raise --num_train_epochs"
        )
    return loop.Plan(
        steps=steps,
        warmup=run.warmup_of(steps),
        decay_power=run.lr_decay_power,
        peak_rate=schedule.scaled_rate(
            run.learning_rate, job.world.towers, run.lr_scaling
        ),
        save_every=run.save_checkpoints_steps,
        eval_every=run.eval_every,
        read_every=run.log_steps,
    )
