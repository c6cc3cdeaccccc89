"""The training loop: one optimizer step after the other, from any step on."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from bert_mgpu.core import tensor_names
from bert_mgpu.core.errors import Diverged, Interrupted, Preempted, RunError
from bert_mgpu.core.task import TrainState
from bert_mgpu.distributed import collective
from bert_mgpu.distributed.collective import Collective
from bert_mgpu.training import precision, schedule
from bert_mgpu.training.batches import PlacedBatch
from bert_mgpu.training.results import StepResult
from bert_mgpu.training.towers import Towers

# Results that wait to be looked at: a training that diverged is to end soon.
_MOST_UNREAD = 10


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """What a training run will do, all of it known before it starts."""

    steps: int
    warmup: int
    peak_rate: float
    save_every: int
    decay_power: float = 1.0
    eval_every: int = 0  # 0: never
    read_every: int = 1  # steps whose results are read together


@dataclasses.dataclass(frozen=True)
class StepRecord:
    """A finished step, as the recorder is told of it."""

    step: int  # from 1
    losses: dict[str, float]
    rate: float
    norm: float
    scaling: dict[str, float]  # the state of loss scaling, if there is one
    seconds: float  # since the step before
    waited: float  # seconds of them for a batch that was not ready, the next step's
    compiled: bool  # the first of its shape: compilation is in the seconds
    reduction: float = 0.0  # seconds of them until other processes' sums were there


class StepListener(Protocol):
    """Where the loop reports each finished step."""

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
    """Trains from state.step to plan.steps and saves on the way and at the end.

    Weights and slots of `state` are not read: the towers hold them.

    `batches` starts with the batch of state.step. `evaluate` looks at the weights after
    every plan.eval_every steps, and at the end: true ends the training. It is told how
    to ask whether the run is to stop, and may then leave it to the run that goes on.

    Raises Diverged where a loss or the gradient is not finite: nothing of that step is
    saved. SIGTERM and Ctrl-C save and raise Preempted and Interrupted: in all processes
    of a group, after the same step, whichever of them it was that got the signal.
    """
    group = towers.group

    def saved(step: int) -> TrainState:
        group.pausing()
        params, slots = towers.snapshot()
        state_now = dataclasses.replace(state, params=params, slots=slots, step=step)
        collective.check_same_state(state_now, group)
        if group.rank == 0:
            save(state_now)
        group.all_gather(b"")  # no process leaves before it is saved
        return state_now

    first = state.step
    unread = _Unread(recorder)
    clock = time.perf_counter()
    with _stop_signals(once=group.size == 1) as stop:
        votes = _Votes(group, stop)
        batch, waited = _next(batches)
        for step in range(state.step, plan.steps):
            done = step + 1
            upcoming = batch
            if done < plan.steps:  # on its way to the devices while this step runs
                upcoming, waited = _next(batches)
            rate = schedule.learning_rate(
                step,
                plan.peak_rate,
                plan.steps,
                warmup=plan.warmup,
                power=plan.decay_power,
            )
            compilations = towers.compilations
            result = towers.train_step(
                batch, step, rate, stop=votes.own, upcoming=upcoming
            )
            compiled = towers.compilations > compilations
            clock, began = time.perf_counter(), clock
            times = clock - began, waited, compiled
            unread.append(_Launched(done, rate, result, *times))
            # A result is there when its step is done: reading the last one would wait.
            wanted = done % plan.read_every == 0
            unread.read(keep=0 if compiled else 1 if wanted else _MOST_UNREAD)
            if step == first:  # a card that computes wrongly is known at once
                towers.check_replicas_equal()
                clock = time.perf_counter()  # that was no training
            batch = upcoming
            ends = done == plan.steps
            if evaluate and (ends or done % plan.eval_every == 0):
                unread.read()
                group.pausing()
                # First: what is saved has been evaluated. Of several processes none
                # may leave the others alone with it.
                ends |= evaluate(done, lambda: bool(stop) and group.size == 1)
                clock = time.perf_counter()
            asked_to = votes.after(result)  # what comes later meets the next step
            ends |= bool(asked_to)
            if ends or done % plan.save_every == 0:
                unread.read()
                state = saved(done)
                clock = time.perf_counter()  # saving is no training
            if ends:
                break
            # The host has no use for them until the next time.
            state = dataclasses.replace(state, params={}, slots={})
        if any(group.all_gather(b"stop" if stop else b"")):
            raise (stop or [Preempted])[0](
                f"step {state.step} of {plan.steps} is saved: the same command goes on"
                " from there"
            )
    return state


def _next(batches: Iterator[PlacedBatch]) -> tuple[PlacedBatch, float]:
    """The next batch, and the seconds that it was waited for."""
    asked = time.perf_counter()
    return next(batches), time.perf_counter() - asked


class _Launched(NamedTuple):
    """A step whose result nobody has looked at."""

    step: int  # from 1
    rate: float
    result: StepResult
    seconds: float
    waited: float
    compiled: bool

    def done(self) -> StepRecord:
        """Waits for the step. Raises Diverged."""
        losses, norm, scaling = (
            self.result.losses,
            self.result.norm,
            self.result.scaling,
        )
        skips = scaling.get(tensor_names.SKIPS)
        if not self.result.finite:
            shown = ", ".join(f"{name} {value:g}" for name, value in losses.items())
            raise Diverged(
                f"step {self.step}: {shown}, gradient norm {norm:g}: the training"
                " diverged; nothing of this step was saved: lower --learning_rate, or"
                " warm up for longer, with another --output_dir"
            )
        if skips is not None and skips >= precision.MAX_SKIPS:
            raise Diverged(
                f"step {self.step}: {skips:.0f} steps in a row overflowed float16, down"
                f" to the loss scale {scaling[tensor_names.SCALE]:g}: the training"
                " diverged: lower --learning_rate, or pass --precision=bfloat16 and"
                " --allreduce_dtype=float32, with another --output_dir"
            )
        times = self.seconds, self.waited, self.compiled, self.result.reduction
        return StepRecord(self.step, losses, self.rate, norm, scaling, *times)


class _Unread:
    """Steps in the order of their launch; each is told to the recorder once."""

    def __init__(self, recorder: StepListener):
        self._recorder = recorder
        self._steps: collections.deque[_Launched] = collections.deque()

    def append(self, launched: _Launched) -> None:
        self._steps.append(launched)

    def read(self, keep: int = 0) -> None:
        """All but the newest `keep`."""
        while len(self._steps) > keep:
            self._recorder.step(self._steps.popleft().done())


class _Votes:
    """Whether to stop: what this process was asked, or any of several.

    Those learn of each other's signals by the sums of a step, which are read when the
    next one is on its way: all of them after the same step.
    """

    def __init__(self, group: Collective, stop: list[type[RunError]]):
        self._group, self._stop = group, stop
        self._last: StepResult | None = None

    @property
    def own(self) -> bool:
        return bool(self._stop)

    def after(self, result: StepResult) -> list[type[RunError]]:
        """The errors to end with after this step; none to go on."""
        if self._group.size == 1:
            return self._stop[:]
        before, self._last = self._last, result
        if before is None or not before.stops:
            return []
        return self._stop[:] or [Preempted]


@contextlib.contextmanager
def _stop_signals(once: bool) -> Iterator[list[type[RunError]]]:
    """Collects what asks the run to stop; the loop looks between two steps.

    once: the second time means now; a launcher's signals may come several times.
    """
    asked: list[type[RunError]] = []
    meanings = {signal.SIGTERM: Preempted, signal.SIGINT: Interrupted}

    def note(number: int, frame: Any) -> None:
        if asked and once:
            raise asked[0](
                "at once: the same command goes on from the newest checkpoint"
            )
        if not asked:
            asked.append(meanings[signal.Signals(number)])

    before = {number: signal.signal(number, note) for number in meanings}
    try:
        yield asked
    except RunError:
        raise
    except Exception as error:  # nothing that is tried again must forget them
        if asked and once:
            again = "the same command goes on from the newest checkpoint"
            raise asked[0](again) from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
