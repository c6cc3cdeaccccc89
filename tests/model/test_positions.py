"""A last layer computed only at the positions that a head reads."""

import numpy as np
import tensorflow as tf

from bert_mgpu.model import bert, params
from tests.support.tiny import small_config

CONFIG = small_config(num_hidden_layers=3)
POSITIONS = np.array([[0, 7], [3, 3], [11, 1], [0, 2]], np.int32)


def results(weights, read):
    """The outputs of `read` for a batch, and the gradient of a mixture of them."""
    rng = np.random.default_rng(1)
    ids = tf.constant(rng.integers(0, 50, (4, 12)), tf.int32)
    mask = tf.constant(np.arange(12) < [[12], [9], [12], [4]], tf.int32)
    tensors = {name: tf.constant(value) for name, value in weights.items()}
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        batch = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids}
        vectors = read(tensors, batch)
        mixture = tf.reduce_sum(vectors * rng.standard_normal(vectors.shape))
    grads = tape.gradient(mixture, tensors, unconnected_gradients="zero")
    return vectors.numpy(), {k: tf.convert_to_tensor(g) for k, g in grads.items()}


def test_chosen_positions_are_those_of_all():
    weights = params.initialize(params.bert_specs(CONFIG), 0.5, seed=3)

    def pick(tensors, batch):
        last = bert.encode(tensors, CONFIG, batch)[-1]
        return tf.gather(last, POSITIONS, batch_dims=1)

    def only(tensors, batch):
        hidden = bert.encode(tensors, CONFIG, batch, positions=tf.constant(POSITIONS))
        assert [state.shape[1] for state in hidden] == [12, 12, 12, 2]
        return hidden[-1]

    (picked, wanted), (computed, grads) = (
        results(weights, pick),
        results(weights, only),
    )
    np.testing.assert_allclose(computed, picked, rtol=0, atol=1e-5)
    for name, grad in wanted.items():
        if name.endswith("key/bias"):
            continue  # zero in exact arithmetic: nothing but rounding
        limit = 1e-5 * np.abs(grad).max() + 1e-6
        np.testing.assert_allclose(grads[name], grad, rtol=0, atol=limit, err_msg=name)
