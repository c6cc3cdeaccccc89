"""What the number of devices and towers must not change."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.errors import Preempted
from bert_mgpu.core.task import DropoutKey
from bert_mgpu.distributed import devices, strategies
from bert_mgpu.model import bert, heads
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training import towers
from tests.support.batches import CONFIG, LABELS, LENGTH, NO_DROPOUT, make_batch, split
from tests.support.compare import assert_close, assert_same_bits
from tests.support.marks import PLAIN_AND_RARELY_XLA, rarely


def batches(rows, steps, seed=3, ragged=True):
    rng = np.random.default_rng(seed)
    return [make_batch(rng, rows, ragged=ragged) for _ in range(steps)]


@pytest.mark.parametrize(
    ("xla", "n_devices"), [(False, 2), (True, 2), *rarely((False, 4), (True, 4))]
)
def test_placement_changes_no_bit(train, usual_graphs, xla, n_devices):
    """TensorFlow's graph optimizer must not change the order of sums, either."""
    # Full rows first: sums of four numbers, none of them zero, depend on their order.
    data = batches(8, 10, ragged=False) + batches(8, 10, ragged=True)
    wanted, losses, norms = train(4, 1, data, xla=xla)
    assert losses[-1] != losses[0]
    params, other_losses, other_norms = train(4, n_devices, data, xla=xla)
    assert other_losses == losses
    assert other_norms == norms
    assert_same_bits(params, wanted)


@pytest.mark.parametrize("xla", PLAIN_AND_RARELY_XLA)
def test_towers_equal_one_large_batch(train, xla):
    data = batches(8, 20)
    wanted, losses, _ = train(1, 1, data, xla=xla)
    params, other_losses, _ = train(4, 2, data, xla=xla)
    np.testing.assert_allclose(other_losses, losses, rtol=1e-5)
    assert_close(params, wanted)


@pytest.mark.parametrize("xla", PLAIN_AND_RARELY_XLA)
def test_seven_towers_on_six_devices(train, xla):
    data = batches(14, 10)
    wanted, losses, _ = train(1, 1, data, xla=xla)
    params, other_losses, _ = train(7, 6, data, xla=xla)
    np.testing.assert_allclose(other_losses, losses, rtol=1e-5)
    assert_close(params, wanted)


def test_xla_changes_no_dropout_mask(train):
    data = batches(8, 10)
    wanted, losses, _ = train(2, 1, data, xla=False)
    params, other_losses, _ = train(2, 1, data, xla=True)
    np.testing.assert_allclose(other_losses, losses, rtol=1e-5)
    assert_close(params, wanted)


def test_seed_and_dropout_matter(train):
    data = batches(8, 3)
    _, losses, _ = train(2, 1, data)
    _, other_seed, _ = train(2, 1, data, seed=43)
    _, no_dropout, _ = train(2, 1, data, config=NO_DROPOUT)
    assert losses != other_seed
    assert losses != no_dropout


def test_loss_and_norm_are_those_of_the_global_mean(train, first_params):
    """Against plain autodiff of the mean over all rows, without towers."""
    (batch,) = batches(8, 1)
    _, (loss,), (norm,) = train(4, 2, [batch], config=NO_DROPOUT)
    params = {name: tf.constant(value) for name, value in first_params.items()}
    with tf.GradientTape() as tape:
        tape.watch(params)
        hidden = bert.encode(params, NO_DROPOUT, batch)
        logits = heads.classification_logits(
            params, bert.pool(params, hidden[-1][:, 0]), 0.0
        )
        losses = heads.cross_entropy(logits, batch["label_ids"])
        real = batch["is_real_example"] > 0
        mean = tf.reduce_mean(losses[real])
    grads = [tf.convert_to_tensor(g) for g in tape.gradient(mean, [*params.values()])]
    squares = [np.square(grad.numpy(), dtype=np.float64).sum() for grad in grads]
    assert loss == pytest.approx(float(mean), rel=1e-5)
    assert norm == pytest.approx(np.sqrt(sum(squares)), rel=1e-5)


def test_empty_batch_changes_only_by_decay(train, first_params):
    (batch,) = batches(4, 1)
    batch["is_real_example"][:] = 0
    params, (loss,), (norm,) = train(2, 1, [batch])
    assert loss == 0 and norm == 0
    assert np.isfinite(params["output_weights"]).all()
    assert_same_bits(
        {"output_bias": params["output_bias"]},
        {"output_bias": first_params["output_bias"]},
    )


@pytest.mark.parametrize(
    ("n_towers", "n_devices", "counts"),
    [
        (6, 3, [2, 2, 2]),
        (6, 1, [6]),
        (1, 8, [1]),
        (7, 6, [2, 1, 1, 1, 1, 1]),
        (4, 3, [2, 1, 1]),
    ],
)
def test_every_device_gets_its_share(n_towers, n_devices, counts):
    by_device = devices.assign_towers(n_towers, n_devices)
    assert [len(own) for own in by_device] == counts
    assert [tower for own in by_device for tower in own] == [*range(n_towers)]


