"""Gradients and losses as one vector."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.training.gradient_vector import Layout

SHAPES = {"b/kernel": [3, 5], "a/bias": [5], "scalar": []}


@pytest.mark.parametrize("more", [11, 27, 28], ids="{} values more".format)
def test_values_come_back_by_name(more):
    layout = Layout(SHAPES | {"last": [more]}, ["one", "two"])
    rng = np.random.default_rng(0)
    shapes = SHAPES | {"last": [more]}
    grads = {n: rng.standard_normal(shape).astype("f") for n, shape in shapes.items()}
    losses = {"two": np.float32(2), "one": np.float32(1)}
    joined = layout.join(dict(reversed(grads.items())), losses)
    assert joined.shape == [layout.size]
    gradient, sums = layout.split(joined)
    assert sums.numpy().tolist() == [1, 2]
    for name, value in layout.gradients(gradient).items():
        assert np.array_equal(value, grads[name]), name
    # What fills the vector up adds nothing to the gradient's norm.
    wanted = sum(np.square(value.astype("d")).sum() for value in grads.values())
    assert np.square(gradient.numpy().astype("d")).sum() == pytest.approx(wanted, 1e-12)


def test_the_gradients_are_cut_without_a_copy():
    layout = Layout(SHAPES, ["loss"])
    vector = tf.ones([layout.size])
    gradient, _ = layout.split(vector)
    arrays = [np.frombuffer(memoryview(one), np.float32) for one in (gradient, vector)]
    assert len(arrays[0]) >= 21 and np.shares_memory(*arrays)
