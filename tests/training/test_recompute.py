"""Results that are worked out again are the same, dropout on."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.task import DropoutKey
from bert_mgpu.model import bert
from bert_mgpu.training import precision
from tests.support.batches import TWO_LAYERS, make_batch
from tests.support.marks import GRAPH_AND_RARELY_XLA, rarely


def packed(batch):
    """Two examples in every row: 5 tokens, then up to 7."""
    mask = batch["input_mask"] * (1 + (np.arange(12) >= 5))
    positions = np.broadcast_to([*range(5), *range(7)], mask.shape)
    return batch | {"input_mask": mask, "position_ids": positions.astype(np.int32)}


def gradients(params, recompute, compiled, positions, pack=False, low="float32"):
    """The hidden states and the gradient of a mixture of the last ones."""
    rng = np.random.default_rng(1)
    batch = make_batch(rng, 6, ragged=False)
    batch = packed(batch) if pack else batch
    tensors = {name: tf.constant(value) for name, value in params.items()}
    queried = None if positions is None else tf.constant(positions, tf.int32)
    width = 12 if positions is None else len(positions[0])
    dropout_key = DropoutKey(
        tf.constant(7, tf.uint64), tf.constant(3, tf.int64), tf.constant(0)
    )
    mixture = rng.standard_normal((6, width, TWO_LAYERS.hidden_size)).astype("f")

    @tf.function(jit_compile=compiled, autograph=False)
    def run(params):
        with tf.GradientTape() as tape:
            tape.watch(params)
            cast = precision.cast(params, low)
            hidden = bert.encode(
                cast,
                TWO_LAYERS,
                batch,
                dropout_key=dropout_key,
                positions=queried,
                recompute=recompute,
            )
            hidden = [tf.cast(state, tf.float32) for state in hidden]
            loss = tf.reduce_sum(hidden[-1] * mixture)
        return hidden, tape.gradient(loss, params, unconnected_gradients="zero")

    hidden, grads = run(tensors)
    grads = {k: tf.convert_to_tensor(g).numpy() for k, g in grads.items()}
    return [state.numpy() for state in hidden], grads


@pytest.mark.parametrize("compiled", GRAPH_AND_RARELY_XLA)
@pytest.mark.parametrize("positions", [None, [[0, 2]] * 6], ids=["all", "some"])
def test_recomputed_equals_kept(two_layer_params, compiled, positions):
    run = functools.partial(
        gradients, two_layer_params, compiled=compiled, positions=positions
    )
    hidden, wanted = run("none")
    for recompute in ("attention", "block"):
        again, grads = run(recompute)
        for state, other in zip(hidden, again, strict=True):
            np.testing.assert_allclose(other, state, rtol=0, atol=1e-6)
        for name, grad in wanted.items():
            if not name.endswith("key/bias"):  # zero but for rounding
                limit = 1e-5 * np.abs(grad).max() + 1e-6
                assert np.abs(grads[name] - grad).max() <= limit, (recompute, name)


@pytest.mark.parametrize("low", ["bfloat16", *rarely("float32")])
@pytest.mark.parametrize("positions", [None, [[0, 5]] * 6], ids=["all", "some"])
def test_packed_rows_and_fewer_bits_are_recomputed_too(
    two_layer_params, low, positions
):
    """To what float32 rounds, and bfloat16 at its 8 bits."""
    how = {"compiled": False, "positions": positions, "pack": True, "low": low}
    error = {"float32": 1e-5, "bfloat16": 0.02}[low]
    hidden, wanted = gradients(two_layer_params, "none", **how)
    for recompute in ("attention", "block"):
        again, grads = gradients(two_layer_params, recompute, **how)
        for state, other in zip(hidden, again, strict=True):
            np.testing.assert_allclose(other, state, rtol=error, atol=error)
        for name, grad in wanted.items():
            if not name.endswith("key/bias"):  # zero but for rounding
                limit = error * np.abs(grad).max() + 0.1 * error
                assert np.abs(grads[name] - grad).max() <= limit, (recompute, name)
