"""Mixed precision: what stays float32, and the scale of float16's loss."""

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core import task as task_lib
from bert_mgpu.core import tensor_names
from bert_mgpu.core.errors import Diverged
from bert_mgpu.distributed import collective, devices
from bert_mgpu.model import bert
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training import loop, precision, update
from bert_mgpu.training.optimizers import Optimizer
from bert_mgpu.training.towers import Towers
from tests.support.batches import CONFIG, LABELS, LENGTH, RATE, make_batch, split
from tests.support.compare import assert_same_bits
from tests.support.marks import PLAIN_AND_RARELY_XLA

LOW = ("bfloat16", "float16")
# A unit in the last place, relative: what one rounding may change.
ROUNDING = {"bfloat16": 2**-8, "float16": 2**-11}


def batches(rows, steps, seed=3):
    rng = np.random.default_rng(seed)
    return [make_batch(rng, rows, ragged=False) for _ in range(steps)]


@pytest.mark.parametrize("kind", LOW)
def test_only_products_of_the_encoder_are_low(first_params, kind):
    params = precision.cast(
        {name: tf.constant(value) for name, value in first_params.items()}, kind
    )
    low = {name for name, value in params.items() if value.dtype != tf.float32}
    assert low == {
        name
        for name in first_params
        if name.startswith("bert/encoder/") and name.endswith(("/kernel", "/bias"))
    }
    assert all(params[name].dtype == kind for name in low)
    batch = make_batch(np.random.default_rng(0), 3, ragged=False)
    hidden = bert.encode(params, CONFIG, batch)
    assert {state.dtype.name for state in hidden} == {kind}
    logits = Classification("x", CONFIG, LABELS, max_seq_length=LENGTH).outputs(
        params, batch
    )
    assert logits["logits"].dtype == tf.float32


@pytest.mark.parametrize("kind", LOW)
def test_softmax_and_statistics_are_float32(first_params, kind):
    """In the graph of a step: no sum over a row, and no exp, is of few bits."""
    task = Classification("x", CONFIG, LABELS, max_seq_length=LENGTH)
    params = {name: tf.constant(value) for name, value in first_params.items()}
    batch = make_batch(np.random.default_rng(0), 3, ragged=False)
    tensors = {name: tf.constant(value) for name, value in batch.items()}

    @tf.function(autograph=False)
    def loss(params):
        return task.loss_sums(params, tensors, None)["loss"]

    graph = loss.get_concrete_function(precision.cast(params, kind)).graph
    sensitive = ("Softmax", "Mean", "Rsqrt", "SparseSoftmaxCrossEntropyWithLogits")
    actual = {
        (op.type, op.inputs[0].dtype.name)
        for op in graph.get_operations()
        if op.type in sensitive
    }
    assert actual == {(name, "float32") for name in sensitive}
    products = {
        op.inputs[0].dtype.name
        for op in graph.get_operations()
        if op.type == "BatchMatMulV2"
    }
    assert products == {kind}


@pytest.mark.parametrize("xla", PLAIN_AND_RARELY_XLA)
@pytest.mark.parametrize("kind", LOW)
def test_first_gradients_are_those_of_float32_but_for_rounding(train, kind, xla):
    data = batches(8, 3)
    _, losses, norms = train(2, 1, data, xla=xla)
    _, low_losses, low_norms = train(2, 1, data, xla=xla, precision=kind)
    np.testing.assert_allclose(low_losses, losses, rtol=4 * ROUNDING[kind])
    np.testing.assert_allclose(low_norms, norms, rtol=8 * ROUNDING[kind])
    assert low_losses != losses


@pytest.mark.parametrize("kind", LOW)
def test_placement_changes_no_bit(train, kind):
    data = batches(8, 6)
    wanted, losses, _ = train(4, 1, data, precision=kind)
    params, other_losses, _ = train(4, 4, data, precision=kind)
    assert other_losses == losses
    assert_same_bits(params, wanted)
    assert {value.dtype for value in params.values()} == {np.dtype(np.float32)}


def test_steps_below_the_last_place_of_bfloat16_add_up(first_params):
    """They would be lost if the weights themselves had 8 bits of mantissa."""
    towers = made(first_params, "bfloat16")
    (batch,) = batches(8, 1)
    for step in range(20):
        towers.train_step(split(batch, 1), step, 1e-6)
    params, _ = towers.snapshot()
    name = "bert/encoder/layer_0/output/dense/kernel"
    moved = np.abs(params[name] - first_params[name])
    assert (moved > 1e-6).mean() > 0.9


