"""The loop: the rate of each step, what it reports, and when it stops."""

import signal
import types

import numpy as np
import pytest

from bert_mgpu.core.errors import DivergedStep, Interrupted, Preempted
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


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, Preempted), (signal.SIGINT, Interrupted)]
)
def test_a_second_signal_ends_a_single_process_at_once(number, error):
    with loop._stop_signals(once=False) as requests:  # under a launcher
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert requests == [error]

    def twice():
        with loop._stop_signals(once=True) as requests:
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
        with loop._stop_signals(once=True):
            signal.raise_signal(signal.SIGTERM)
            raise error

    with pytest.raises(raised):
        fail()


class Group:
    size = 2


@pytest.mark.parametrize("signalled", [True, False])
def test_several_processes_stop_after_the_same_step(signalled):
    """By the sums of a step, which are read a step later, whoever got the signal."""
    votes = loop._StopVotes(Group(), [Preempted] if signalled else [])
    results = [types.SimpleNamespace(stops=stops) for stops in (0, 1, 1)]
    assert [votes.after(result) for result in results] == [False, False, True]
