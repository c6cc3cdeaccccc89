"""A stop saves the step that it names, whenever and in whichever process it comes."""

import json
import os
import signal
import types

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.errors import DivergedStep, Interrupted, Preempted
from bert_mgpu.core.task import TrainState
from bert_mgpu.distributed import devices, topology
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training import loop, stopping
from bert_mgpu.training.towers import Towers
from tests.support.batches import CONFIG, LABELS, LENGTH, RATE, make_batch, split

STEPS = 6
ALONE = topology.single_process(1, ["CPU:0"]).group


class Group:
    """Two processes, as one of them sees them."""

    size = 2

    def __init__(self, stop=False):
        self._other = json.dumps({"stop": stop}).encode()

    def all_gather(self, value):
        return [self._other, value]


def run(params, at, number):
    """Trains STEPS steps; the signal comes while the result of step `at` is read."""
    task = Classification("x", CONFIG, LABELS, max_seq_length=LENGTH)
    towers = Towers(task, 1, devices.configure("cpu", 1), seed=1, xla=False)
    towers.load(params, towers.initial_slots(params))
    batch = make_batch(np.random.default_rng(0), 4, ragged=False)
    batch = towers.place(split(batch, 1))
    saved, recorded = [], []

    class Recorder:
        def step(self, done):
            recorded.append(done.step)
            if done.step == at:
                os.kill(os.getpid(), number)

    plan = loop.TrainingPlan(STEPS, 0, RATE, save_every=1000)
    try:
        loop.train(
            towers,
            TrainState({}, {}, 0, identity={}),
            plan,
            batches=iter([batch] * STEPS),
            save=lambda state: saved.append(state.step),
            recorder=Recorder(),
        )
    except (Preempted, Interrupted) as stopped:
        return str(stopped), saved, recorded, type(stopped)
    raise AssertionError("was not stopped")


@pytest.mark.parametrize("at", range(1, STEPS + 1))
def test_what_is_said_to_be_saved_is_saved(first_params, at):
    message, saved, recorded, kind = run(first_params, at, signal.SIGTERM)
    assert kind is Preempted
    assert message.startswith(f"step {saved[-1]} of {STEPS} is saved")
    assert recorded == [*range(1, saved[-1] + 1)]
    assert saved[-1] <= min(at + 2, STEPS)


def test_a_stop_is_not_lost_where_a_step_fails(first_params):
    def batches():
        os.kill(os.getpid(), signal.SIGINT)
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")
        yield

    task = Classification("x", CONFIG, LABELS, max_seq_length=LENGTH)
    towers = Towers(task, 1, devices.configure("cpu", 1), seed=1, xla=False)
    towers.load(first_params, towers.initial_slots(first_params))
    state, plan = (
        TrainState({}, {}, 0, identity={}),
        loop.TrainingPlan(STEPS, 0, RATE, save_every=1000),
    )
    with pytest.raises(Interrupted, match="resume from the newest checkpoint"):
        loop.train(
            towers,
            state,
            plan,
            batches=batches(),
            save=lambda state: None,
            recorder=None,
        )


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, Preempted), (signal.SIGINT, Interrupted)]
)
def test_a_second_signal_ends_a_single_process_at_once(number, error):
    with stopping.stop_signals(Group()) as requests:  # under a launcher
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert requests == [error]

    def twice():
        with stopping.stop_signals(ALONE) as requests:
            signal.raise_signal(number)
            assert requests == [error]
            signal.raise_signal(number)

    before = signal.getsignal(number)
    with pytest.raises(error, match="at once"):
        twice()
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (DivergedStep(3, "loss nan", ""), Preempted),  # which may be rolled back
        (MemoryError(), Preempted),  # which is tried again in smaller parts
        (OSError(28, "No space left on device"), OSError),
        (KeyError("x"), KeyError),
    ],
)
def test_what_goes_on_does_not_pass_over_a_signal(error, raised):
    def fail():
        with stopping.stop_signals(ALONE):
            signal.raise_signal(signal.SIGTERM)
            raise error

    with pytest.raises(raised):
        fail()


@pytest.mark.parametrize("other", [True, False])
@pytest.mark.parametrize("own", [True, False])
def test_no_process_rolls_back_where_any_was_to_stop(own, other):
    """All of them diverge at the same step; out of memory may be one alone."""

    def fail(error):
        with stopping.stop_signals(Group(stop=other)):
            if own:
                signal.raise_signal(signal.SIGINT)
            raise error

    with pytest.raises(DivergedStep if not (own or other) else
                       Interrupted if own else Preempted):  # fmt: skip
        fail(DivergedStep(3, "loss nan", ""))
    with pytest.raises(MemoryError):
        fail(MemoryError())


@pytest.mark.parametrize("signalled", [True, False])
def test_several_processes_stop_after_the_same_step(signalled):
    """By the sums of a step, which are read a step later, whoever got the signal."""
    votes = stopping.StopVotes(Group(), [Preempted] if signalled else [])
    results = [types.SimpleNamespace(stops=stops) for stops in (0, 1, 1)]
    assert [votes.after(result) for result in results] == [False, False, True]
