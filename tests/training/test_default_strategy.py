"""The path that GPUs take, on CPU devices: TensorFlow's own collectives add.

Its ring adds in another order than our tree, so equality is up to rounding here.
"""

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.errors import RunError
from bert_mgpu.core.task import TrainState
from bert_mgpu.distributed import devices, pairwise, strategies
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training import loop, replicas
from bert_mgpu.training.towers import Towers
from tests.support.batches import CONFIG, LABELS, LENGTH, RATE, make_batch, split
from tests.support.compare import NOISE
from tests.support.marks import rarely

# The highest of the rates that BERT is fine-tuned with. A ring adds four gradients in
# another order than our tree, which changes their last bit, 6e-8 of them; Adam divides
# by a gradient's own size, so that an element whose parts nearly cancel moves by a
# share of the rate more or less: 4e-5 of a tensor's largest value came after 50 steps
# at 3e-3, and a sixtieth of that at this rate.
STEPS, SMALL_RATE = 50, 5e-5
LIMIT = 1e-6  # of a tensor's largest value


@pytest.fixture
def default(monkeypatch):
    monkeypatch.setattr(strategies, "make_strategy", strategies.mirrored)


def batches(rows, steps, ragged=True):
    rng = np.random.default_rng(3)
    return [make_batch(rng, rows, ragged=ragged) for _ in range(steps)]


def worst(params, wanted):
    """The largest difference, as a share of its tensor's largest value."""
    return max(
        np.abs(params[name] - value).max() / np.abs(value).max()
        for name, value in wanted.items()
        if NOISE not in name
    )


@pytest.mark.parametrize(
    ("n_devices", "xla"),
    [(2, True), *rarely((2, False), (4, True), (4, False))],
)
def test_placement_changes_nothing_but_rounding(train, monkeypatch, n_devices, xla):
    data = batches(8, STEPS)
    wanted, losses, norms = train(4, 1, data, xla=xla, rate=SMALL_RATE)
    monkeypatch.setattr(strategies, "make_strategy", strategies.mirrored)
    params, other_losses, other_norms = train(
        4, n_devices, data, xla=xla, rate=SMALL_RATE
    )
    np.testing.assert_allclose(other_losses, losses, rtol=1e-5)
    np.testing.assert_allclose(other_norms, norms, rtol=1e-4)
    assert worst(params, wanted) <= LIMIT


def test_unequal_and_empty_towers(train, default):
    """Three devices with 3, 2 and 2 towers, of which the last have no rows."""
    data = batches(14, 10)
    wanted, losses, _ = train(1, 1, data)
    params, other_losses, _ = train(7, 3, data)
    np.testing.assert_allclose(other_losses, losses, rtol=1e-5)
    assert worst(params, wanted) <= 1e-4


def test_parts_in_turn(train, default):
    data = batches(16, 10)
    wanted, losses, _ = train(16, 1, data)
    params, other_losses, _ = train(2, 2, data, parts=16)
    np.testing.assert_allclose(other_losses, losses, rtol=1e-5)
    assert worst(params, wanted) <= LIMIT


def made(first_params, n_devices, *, xla=False, **settings):
    task = Classification("x", CONFIG, LABELS, max_seq_length=LENGTH)
    visible = devices.configure("cpu", n_devices)
    towers = Towers(task, 4, visible, seed=42, xla=xla, **settings)
    towers.load(first_params, towers.initial_slots(first_params))
    return towers


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_outputs_are_those_of_one_device(first_params, default, precision):
    (batch,) = batches(8, 1)
    one, four = (made(first_params, n, precision=precision) for n in (1, 4))
    wanted, outputs = (towers.outputs(split(batch, 4)) for towers in (one, four))
    np.testing.assert_array_equal(outputs["logits"], wanted["logits"])


def test_outputs_follow_the_weights(first_params):
    """Also where a forward pass reads copies of them in fewer bits."""
    data = batches(8, 4)
    towers = made(first_params, 2, precision="bfloat16")
    assert not towers._replicas[
        0
    ].forward_params  # no memory for them while it only trains
    before = towers.outputs(split(data[0], 4))["logits"]
    for step, batch in enumerate(data):
        towers.train_step(split(batch, 4), step, RATE)
    after = towers.outputs(split(data[0], 4))["logits"]
    fresh = made(towers.snapshot()[0], 2, precision="bfloat16")
    assert not np.array_equal(after, before)
    np.testing.assert_array_equal(after, fresh.outputs(split(data[0], 4))["logits"])


def changed_a_little(values):
    values.flat[7] = np.nextafter(values.flat[7], np.inf, dtype=np.float32)


def exchanged(values):
    """The sum of all bits stays."""
    values.flat[[7, 8]] = values.flat[[8, 7]]


