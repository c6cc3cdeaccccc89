"""The host is ahead of the devices: the order in which it asks them for things."""

import time

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.task import TrainState
from bert_mgpu.data import pipeline
from bert_mgpu.distributed import devices
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training import batches, loop, results
from bert_mgpu.training.towers import Towers
from tests.support.batches import CONFIG, LABELS, LENGTH, RATE, make_batch, split

STEPS = 6


@pytest.fixture
def calls(first_params, monkeypatch):
    """calls(read_every) -> what events in a training, (what, number) in order."""
    towers = Towers(
        Classification("x", CONFIG, LABELS, max_seq_length=LENGTH),
        2,
        devices.configure("cpu", 2),
        seed=1,
        xla=False,
    )
    towers.load(first_params, towers.initial_slots(first_params))
    batch = split(make_batch(np.random.default_rng(0), 4, ragged=False), 2)
    events = []

    def recorded(what, work):
        def call(*arguments, **named):
            number = sum(one == what for one, _ in events) + 1
            events.append((what, number))
            return work(*arguments, **named)

        return call

    class Recorder:
        def step(self, done):
            events.append(("recorded", done.step))
            events.append(("waited", done.waited))

    def run(read_every=1):
        step = towers._train_step
        monkeypatch.setattr(towers, "_train_step", recorded("launched", step))
        reader = results.ResultReader
        monkeypatch.setattr(reader, "_submit", recorded("requested", reader._submit))
        monkeypatch.setattr(batches, "place", recorded("placed", batches.place))
        plan = loop.TrainingPlan(STEPS, 0, RATE, save_every=1000, read_every=read_every)
        made = (towers.place(batch) for _ in range(STEPS))
        with pipeline.prefetch(made) as ahead:
            state = TrainState({}, {}, 0, identity={})
            loop.train(
                towers,
                state,
                plan,
                batches=ahead,
                save=lambda state: None,
                recorder=Recorder(),
            )
        return events

    return run


def test_a_copy_is_requested_before_the_next_launch_and_once_a_step(calls):
    events = [one for one in calls() if one[0] in ("launched", "requested")]
    wanted = [
        (what, n) for n in range(1, STEPS + 1) for what in ("launched", "requested")
    ]
    assert events == wanted


def test_the_next_batch_is_on_its_way_before_a_step_is_launched(calls):
    events = calls()
    for step in range(1, STEPS):
        placed = events.index(("placed", step + 1))
        assert placed < events.index(("launched", step))


def test_rows_lie_on_the_devices_that_work_with_them():
    visible = devices.configure("cpu", 2)
    batch = {"input_ids": np.arange(12, dtype=np.int32).reshape(3, 2, 2)}
    placed = batches.place(batch, visible, [2, 1], towers=3)
    for number, first, last in ((0, 0, 2), (1, 2, 3)):
        rows = placed.columns[number]["input_ids"]
        assert rows.backing_device.endswith(f"CPU:{number}")
        np.testing.assert_array_equal(rows.numpy(), batch["input_ids"][first:last])


def test_results_are_read_where_they_are_needed(calls):
    """At the end, and when one more is launched than is due, so that no step is waited
    for that has just been launched; but the first one compiles, and is read at once.
    """
    events = [one for one in calls(read_every=4) if one[0] in ("launched", "recorded")]
    told_after = {}
    for what, number in events:
        if what == "launched":
            launched = number
        else:
            told_after[number] = launched
    assert told_after == {1: 1, 2: 5, 3: 5, 4: 5, 5: 6, 6: 6}


def test_the_last_step_waits_for_no_batch(calls, monkeypatch):
    own = loop._next
    monkeypatch.setattr(loop, "_next", lambda batches: (own(batches)[0], 1.0))
    waits = [seconds for what, seconds in calls() if what == "waited"]
    assert waits == [1.0] * (STEPS - 1) + [0.0]


def test_one_vector_holds_all_of_a_step(first_params):
    task = Classification("x", CONFIG, LABELS, max_seq_length=LENGTH)
    towers = Towers(
        task, 1, devices.configure("cpu", 1), seed=1, xla=False, precision="float16"
    )
    towers.load(first_params, towers.initial_slots(first_params))
    batch = make_batch(np.random.default_rng(0), 4, ragged=False)
    done = towers.train_step(split(batch, 1), 0, RATE)
    assert done._future.result().shape == (1 + 3 + 4,)
    assert done.stops == 0 and done.reduction == 0
    assert done.scaling["bert_mgpu/loss_scale"] == 2.0**15
    assert np.isfinite([done.losses["loss"], done.norm]).all()


def test_asking_returns_when_the_copy_has_begun(monkeypatch):
    """Else the next step could be launched before it, and the copy wait for that."""
    reader, events = results.ResultReader(), []
    submit = reader._thread.submit

    def late(work):
        def later():
            time.sleep(0.2)
            events.append("begun")
            return work()

        return submit(later)

    monkeypatch.setattr(reader._thread, "submit", late)
    future = reader.read_later(tf.constant(3.0))
    assert events == ["begun"]
    assert future.result() == 3