def test_placement_is_told():
    gpus = [f"GPU:{index}" for index in range(6)]
    text = devices.describe_placement(devices.assign_towers(7, 6), gpus)
    assert text.startswith("7 towers on 6 GPU devices (2, 1, 1, 1, 1, 1:")
    assert "(2, 1, 1, 1, 1, 1: 5 wait for the others)" in text
    three = devices.describe_placement(devices.assign_towers(3, 2), gpus)
    assert "(2, 1: 1 waits for the others)" in three
    assert "5 more visible" in devices.describe_placement(
        devices.assign_towers(1, 6), gpus
    )
    assert "(3 each)" in devices.describe_placement(
        devices.assign_towers(6, 2), gpus[:2]
    )


def test_outputs_come_in_the_order_of_rows(first_params):
    task = Classification("x", CONFIG, LABELS, max_seq_length=LENGTH)
    batch = make_batch(np.random.default_rng(0), 6, ragged=False)
    wanted = task.outputs(
        {k: tf.constant(v) for k, v in first_params.items()},
        {k: tf.constant(v) for k, v in batch.items()},
    )["logits"]
    visible = devices.configure("cpu", 2)
    three = towers.Towers(task, 3, visible, seed=1, xla=False)
    three.load(first_params, {})
    logits = three.outputs(split(batch, 3))["logits"]
    np.testing.assert_allclose(logits, wanted, atol=1e-6)


def test_other_weights_use_what_is_compiled(first_params):
    """As the next one of --seeds does: nothing is to be told of it."""
    task = Classification("x", CONFIG, LABELS, max_seq_length=LENGTH)
    made = towers.Towers(task, 2, devices.configure("cpu", 1), seed=1, xla=True)
    batch = made.place(split(batches(4, 1)[0], 2))
    counts = []
    for _ in range(2):
        made.load(first_params, made.initial_slots(first_params))
        counts.append(made.compilations)
        made.train_step(batch, 0, 1e-3)
        counts.append(made.compilations)
    assert counts == [0, 1, 1, 1]


def test_sigterm_is_no_failure_of_a_device():
    def stopped():
        raise Preempted("by SIGTERM")

    def failing():
        raise ValueError("of this device")

    assert isinstance(strategies.failure_alone("CPU:0", failing), ValueError)
    with pytest.raises(Preempted):
        strategies.failure_alone("CPU:0", stopped)


def test_frequent_shapes_of_a_stream_are_compiled(first_params):
    """The third batch of a shape is; it counts alone, and the outputs are the same."""
    from bert_mgpu.training.programs import Compilation

    task = Classification("x", CONFIG, LABELS, max_seq_length=LENGTH)
    compilation = Compilation(False, False, forward_after=2)
    visible = devices.configure("cpu", 2)
    made = towers.Towers(task, 2, visible, seed=1, xla=compilation)
    made.load(first_params, {})
    rng, seen, logits = np.random.default_rng(0), [], {}
    batch_of = {rows: split(make_batch(rng, rows, ragged=False), 2) for rows in (4, 8)}
    for rows in (4, 4, 8, 4, 8, 4, 8):
        logits.setdefault(rows, []).append(made.outputs(batch_of[rows])["logits"])
        program = made.programs._compiled_forward
        functions = [each.function_def for each in program._traced.values()]
        assert all(each.attr["_XlaMustCompile"].b for each in functions)
        seen.append((rows, len(functions)))
    assert seen == [(4, 0), (4, 0), (8, 0), (4, 1), (8, 1), (4, 1), (8, 2)]
    for first, *others in logits.values():
        for other in others:
            np.testing.assert_allclose(other, first, atol=1e-6)


def test_noise_is_not_used_without_it(first_params):
    """No noise means inference; the same noise means the same masks."""
    batch = make_batch(np.random.default_rng(0), 2, ragged=False)

    def last(dropout_key):
        return bert.encode(first_params, CONFIG, batch, dropout_key=dropout_key)[
            -1
        ].numpy()

    def dropout_key(step):
        return DropoutKey(
            tf.constant(1, tf.uint64), tf.constant(step, tf.int64), tf.constant(0)
        )

    assert np.array_equal(last(None), last(None))
    assert np.array_equal(last(dropout_key(4)), last(dropout_key(4)))
    assert not np.array_equal(last(dropout_key(4)), last(dropout_key(5)))


@pytest.mark.parametrize("xla", PLAIN_AND_RARELY_XLA)
def test_accumulation_is_as_exact_as_towers(train, xla):
    """Parts of 2 rows: eight towers, or one that takes eight turns, bit for bit."""
    data = batches(16, 3, ragged=False) + batches(16, 3)
    wanted, losses, norms = train(8, 1, data, xla=xla)
    for n_towers, n_devices in ((1, 1), (2, 2), (4, 2)):
        params, other_losses, other_norms = train(
            n_towers, n_devices, data, xla=xla, parts=8
        )
        assert other_losses == losses
        assert other_norms == norms
        assert_same_bits(params, wanted)


@pytest.mark.parametrize("xla", PLAIN_AND_RARELY_XLA)
def test_accumulation_equals_one_large_batch(train, xla):
    """With dropout, rows that count nothing, and a turn of only such rows."""
    data = batches(12, 10)
    wanted, losses, _ = train(1, 1, data, xla=xla)
    for n_towers, parts in ((1, 4), (2, 6), (3, 12)):
        params, other_losses, _ = train(n_towers, n_towers, data, parts=parts, xla=xla)
        np.testing.assert_allclose(other_losses, losses, rtol=1e-5)
        assert_close(params, wanted)