# -- the scale of float16's loss ----------------------------------------------


def made(params, kind, group=collective.SOLO, **slots):
    towers = Towers(
        Classification("x", CONFIG, LABELS, max_seq_length=LENGTH),
        1,
        devices.configure("cpu", 1),
        seed=1,
        xla=False,
        precision=kind,
        group=group,
    )
    towers.load(params, towers.initial_slots(params) | slots)
    return towers


def test_a_gradient_that_overflows_changes_only_the_scale(first_params):
    scale = np.float32(2.0**24)
    towers = made(first_params, "float16", **{tensor_names.SCALE: scale})
    (batch,) = batches(8, 1)
    before, slots_before = towers.snapshot()
    done = towers.train_step(split(batch, 1), 0, RATE)
    after, slots = towers.snapshot()
    assert not np.isfinite(float(done.norm))
    assert_same_bits(after, before)
    assert (
        float(done.scaling[tensor_names.SCALE])
        == slots.pop(tensor_names.SCALE)
        == 2**23
    )
    assert float(done.scaling[tensor_names.SKIPS]) == slots.pop(tensor_names.SKIPS) == 1
    assert slots.pop(tensor_names.SKIPPED) == 1
    assert_same_bits(slots, {name: slots_before[name] for name in slots})
    for step in range(1, 25):  # until a scale is found that fits
        done = towers.train_step(split(batch, 1), step, RATE)
    assert np.isfinite(float(done.norm))
    assert float(done.scaling[tensor_names.SKIPS]) == 0
    assert not np.array_equal(
        towers.snapshot()[0]["output_weights"], before["output_weights"]
    )


def test_scale_leaves_the_update(first_params):
    """Another power of two changes it only by what float16 rounds at its ends."""
    (batch,) = batches(8, 1)
    results = []
    for scale in (2.0**7, 2.0**9):
        slots = {tensor_names.SCALE: np.float32(scale)}
        towers = made(first_params, "float16", **slots)
        done = towers.train_step(split(batch, 1), 0, RATE)
        results.append((float(done.norm), towers.snapshot()[0]))
    (norm, params), (other_norm, others) = results
    assert norm == pytest.approx(other_norm, rel=1e-3)
    for name, value in params.items():
        np.testing.assert_allclose(others[name], value, atol=1e-3 * RATE + 1e-4)


def followed(finite_steps, scale):
    state = {name: tf.constant(0.0) for name in tensor_names.STATE}
    state[tensor_names.SCALE] = tf.constant(scale)
    after_step = tf.function(precision.after_step, autograph=False)
    for finite in finite_steps:
        state = after_step(state, tf.constant(finite))
    names = (tensor_names.SCALE, tensor_names.GOOD_STEPS, tensor_names.SKIPS)
    return tuple(float(state[name]) for name in names)


def test_scale_grows_after_many_good_steps_and_halves_at_once():
    good = [True] * precision.GROW_AFTER
    assert followed(good[:-1], 8.0) == (8.0, precision.GROW_AFTER - 1, 0)
    assert followed(good, 8.0) == (16.0, 0, 0)
    assert followed([*good, *good], 8.0) == (32.0, 0, 0)
    assert followed([*good[:-1], False], 8.0) == (4.0, 0, 1)
    assert followed([*good[:-1], False, *good[:-1]], 8.0)[0] == 4.0
    assert followed([False] * 3, 2.0) == (precision.FLOOR, 0, 3)
    assert followed(good, precision.CEILING)[0] == precision.CEILING


def test_too_many_skips_in_a_row_end_the_run(first_params):
    broken = first_params | {"output_bias": np.full(3, np.nan, np.float32)}
    towers = made(broken, "float16")
    data = [towers.place(split(batch, 1)) for batch in batches(8, 1) * 60]
    recorded, saved = [], []

    class Assessment:
        def step(self, done):
            recorded.append(done.step)

    state = task_lib.TrainState({}, {}, 0, identity={})
    with pytest.raises(Diverged, match=r"step 25: 25 steps in a row .* scale 1:"):
        loop.train(
            towers,
            state,
            loop.TrainingPlan(60, 0, RATE, save_every=10),
            batches=iter(data),
            save=saved.append,
            recorder=Assessment(),
        )
    assert recorded == [*range(1, precision.MAX_SKIPS)]
    assert saved == []  # a rollback goes back to before the first of them


