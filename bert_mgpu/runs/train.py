"""The training of a run: its plan, start and batches, and running out of memory."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bert_mgpu.checkpoints import train_state
from bert_mgpu.core.errors import DivergedStep, UserError, listed
from bert_mgpu.core.log import fact, say
from bert_mgpu.core.rows import Rows
from bert_mgpu.core.task import TrainState
from bert_mgpu.data import batching, pipeline
from bert_mgpu.distributed import collective
from bert_mgpu.distributed.collective import Horovod
from bert_mgpu.evaluation.evaluator import Evaluator, best_folder
from bert_mgpu.runs import (
    assessment,
    init_distributed,
    leftovers,
    memory,
    resume,
    rollbacks,
    run_json,
)
from bert_mgpu.runs import identity as identity_lib
from bert_mgpu.runs.run import Run, make_towers
from bert_mgpu.training import loop, rules
from bert_mgpu.training.batches import PlacedBatch
from bert_mgpu.training.events import Events
from bert_mgpu.training.recorder import NullRecorder, Recorder
from bert_mgpu.training.towers import Towers


class Start(NamedTuple):
    """The plan of a training, and the state from which it starts."""

    plan: loop.TrainingPlan
    identity: dict[str, Any]  # of the run
    state: TrainState


def train_or_load(
    run: Run,
    evaluator: Evaluator | None = None,
    use_best: bool = False,
    *,
    towers: Towers | None = None,
) -> tuple[TrainState, Towers]:
    """The model, trained by this run or, without --do_train, loaded.

    evaluator: evaluates the model during training; use_best: take the best weights that
    it found, not the last ones; towers: of a run with another seed, to be reused.
    """
    if run.config.do_train:
        towers = towers or make_towers(run)
        towers.seed = run.config.seed
        state = train(run, towers, evaluator)
        if not use_best:
            return state, towers
        del state  # its memory is needed by the weights to load
    return _load(run, towers, use_best)


def _load(run: Run, towers: Towers | None, use_best: bool) -> tuple[TrainState, Towers]:
    specs = run.task.param_specs()
    identity = identity_lib.model_identity(run.model, run.task)
    collective.check_equal(run.topology.group, identity)

    def find() -> TrainState:  # called only in the first process
        folder = best_folder(run.output_dir) if use_best else run.output_dir
        unused, model = run.task.unused_params, run.model
        return resume.trained_state(
            run.config, specs, identity, output_dir=folder, unused=unused, model=model
        )

    state = init_distributed.shared_state(run.topology.group, find)
    towers = towers or make_towers(run)
    towers.load(state.params, {})
    return state, towers


def train(run: Run, towers: Towers, evaluator: Evaluator | None = None) -> TrainState:
    """Trains the model. Raises DoesNotFit if a step does not fit in memory."""
    config, specs = run.config, run.task.param_specs()
    frozen, _ = run.frozen, run.optimizer  # mistakes are reported before time is spent
    rows, data_key = run.data.load_training()
    fact("batch", run.batch_in_words)
    if len(frozen) > len(run.task.unused_params):
        trained = sum(math.prod(specs[name][0]) for name in specs.keys() - frozen)
        layers = run.model.bert_config.num_hidden_layers
        parts = listed(rules.frozen_in_words(frozen, specs, layers))
        fact("frozen", f"{parts} ({len(frozen)} of {len(specs)} parameters)")
        fact("frozen", f"{trained} values are trained; run.json lists what is frozen")
    with Events(run.output_dir) as events:
        while True:
            try:
                return _train(
                    run,
                    rows,
                    data_key,
                    towers=towers,
                    evaluator=evaluator,
                    events=events,
                )
            except DivergedStep as error:
                found = rollbacks.located(error, run, rows, towers=towers)
                own = _identity(run, data_key)
                rollbacks.roll_back(found, run, identity_lib.fingerprint(config, own))


def start(run: Run, rows: int, data_key: str, *, towers: Towers) -> Start:
    """Loads the weights to start from into the towers: from output_dir, else new ones.

    Raises UserError if output_dir holds a run that this one cannot continue.
    """
    identity = _identity(run, data_key)
    plan = _plan(run, rows, identity)
    collective.check_equal(run.topology.group, identity)
    state = init_distributed.shared_state(
        run.topology.group,
        lambda: resume.training_state(
            run.config,
            run.task,
            run.model,
            identity=identity,
            output_dir=run.output_dir,
            initial_slots=towers.initial_slots,
        ),
    )
    towers.load(state.params, state.slots)
    if run.topology.group.size > 1:
        loaded = TrainState(*towers.snapshot(), state.step)
        collective.check_same_state(loaded, run.topology.group)
    return Start(plan, identity, state)


def _train(
    run: Run,
    rows: Rows,
    data_key: str,
    *,
    towers: Towers,
    evaluator: Evaluator | None,
    events: Events,
) -> TrainState:
    config, group = run.config, run.topology.group
    plan, identity, state = start(run, len(rows), data_key, towers=towers)
    leftovers.drop(run, identity)
    if evaluator:
        own = identity_lib.without_defaults(config, identity)
        evaluator.begin(state.step, identity, own, events=events)
        if evaluator.missed(state.step, plan.steps):
            evaluator.evaluate_after(state.step, towers)
    if plan.steps == state.step == 0:
        return _untrained(run, state, identity)
    if state.step >= plan.steps:
        say(f"nothing left to train: step {state.step} of {plan.steps} is done")
        return state
    if evaluator and (why := evaluator.stop_reason):
        say(f"nothing left to train: {why}")
        return state
    orders = batching.training_orders(run.batching, rows)
    fractions = pipeline.padding_fractions(
        orders, rows.lengths, run.batching, steps=plan.steps
    )
    texts = ", ".join(f"{policy} {value:.0%}" for policy, value in fractions.items())
    fact("padding", f"{config.padding}; padding's share of tokens: {texts}")
    order = orders[config.padding]
    if group.rank == 0:
        run_json.write(run, identity, rolled_back=bool(plan.halvings))
    fact(
        "training",
        f"steps {state.step + 1} to {plan.steps}, learning rate {plan.rate_in_words};"
        f" seed {config.seed}",
    )
    for warning in assessment.rate_warnings(run, plan, state.step):
        fact("training", warning)

    if run.compilation.passes and not towers.programs.micro_batch.count:
        fact("compiling", "the first step takes from ten seconds to two minutes more")

    def batches() -> Iterator[PlacedBatch]:
        for step in itertools.count(state.step):
            own = order.placement(step).share(towers.own_towers, towers.n_towers)
            yield towers.place(pipeline.collate(rows, own))

    def save(state: TrainState) -> None:
        train_state.save(run.output_dir, state, config.keep_checkpoint_max)

    def evaluate(step: int, stopping: Callable[[], bool]) -> bool:
        assert evaluator
        return evaluator.evaluate_after(step, towers, stopping)

    began, ended = time.perf_counter(), False
    with (
        pipeline.prefetch(batches()) as prefetched,
        _recorder(run, events, plan, start=state.step, rows=len(rows)) as recorder,
    ):
        # The weights are on the devices now: the host's copies can be freed.
        state = dataclasses.replace(state, params={}, slots={})
        try:
            state = loop.train(
                towers,
                state,
                plan,
                batches=prefetched,
                save=save,
                recorder=recorder,
                evaluate=evaluate if evaluator else None,
            )
            ended = True
        except Exception as error:
            if shortage := towers.out_of_memory(error):
                raise memory.smaller_parts(run, shortage) from None
            raise
        finally:
            if group.rank == 0:
                took = time.perf_counter() - began
                # An error such as a full disk must not hide why the training ended.
                hidden = () if ended else (UserError,)
                with contextlib.suppress(*hidden):
                    run_json.note_time(run.output_dir, took, ended=ended)
    say(f"saved: {train_state.stem(state.step)} in {run.output_dir}")
    return state


def _untrained(run: Run, state: TrainState, identity: dict[str, Any]) -> TrainState:
    """Keeps the first weights as the trained ones (--max_train_steps=0)."""
    if run.topology.group.rank == 0:
        run_json.write(run, identity)
        train_state.save(run.output_dir, state, run.config.keep_checkpoint_max)
        run_json.note_time(run.output_dir, 0.0, ended=True)
    run.topology.group.all_gather(b"")  # no process reads them before they are saved
    say(f"saved, without a step of training: {train_state.stem(0)} in {run.output_dir}")
    return state


def _recorder(
    run: Run, events: Events, plan: loop.TrainingPlan, *, start: int, rows: int
) -> contextlib.AbstractContextManager[loop.StepListener]:
    group, config = run.topology.group, run.config
    if group.rank > 0:
        return contextlib.nullcontext(NullRecorder())
    sent = 0
    if isinstance(group, Horovod):
        specs = run.task.param_specs()
        trained = specs.keys() - set(run.frozen)
        sent = group.bytes_sent(sum(math.prod(specs[name][0]) for name in trained))
    return Recorder(
        run.output_dir,
        events,
        start=start,
        steps=plan.steps,
        batch=run.batch,
        rows=rows,
        every=config.log_steps,
        sent=sent,
        compiles=run.compilation.passes,
    )


def planned(run: Run) -> loop.TrainingPlan:
    """The plan of a training."""
    rows, data_key = run.data.load_training()
    return _plan(run, len(rows), _identity(run, data_key))


def _identity(run: Run, data_key: str) -> dict[str, Any]:
    """The identity of the run; data_key: a fingerprint of the training data."""
    return identity_lib.identity(
        run.config,
        run.model,
        run.task,
        data={run.data.flag: data_key},
        batch=run.batch,
        peak_rate=run.peak_rate,
    )


def _plan(run: Run, rows: int, identity: dict[str, Any]) -> loop.TrainingPlan:
    config = run.config
    of = identity_lib.fingerprint(config, identity)
    steps = config.steps_of(rows, run.batch)
    return loop.TrainingPlan(
        steps=steps,
        warmup=config.warmup_of(steps),
        decay_power=config.lr_decay_power,
        peak_rate=run.peak_rate,
        save_every=config.save_checkpoints_steps,
        eval_every=config.eval_every,
        read_every=config.log_steps,
        halvings=tuple(one.step for one in rollbacks.read(run, of)),
    )
