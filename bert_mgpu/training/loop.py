"""The training loop: optimizer steps, starting at any, with saves and evaluations."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from bert_mgpu.core import tensor_names
from bert_mgpu.core.errors import DivergedStep, Preempted
from bert_mgpu.core.task import TrainState
from bert_mgpu.distributed import collective
from bert_mgpu.training import precision, schedule, stopping
from bert_mgpu.training.batches import PlacedBatch
from bert_mgpu.training.results import StepResult
from bert_mgpu.training.towers import Towers

# The most steps that wait to be recorded: a training that diverged has to end soon.
_MAX_PENDING = 10


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """The settings of a training loop."""

    steps: int
    warmup: int
    peak_rate: float
    save_every: int
    decay_power: float = 1.0
    eval_every: int = 0  # 0: never
    read_every: int = 1  # steps from one reading of results to the next
    halvings: tuple[int, ...] = ()  # steps at which the rate is halved

    @property
    def rate_in_words(self) -> str:
        warmup = f" after a warm-up until step {self.warmup}" * (self.warmup > 0)
        steps = ", ".join(
            f"{step}" + f" ({count} times)" * (count > 1)
            for step, count in collections.Counter(self.halvings).items()
        )
        halved = f", halved after step {steps}" * bool(steps)
        return f"{self.peak_rate:g}{warmup}{halved}"

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        rate = schedule.learning_rate(
            step,
            self.peak_rate,
            self.steps,
            warmup=self.warmup,
            power=self.decay_power,
        )
        return rate * 0.5 ** len(self.halvings)  # no step before a halving is repeated


@dataclasses.dataclass(frozen=True)
class StepRecord:
    """A finished step, as the recorder gets it."""

    step: int  # from 1
    losses: dict[str, float]
    rate: float
    norm: float
    scaling: dict[str, float]  # the state of loss scaling, empty without it
    seconds: float  # since the previous step
    waited: float  # of these, spent waiting for the next step's batch
    compiled: bool  # the first of its shape: `seconds` includes compilation
    reduction: float = 0.0  # of these, spent on the sum over processes


class StepListener(Protocol):
    """The receiver of finished steps."""

    def step(self, done: StepRecord) -> None: ...


def train(
    towers: Towers,
    state: TrainState,
    plan: TrainingPlan,
    *,
    batches: Iterator[PlacedBatch],
    save: Callable[[TrainState], None],
    recorder: StepListener,
    evaluate: Callable[[int, Callable[[], bool]], bool] | None = None,
) -> TrainState:
    """Trains from state.step to plan.steps, with saves on the way and at the end.

    The weights and slots in `state` are not read: the towers hold them.

    `batches` starts with the batch of state.step. `evaluate` is called every
    plan.eval_every steps and at the end, with the step and a function that tells
    whether the run has to stop: if so, `evaluate` may leave the evaluation to the run
    that resumes. It returns True to end the training.

    Raises DivergedStep where a loss or the gradient is not finite: nothing of that step
    is saved. SIGTERM and Ctrl-C save and then raise Preempted and Interrupted, in all
    processes of a group after the same step, whichever of them received the signal.
    """
    group = towers.group

    def saved(step: int) -> TrainState:
        group.pausing()
        params, slots = towers.snapshot()
        current = dataclasses.replace(state, params=params, slots=slots, step=step)
        collective.check_same_state(current, group)
        if group.rank == 0:
            save(current)
        group.all_gather(b"")  # no process goes on before the state is saved
        return current

    first, unsaved = state.step, False  # unsaved: a save is due
    pending = _PendingSteps(recorder)
    clock = time.perf_counter()
    with stopping.stop_signals(group) as stop:
        votes = stopping.StopVotes(group, stop)
        batch, waited = _next(batches)
        for step in range(state.step, plan.steps):
            done = step + 1
            upcoming = batch
            if done < plan.steps:  # it is copied to the devices while this step runs
                upcoming, waited = _next(batches)
            else:
                waited = 0.0  # for no batch
            rate = plan.rate(step)
            compilations = towers.compilations
            result = towers.train_step(
                batch, step, rate, stop=votes.own, upcoming=upcoming
            )
            compiled = towers.compilations > compilations
            clock, began = time.perf_counter(), clock
            pending.append(
                _PendingStep(
                    step=done,
                    rate=rate,
                    result=result,
                    seconds=clock - began,
                    waited=waited,
                    compiled=compiled,
                )
            )
            # Reading the newest result would wait for its step: a result that is due
            # is read when one more step is launched.
            is_due = (done - 1) % plan.read_every == 0
            pending.record(keep=0 if compiled else 1 if is_due else _MAX_PENDING)
            if step == first:  # finds a faulty GPU at once
                towers.check_replicas_equal()
                clock = time.perf_counter()  # the check is not training
            batch = upcoming
            ends = done == plan.steps
            if evaluate and (ends or done % plan.eval_every == 0):
                pending.record()
                group.pausing()
                # Before the save, so that what is saved has been evaluated. No process
                # may stop while others are still in an evaluation.
                ends |= evaluate(done, lambda: bool(stop) and group.size == 1)
                clock = time.perf_counter()
            ends |= votes.after(result)  # later signals count for the next step
            unsaved |= done % plan.save_every == 0
            # A rollback to a step that overflows float16 would only overflow again.
            if ends or (unsaved and not result.skipped):
                pending.record()
                state, unsaved = saved(done), False
                clock = time.perf_counter()  # saving is not training
            if ends:
                break
            # The host does not need weights and slots until the next save.
            state = dataclasses.replace(state, params={}, slots={})
        if any(group.all_gather(b"stop" if stop else b"")):
            raise (stop or [Preempted])[0](
                f"step {state.step} of {plan.steps} is saved: run the same command"
                " again to resume"
                " from there"
            )
    return state


def _next(batches: Iterator[PlacedBatch]) -> tuple[PlacedBatch, float]:
    """The next batch, and the seconds spent waiting for it."""
    began = time.perf_counter()
    return next(batches), time.perf_counter() - began


class _PendingStep(NamedTuple):
    """A launched step whose result has not been read yet."""

    step: int  # from 1
    rate: float
    result: StepResult
    seconds: float
    waited: float
    compiled: bool

    def finished(self) -> StepRecord:
        """Waits for the step and returns its record. Raises DivergedStep."""
        result = self.result
        losses, norm, scaling = result.losses, result.norm, result.scaling
        skips = scaling.get(tensor_names.SKIPS)
        if not result.finite:
            shown = ", ".join(f"{name} {value:g}" for name, value in losses.items())
            raise DivergedStep(
                self.step,
                f"{shown}, gradient norm {norm:g}",
                "; nothing of this step was saved: pass --on_divergence=rollback; or"
                " lower --learning_rate or warm up for longer, with another"
                " --output_dir",
            )
        if skips is not None and skips >= precision.MAX_SKIPS:
            raise DivergedStep(
                self.step,
                f"{skips:.0f} steps in a row overflowed float16, down to the loss scale"
                f" {scaling[tensor_names.SCALE]:g}",
                ": lower --learning_rate, or pass --precision=bfloat16 and"
                " --allreduce_dtype=float32, with another --output_dir",
            )
        return StepRecord(
            step=self.step,
            losses=losses,
            rate=self.rate,
            norm=norm,
            scaling=scaling,
            seconds=self.seconds,
            waited=self.waited,
            compiled=self.compiled,
            reduction=result.reduction,
        )


class _PendingSteps:
    """The launched steps in order; each is recorded once."""

    def __init__(self, recorder: StepListener):
        self._recorder = recorder
        self._steps: collections.deque[_PendingStep] = collections.deque()

    def append(self, step: _PendingStep) -> None:
        self._steps.append(step)

    def record(self, keep: int = 0) -> None:
        """Records all steps but the newest `keep`."""
        while len(self._steps) > keep:
            self._recorder.step(self._steps.popleft().finished())
