"""A stop saves the step that it names, whenever it comes."""

import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.errors import Interrupted, Preempted
from bert_mgpu.core.task import TrainState
from bert_mgpu.distributed import devices
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training import loop
from bert_mgpu.training.towers import Towers
from tests.support.batches import CONFIG, LABELS, LENGTH, RATE, make_batch, split

STEPS = 6


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
