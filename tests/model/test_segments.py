"""Rows cut into segments, and the pooling of their vectors, against numpy."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.model import segments
from bert_mgpu.model.params import initialize

WIDTH = 6
HOW = ("mean", "max", "attention")


def drawn(how, spread=0.5):
    """Parameters that are nowhere zero."""
    rng = np.random.default_rng(3)
    specs = segments.specs(WIDTH, how)
    return {n: rng.normal(0, spread, s).astype("f") for n, (s, _) in specs.items()}


def by_numpy(params, vectors, how):
    """The pooled vector of the segments that a text has: [k, H] -> [H]."""
    if how == "max":
        return vectors.max(0)
    if how == "mean":
        return vectors.mean(0)
    dense = vectors @ params["segments/dense/kernel"] + params["segments/dense/bias"]
    scores = np.tanh(dense) @ params["segments/query"]
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ vectors


@pytest.mark.parametrize("how", HOW)
def test_pooling_is_over_the_segments_of_a_text_alone(how):
    rng, params = np.random.default_rng(0), drawn(how)
    vectors = rng.normal(size=(4, 5, WIDTH)).astype("f")
    counts = [5, 1, 3, 2]
    is_real = np.arange(5) < np.array(counts)[:, None]
    vectors[~is_real] = 1e4  # of padding: it must not matter
    actual = segments.pool(params, tf.constant(vectors), is_real, how=how)
    wanted = [
        by_numpy(params, own[:count], how)
        for own, count in zip(vectors, counts, strict=True)
    ]
    np.testing.assert_allclose(actual, wanted, atol=1e-5)
    # A single segment passes through with every bit.
    assert np.array_equal(actual[1], vectors[1, 0])


def test_attention_begins_as_the_mean():
    params = initialize(segments.specs(WIDTH, "attention"), 0.02, 1)
    assert params["segments/dense/kernel"].std() > 0.01
    vectors = tf.random.stateless_normal([3, 4, WIDTH], [1, 2])
    is_real = tf.constant(np.arange(4) < np.array([[4], [2], [1]]))
    mean = segments.pool({}, vectors, is_real, how="mean")
    np.testing.assert_allclose(
        segments.pool(params, vectors, is_real, how="attention"), mean, atol=1e-6
    )
    assert segments.specs(WIDTH, "mean") == segments.specs(WIDTH, "max") == {}


@pytest.mark.parametrize("how", HOW)
def test_every_parameter_learns_and_padding_gets_no_gradient(how):
    params = {name: tf.constant(value) for name, value in drawn(how).items()}
    vectors = tf.random.stateless_normal([2, 3, WIDTH], [1, 2])
    is_real = tf.constant([[True, True, False], [True, False, False]])
    with tf.GradientTape() as tape:
        tape.watch([params, vectors])
        loss = tf.reduce_sum(segments.pool(params, vectors, is_real, how=how) ** 2)
    of_params, of_vectors = tape.gradient(loss, [params, vectors])
    assert all(np.abs(value).max() > 0 for value in of_params.values())
    assert np.isfinite(of_vectors).all() and not of_vectors[0, 2].numpy().any()
    assert of_vectors[0, 1].numpy().any() and of_vectors[1, 0].numpy().any()


def batch_of(lengths, width):
    mask = (np.arange(width) < np.array(lengths)[:, None]).astype(np.int32)
    ids = mask * np.arange(1, mask.size + 1).reshape(mask.shape).astype(np.int32)
    return {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_rows_are_cut_at_every_length(dynamic):
    batch = batch_of([11, 4, 0, 8], 11)
    spec = tf.TensorSpec([None, None] if dynamic else [4, 11], tf.int32)
    cut = tf.function(lambda **columns: segments.split(columns, 4))
    parts, is_real = cut.get_concrete_function(**dict.fromkeys(batch, spec))(**batch)
    assert parts["input_ids"].shape == (4 * 3, 4)
    padded = np.pad(batch["input_ids"], [[0, 0], [0, 1]])
    assert np.array_equal(parts["input_ids"], padded.reshape(12, 4))
    # The first of a row that only fills a batch counts: a mean of nothing is no number.
    assert is_real.numpy().sum(1).tolist() == [3, 1, 1, 2]


def test_short_rows_stay_as_they_are():
    batch = batch_of([3, 2], 3)
    parts, is_real = segments.split(batch, 4)
    assert is_real.shape == (2, 1)
    assert all(np.array_equal(parts[name], batch[name]) for name in batch)


@pytest.mark.parametrize("how", HOW)
def test_half_precision_is_pooled_in_float32(how):
    """Sums of many segments would lose what 8 bits cannot hold."""
    values = np.random.default_rng(0).normal(1, 0.5, (1, 300, WIDTH))
    halves = tf.cast(values.astype("f"), tf.bfloat16)
    params, is_real = drawn(how), np.ones((1, 300), bool)
    pooled = segments.pool(params, halves, is_real, how=how)
    wanted = by_numpy(params, tf.cast(halves, tf.float32)[0].numpy(), how)
    assert pooled.dtype == tf.float32
    np.testing.assert_allclose(pooled[0], wanted, rtol=1e-4)
