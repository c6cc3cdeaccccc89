"""First weights: TensorFlow's words by scipy's quantiles, under any numpy."""

import zlib

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from bert_mgpu.model import params

SPECS = {
    "a/kernel": ((30, 41), "truncated_normal"),  # 1230 values: no whole counters
    "b/kernel": ((30, 41), "truncated_normal"),
    "a/bias": ((41,), "zeros"),
    "a/LayerNorm/gamma": ((41,), "ones"),
}


def wanted(name, shape, deviation, seed):
    """Counters: index, hash of the name, 0, all ones; the key is the seed."""
    low = zlib.crc32(name.encode()) << 32
    words = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[int(np.prod(shape))],
        key=tf.constant([seed], tf.uint64),
        counter=tf.constant([low, 0xFFFFFFFF << 32], tf.uint64),
        alg=1,  # Philox
        dtype=tf.uint32,
    ).numpy()
    ends = scipy.special.ndtr([-2.0, 2.0])
    shares = ends[0] + (words + 0.5) / 2**32 * (ends[1] - ends[0])
    return (scipy.special.ndtri(shares) * deviation).reshape(shape)


@pytest.mark.parametrize("seed", [0, 42, 2**63 - 1])
def test_values_are_quantiles_of_words(seed):
    initial = params.initialize(SPECS, 0.02, seed)
    for name in ("a/kernel", "b/kernel"):
        values = wanted(name, (30, 41), 0.02, seed)
        assert initial[name].dtype == np.float32
        np.testing.assert_allclose(initial[name], values, rtol=1e-7, atol=1e-12)
    assert not initial["a/bias"].any() and (initial["a/LayerNorm/gamma"] == 1).all()


def test_a_value_follows_from_name_and_seed_alone():
    whole = params.initialize(SPECS, 0.02, 3)
    alone = params.initialize({"b/kernel": SPECS["b/kernel"]}, 0.02, 3)
    assert np.array_equal(alone["b/kernel"], whole["b/kernel"])
    assert not np.array_equal(whole["a/kernel"], whole["b/kernel"])
    other = params.initialize(SPECS, 0.02, 4)
    assert not np.array_equal(other["a/kernel"], whole["a/kernel"])