def test_a_save_waits_until_the_scale_fits(first_params):
    towers = made(first_params, "float16", **{tensor_names.SCALE: np.float32(2.0**24)})
    data = [towers.place(split(batch, 1)) for batch in batches(8, 1) * 24]
    skipped, saved = [], []

    class Assessment:
        def step(self, done):
            skipped.extend([done.step] * bool(done.scaling[tensor_names.SKIPS]))

    loop.train(
        towers,
        task_lib.TrainState({}, {}, 0, identity={}),
        loop.TrainingPlan(24, 0, RATE, save_every=2),
        batches=iter(data),
        save=lambda state: saved.append(state.step),
        recorder=Assessment(),
    )
    assert 2 in skipped
    good = [step for step in range(1, 25) if step == 24 or step not in skipped]
    wanted = {min(step for step in good if step >= due) for due in range(2, 25, 2)}
    assert saved == sorted(wanted)


class Rounding(collective.Solo):
    """One process whose sums are sent in float16."""

    sends_float16 = True


def test_a_loss_that_no_scale_mends_ends_the_run_at_once(first_params):
    """Sums in float16 may overflow; a pass in float32 that gives no number did not."""
    broken = first_params | {"output_bias": np.full(3, np.nan, np.float32)}
    towers = made(broken, "float32", group=Rounding())
    assert precision.scaling(towers.snapshot()[1])
    data = [towers.place(split(batch, 1)) for batch in batches(8, 1) * 9]
    state = task_lib.TrainState({}, {}, 0, identity={})
    with pytest.raises(Diverged, match=r"^step 1: loss nan"):
        loop.train(
            towers,
            state,
            loop.TrainingPlan(9, 0, RATE, save_every=1000),
            batches=iter(data),
            save=pytest.fail,
            recorder=mock.Mock(),
        )


def test_clip_is_that_of_the_gradient_without_the_scale():
    grads = {"a": tf.constant([3.0, 4.0]) * 1024.0}
    params = {"a": tf.constant([0.0, 0.0])}
    optimizer = Optimizer()
    slots = optimizer.zero_slots({"a": np.zeros(2, "f")})
    state = precision.first_state() | {tensor_names.SCALE: np.float32(1024)}
    plain = applied(optimizer, params, slots, {"a": tf.constant([3.0, 4.0])}, 0)
    scaled = applied(optimizer, params, slots | state, grads, 0)
    assert float(plain[2]) == float(scaled[2]) == 5.0
    np.testing.assert_allclose(scaled[0]["a"], plain[0]["a"], rtol=1e-6)


def applied(optimizer, params, slots, grads, step):
    norm = update.global_norm(
        tf.concat([tf.reshape(g, [-1]) for g in grads.values()], 0)
    )
    return update.apply_gradients(
        optimizer,
        params,
        slots,
        grads=grads,
        norm=norm,
        rate=tf.constant(0.1),
        step=tf.constant(step, tf.int64),
    )


@pytest.mark.parametrize("name", ["adamw", "lamb", "adafactor"])
def test_an_optimizer_does_not_count_steps_that_overflowed(name):
    """Three skips, then the first step: it is what a first step is."""
    params = {"a/kernel": tf.constant([[3.0, -4.0], [1.0, 2.0]])}
    grads = {"a/kernel": tf.constant([[0.1, 0.2], [-0.3, 0.1]])}
    infinite = {"a/kernel": grads["a/kernel"] * np.inf}
    optimizer = Optimizer(name, ema_decay=0.9)
    slots = optimizer.zero_slots({k: v.numpy() for k, v in params.items()})
    wanted, _, _ = applied(optimizer, params, slots, grads, 0)
    actual, own = params, slots | precision.first_state()
    for step in range(3):
        actual, own, _ = applied(optimizer, actual, own, infinite, step)
    scaled = {"a/kernel": grads["a/kernel"] * own[tensor_names.SCALE]}
    actual, own, _ = applied(optimizer, actual, own, scaled, 3)
    assert float(own[tensor_names.SKIPPED]) == 3
    np.testing.assert_allclose(actual["a/kernel"], wanted["a/kernel"], rtol=1e-6)
