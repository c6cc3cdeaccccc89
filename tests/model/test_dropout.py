"""Dropout masks: their rate, their scale, and what they may depend on."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.task import DropoutKey
from bert_mgpu.model import layers


def dropout_key(seed=42, step=7, first_row=0):
    return DropoutKey(
        tf.constant(seed, tf.uint64),
        tf.constant(step, tf.int64),
        tf.constant(first_row, tf.int64),
    )


def mask(shape=(8, 5, 7), rate=0.1, site=3, **where):
    return layers.keep_mask(shape, rate, dropout_key(**where), site=site)[0].numpy()


def test_bits_are_those_of_philox():
    """Known answer of Salmon et al. 2011 (Random123, philox4x32-10, all zero)."""
    words = np.array([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], "<u4")
    keep = mask((1, 16), 0.5, site=0, seed=0, step=0)
    assert np.array_equal(keep[0], words.view(np.uint8) >= 128)


def test_rows_have_their_masks_in_any_batch():
    whole = mask((8, 5, 7))
    for first, count in ((0, 4), (4, 4), (3, 2), (7, 1)):
        part = mask((count, 5, 7), first_row=first)
        assert np.array_equal(part, whole[first : first + count])


@pytest.mark.parametrize("other", [{"seed": 43}, {"step": 8}, {"site": 4}])
def test_masks_differ_by_seed_step_and_site(other):
    assert not np.array_equal(mask(), mask(**other))


def test_rows_differ():
    rows = mask((64, 100)).reshape(64, -1)
    assert len(np.unique(rows, axis=0)) == 64


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 0.9])
def test_rate_and_scale(rate):
    bits, threshold = layers.dropout_lanes(rate)
    true_rate = threshold / 2**bits
    assert true_rate == pytest.approx(rate, rel=0.02)
    values = layers.dropout(tf.ones([64, 4096]), rate, dropout_key(), site=1).numpy()
    dropped = np.mean(values == 0)
    deviation = np.sqrt(true_rate * (1 - true_rate) / values.size)
    assert abs(dropped - true_rate) < 5 * deviation
    kept = values[values > 0]
    assert np.allclose(kept, 1 / (1 - true_rate))


def test_published_rate_takes_one_byte_a_value():
    assert layers.dropout_lanes(0.1) == (8, 26)
    assert layers.dropout_lanes(0.01)[0] == 16


# How far off the scale may be where each quotient is rounded to so many bits.
BIASES = {tf.float32: 1e-7, tf.bfloat16: 3e-4, tf.float16: 3e-5}


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("dtype", BIASES)
def test_the_scale_is_exact_in_every_precision(dtype, rate, xla):
    """Of values and gradients, beside numpy's quotients; masks are the same."""
    bits, threshold = layers.dropout_lanes(rate)
    keep_rate = 1 - threshold / 2**bits
    inputs = tf.cast(np.random.default_rng(1).uniform(1, 2, (64, 4096)), dtype)
    above = inputs * 0.5

    @tf.function(jit_compile=xla)
    def work(inputs, above):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layers.dropout(inputs, rate, dropout_key(), site=1)
        return outputs, tape.gradient(outputs, inputs, output_gradients=above)

    kept = mask((64, 4096), rate, site=1)
    for given, outputs in zip((inputs, above), work(inputs, above), strict=True):
        wanted = given.numpy().astype("d") / keep_rate
        outputs = outputs.numpy().astype("d")
        assert np.array_equal(outputs != 0, kept)
        assert outputs[kept].sum() == pytest.approx(
            wanted[kept].sum(), rel=BIASES[dtype]
        )
        one_bit = 2.0 ** -{tf.float32: 23, tf.bfloat16: 8, tf.float16: 11}[dtype]
        np.testing.assert_allclose(outputs[kept], wanted[kept], rtol=1.01 * one_bit)


def test_nothing_is_dropped_without_noise_or_rate():
    ones = tf.ones([3, 4])
    assert layers.dropout(ones, 0.5, None, site=0) is ones
    assert layers.dropout(ones, 0.0, dropout_key(), site=0) is ones


def test_xla_draws_the_same_bits():
    jitted = tf.function(
        lambda n: layers.keep_mask((4, 6, 9), 0.1, n, site=5)[0], jit_compile=True
    )
    assert np.array_equal(jitted(dropout_key()).numpy(), mask((4, 6, 9), site=5))
