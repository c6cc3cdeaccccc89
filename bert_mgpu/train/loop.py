"""The training loop: one optimizer step after the other, from any step on."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from bert_mgpu.errors import Diverged, Interrupted, Preempted, RunError
from bert_mgpu.train import schedule
from bert_mgpu.train.checkpoint import TrainState
from bert_mgpu.train.towers import Towers


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a training run will do, all of it known before it starts."""

    steps: int
    warmup: int
    peak_rate: float
    save_every: int


class Recorder(Protocol):
    """Where the loop reports each finished step."""

    def step(
        self, step: int, losses: dict[str, float], rate: float, norm: float
    ) -> None: ...


def train(
    towers: Towers,
    state: TrainState,
    plan: Plan,
    batches: Iterator[dict[str, np.ndarray]],
    save: Callable[[TrainState], None],
    recorder: Recorder,
) -> TrainState:
    """Trains from state.step to plan.steps and saves on the way and at the end.

    `batches` starts with the batch of state.step. Raises Diverged where a loss or
    the gradient is not finite: nothing of that step is saved. SIGTERM and Ctrl-C
    save and raise Preempted and Interrupted.
    """

    def saved(step: int) -> TrainState:
        params, slots = towers.snapshot()
        state_now = dataclasses.replace(state, params=params, slots=slots, step=step)
        save(state_now)
        return state_now

    with _stop_signals() as stop:
        for step, batch in zip(range(state.step, plan.steps), batches, strict=False):
            rate = schedule.learning_rate(step, plan.peak_rate, plan.steps, plan.warmup)
            losses, norm = towers.train_step(batch, step, rate)
            _report(step, losses, norm, rate, recorder)
            done = step + 1
            if stop or done == plan.steps or done % plan.save_every == 0:
                state = saved(done)
            if stop:
                raise stop[0](
                    f"step {done} of {plan.steps} is saved: the same command goes on"
                    " from there"
                )
    return state


def _report(step: int, losses: Any, norm: Any, rate: float, recorder: Recorder) -> None:
    values = {name: float(value) for name, value in losses.items()}
    if not all(map(math.isfinite, [*values.values(), float(norm)])):
        shown = ", ".join(f"{name} {value:g}" for name, value in values.items())
        raise Diverged(
            f"step {step + 1}: {shown}, gradient norm {float(norm):g}: the training"
            " diverged; nothing of this step was saved: lower --learning_rate, or"
            " raise --warmup_proportion"
        )
    recorder.step(step + 1, values, rate, float(norm))


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
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
