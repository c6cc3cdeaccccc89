"""The training loop: one optimizer step after the other, from any step on."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from bert_mgpu.errors import Diverged, Interrupted, Preempted, RunError
from bert_mgpu.train import precision, schedule
from bert_mgpu.train.checkpoint import TrainState
from bert_mgpu.train.towers import StepResult, Towers


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a training run will do, all of it known before it starts."""

    steps: int
    warmup: int
    peak_rate: float
    save_every: int
    decay_power: float = 1.0


@dataclasses.dataclass(frozen=True)
class Done:
    """A finished step, as the recorder is told of it."""

    step: int  # from 1
    losses: dict[str, float]
    rate: float
    norm: float
    scaling: dict[str, float]  # the state of loss scaling, if there is one
    seconds: float  # since the step before
    waited: float  # seconds of them that its batch was not ready
    compiled: bool  # the first of its shape: compilation is in the seconds


class Recorder(Protocol):
    """Where the loop reports each finished step."""

    def step(self, done: Done) -> None: ...


def train(
    towers: Towers,
    state: TrainState,
    plan: Plan,
    batches: Iterator[dict[str, np.ndarray]],
    save: Callable[[TrainState], None],
    recorder: Recorder,
) -> TrainState:
    """Trains from state.step to plan.steps and saves on the way and at the end.

    Weights and slots of `state` are not read: the towers hold them.

    `batches` starts with the batch of state.step. Raises Diverged where a loss or
    the gradient is not finite: nothing of that step is saved. SIGTERM and Ctrl-C
    save and raise Preempted and Interrupted.
    """

    def saved(step: int) -> TrainState:
        params, slots = towers.snapshot()
        state_now = dataclasses.replace(state, params=params, slots=slots, step=step)
        save(state_now)
        return state_now

    # Reading a result waits for the device: it is read when the next step is on its
    # way, so that the device never waits for us.
    unread: list[Callable[[], None]] = []
    clock = time.perf_counter()
    with _stop_signals() as stop:
        for step in range(state.step, plan.steps):
            asked = time.perf_counter()
            batch = next(batches)
            waited = time.perf_counter() - asked
            rate = schedule.learning_rate(
                *(step, plan.peak_rate, plan.steps, plan.warmup), plan.decay_power
            )
            compilations = towers.compilations
            result = towers.train_step(batch, step, rate)
            compiled = towers.compilations > compilations
            clock, began = time.perf_counter(), clock
            times = clock - began, waited, compiled
            unread.append(
                functools.partial(_report, recorder, step, rate, result, *times)
            )
            done = step + 1
            while len(unread) > (0 if compiled else 1):
                unread.pop(0)()
            asked_to = stop[:]  # what comes later meets the next step
            ends = asked_to or done == plan.steps
            if ends or done % plan.save_every == 0:
                while unread:
                    unread.pop(0)()
                state = saved(done)
                clock = time.perf_counter()  # saving is no training
            if asked_to:
                break
            if not ends:  # the host has no use for them until the next time
                state = dataclasses.replace(state, params={}, slots={})
        if stop:
            raise stop[0](
                f"step {state.step} of {plan.steps} is saved: the same command goes on"
                " from there"
            )
    return state


def _report(
    recorder: Recorder,
    step: int,
    rate: float,
    result: StepResult,
    seconds: float,
    waited: float,
    compiled: bool,
) -> None:
    losses = {name: float(value) for name, value in result.losses.items()}
    scaling = {name: float(value) for name, value in result.scaling.items()}
    norm = float(result.norm)
    skips = scaling.get(precision.SKIPS)
    if skips is None and not all(map(math.isfinite, [*losses.values(), norm])):
        shown = ", ".join(f"{name} {value:g}" for name, value in losses.items())
        raise Diverged(
            f"step {step + 1}: {shown}, gradient norm {norm:g}: the training"
            " diverged; nothing of this step was saved: lower --learning_rate, or"
            " warm up for longer, with another --output_dir"
        )
    if skips is not None and skips >= precision.MAX_SKIPS:
        raise Diverged(
            f"step {step + 1}: {skips:.0f} steps in a row overflowed float16, down to"
            f" the loss scale {scaling[precision.SCALE]:g}: the training diverged:"
            " lower --learning_rate, or pass --precision=bfloat16, with another"
            " --output_dir"
        )
    recorder.step(
        Done(step + 1, losses, rate, norm, scaling, seconds, waited, compiled)
    )


@contextlib.contextmanager
def _stop_signals() -> Iterator[list[type[RunError]]]:
    """Collects what asks the run to stop; the loop looks between two steps."""
    asked: list[type[RunError]] = []
    meanings = {signal.SIGTERM: Preempted, signal.SIGINT: Interrupted}

    def note(number: int, frame: Any) -> None:
        if asked:  # the second time means now
            raise asked[0](
                "at once: the same command goes on from the newest checkpoint"
            )
        asked.append(meanings[signal.Signals(number)])

    before = {number: signal.signal(number, note) for number in meanings}
    try:
        yield asked
    except RunError:
        raise
    except Exception as error:  # nothing that is tried again must forget them
        if asked:
            again = "the same command goes on from the newest checkpoint"
            raise asked[0](again) from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
