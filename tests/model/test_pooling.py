"""One vector of a row's hidden states, beside numpy's."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.config import features
from bert_mgpu.model import pooling

LENGTHS = [5, 1, 3]
RNG = np.random.default_rng(3)
HIDDEN = RNG.normal(0, 1, (3, 5, 8)).astype("f")
MASK = (np.arange(5) < np.array(LENGTHS)[:, None]).astype(np.int32)
PARAMS = {
    "bert/pooler/dense/kernel": RNG.normal(0, 1, (8, 8)).astype("f"),
    "bert/pooler/dense/bias": RNG.normal(0, 1, 8).astype("f"),
}
REAL = [HIDDEN[row, :length] for row, length in enumerate(LENGTHS)]
WANTED = {
    "cls": HIDDEN[:, 0],
    "mean": np.stack([one.mean(0) for one in REAL]),
    "max": np.stack([one.max(0) for one in REAL]),
    "pooler": np.tanh(
        HIDDEN[:, 0] @ PARAMS["bert/pooler/dense/kernel"]
        + PARAMS["bert/pooler/dense/bias"]
    ),
}


@pytest.mark.parametrize("name", WANTED)
def test_poolings_leave_padding_out(name):
    noisy = HIDDEN + 100.0 * (1 - MASK)[..., None].astype("f")
    actual = pooling.POOLINGS[name](PARAMS, tf.constant(noisy), tf.constant(MASK))
    np.testing.assert_allclose(actual, WANTED[name], atol=1e-6)


def test_rows_that_only_fill_a_batch_give_numbers():
    nothing = tf.zeros([1, 5], tf.int32)
    for pool in pooling.POOLINGS.values():
        assert np.isfinite(pool(PARAMS, tf.constant(HIDDEN[:1]), nothing)).all()


def test_every_pooling_of_the_flags_is_there():
    assert {*features.POOLINGS} == {*pooling.POOLINGS} == {*WANTED}


def test_vectors_of_length_one():
    vectors = np.concatenate([HIDDEN[0], np.zeros((1, 8), "f"), 1e-13 * HIDDEN[1]])
    # torch.nn.functional.normalize: v / max(|v|, 1e-12)
    lengths = np.sqrt(np.sum(vectors**2, axis=1, keepdims=True))
    wanted = vectors / np.maximum(lengths, 1e-12)
    np.testing.assert_allclose(pooling.normalized(vectors), wanted, atol=1e-7)