@pytest.mark.parametrize(
    ("copied", "xla"),
    [(0, True), (1 << 16, True), (0, False)],
    ids=["checksums", "small ones are copied", "without XLA all are copied"],
)
def test_a_copy_that_drifts_is_noticed_before_it_is_saved(
    first_params, default, monkeypatch, copied, xla
):
    if not xla:
        monkeypatch.delattr(replicas, "_checksum_of")
    monkeypatch.setattr(replicas, "_COPIED_SIZE", copied)
    towers = made(first_params, 2, xla=xla)
    towers.train_step(split(batches(8, 1)[0], 4), 0, RATE)
    for part, name, drift in (
        ("params", "output_weights", changed_a_little),
        ("params", "output_weights", exchanged),
        ("slots", "output_weights/adam_v", changed_a_little),
    ):
        variable = getattr(towers._replicas[1], part)[name]
        good = variable.numpy()
        values = good.copy()
        drift(values)
        variable.assign(values)
        with pytest.raises(RunError, match="on CPU:1 differ from those on CPU:0"):
            towers.snapshot()
        variable.assign(good)
        towers.snapshot()


def disturb(towers):
    """Changes a weight of the second device; gives the variable."""
    variable = towers._replicas[1].params["output_weights"]
    variable.assign(variable.numpy()[::-1])
    return variable


def test_a_copy_that_drifts_is_noticed_after_the_first_step(first_params, default):
    towers = made(first_params, 2)
    disturb(towers)
    data = [towers.place(split(batch, 4)) for batch in batches(8, 1) * 9]
    with pytest.raises(RunError, match="weights on CPU:1 differ from those on CPU:0"):
        loop.train(
            towers,
            TrainState({}, {}, 0, identity={}),
            loop.TrainingPlan(9, 0, RATE, save_every=1000),
            batches=iter(data[:2]),
            save=pytest.fail,
            recorder=mock.Mock(),
        )


def test_copies_are_compared_after_the_first_step_and_at_saves(
    first_params, default, monkeypatch
):
    """Not after each step: it reads all weights of all devices."""
    towers = made(first_params, 2)
    steps, compared = [], []
    step, agree = towers.train_step, towers._replicas.check_replicas_equal
    monkeypatch.setattr(
        towers,
        "train_step",
        lambda *args, **named: (steps.append(1), step(*args, **named))[1],
    )
    monkeypatch.setattr(
        towers._replicas,
        "check_replicas_equal",
        lambda: (compared.append(len(steps)), agree()),
    )
    data = [towers.place(split(batch, 4)) for batch in batches(8, 1) * 7]
    loop.train(
        towers,
        TrainState({}, {}, 0, identity={}),
        loop.TrainingPlan(7, 0, RATE, save_every=3),
        batches=iter(data),
        save=lambda state: None,
        recorder=mock.Mock(),
    )
    assert compared == [1, 3, 6, 7]


def test_cards_of_several_kinds_get_the_first_ones_weights(
    first_params, default, monkeypatch
):
    towers = made(first_params, 2)
    towers.train_step(split(batches(8, 1)[0], 4), 0, RATE)
    variable = disturb(towers)
    monkeypatch.setattr(devices, "device_models", lambda visible: ["one", "other"])
    params, _ = towers.snapshot()
    assert (params["output_weights"] == variable.numpy()).all()
    monkeypatch.undo()
    towers.snapshot()


def test_weights_and_seed_can_be_replaced(train, first_params):
    """One Towers for several seeds gives what one for each gives."""
    data = batches(8, 5)
    towers = made(first_params, 2)
    for seed in (42, 7):
        towers.seed = seed
        towers.load(first_params, towers.initial_slots(first_params))
        losses = [
            towers.train_step(split(batch, 4), step, RATE).losses["loss"]
            for step, batch in enumerate(data)
        ]
        _, wanted, _ = train(4, 2, data, seed=seed)
        assert losses == wanted


class TracedError(Exception):
    """A step was traced, and is not compiled and run."""


def traced_step(towers, batch):
    """The graph of a step."""
    step, graphs = towers._train_step, []

    def trace(*arguments):
        graphs.append(step.get_concrete_function(*arguments).graph)
        raise TracedError

    towers._train_step = trace
    with pytest.raises(TracedError):
        towers.train_step(batch, 0, RATE)
    return graphs[0]


def operations(graph):
    """Those that run in a step: what is only handed in or named does not count."""
    still = {"Placeholder", "Const", "NoOp"}
    return [op for op in graph.get_operations() if op.type not in still]


def test_few_operations_stand_outside_what_is_compiled(first_params, default):
    """They do not grow with the model's tensors, and little with devices."""
    counts = {}
    for n_devices in (1, 2):
        task = Classification("x", CONFIG, LABELS, max_seq_length=LENGTH)
        towers = Towers(task, 2, devices.configure("cpu", n_devices), seed=1, xla=True)
        towers.load(first_params, towers.initial_slots(first_params))
        graph = traced_step(towers, split(batches(8, 1)[0], 2))
        counts[n_devices] = len(operations(graph))
    assert counts[1] < 60 and counts[2] < 130, counts


@pytest.mark.parametrize("parts", [2, 1024])
def test_the_graph_does_not_grow_with_the_parts(parts):
    size = 8
    rows = tf.TensorSpec([parts, size])
    summed = tf.function(
        lambda x: pairwise.sequential_pairwise_sum(lambda i: x[i], parts, size)
    )
    graph = summed.get_concrete_function(rows).graph
    assert len(graph.as_graph_def().node) < 40
