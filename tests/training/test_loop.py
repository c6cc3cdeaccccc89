"""The loop: the rate of each step, and what it reports."""

import numpy as np
import pytest

from bert_mgpu.core.task import TrainState
from bert_mgpu.distributed import devices
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training import loop
from bert_mgpu.training.towers import Towers
from tests.support.batches import CONFIG, LABELS, LENGTH, RATE, make_batch, split

STEPS, WARMUP = 6, 2


@pytest.mark.parametrize("first", [0, 3])
def test_each_step_has_googles_rate(first_params, first):
    """google-research/bert, optimization.py: linear warm-up, then linear decay to 0."""
    task = Classification("x", CONFIG, LABELS, max_seq_length=LENGTH)
    towers = Towers(task, 1, devices.configure("cpu", 1), seed=1, xla=False)
    towers.load(first_params, towers.initial_slots(first_params))
    batch = make_batch(np.random.default_rng(0), 4, ragged=False)
    placed = towers.place(split(batch, 1))
    recorded, trained = [], []
    train_step = towers.train_step

    def train(batch, step, rate, *rest, **named):
        trained.append((step, float(rate)))
        return train_step(batch, step, rate, *rest, **named)

    class Recorder:
        def step(self, done):
            recorded.append((done.step, float(done.rate)))

    towers.train_step = train
    plan = loop.TrainingPlan(STEPS, WARMUP, RATE, save_every=1000)
    state = TrainState({}, {}, first, identity={})
    batches = iter([placed] * (STEPS - first))
    end = loop.train(
        towers,
        state,
        plan,
        batches=batches,
        save=lambda state: None,
        recorder=Recorder(),
    )
    decayed = [RATE * (1 - step / STEPS) for step in range(STEPS)]
    wanted = [0, RATE / 2, *decayed[2:]]
    assert [rate for _, rate in trained] == pytest.approx(wanted[first:], rel=1e-6)
    assert [step for step, _ in trained] == [*range(first, STEPS)]
    assert recorded == [(step + 1, rate) for step, rate in trained]
    assert end.step == STEPS
