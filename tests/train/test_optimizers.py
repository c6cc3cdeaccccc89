"""Invariant 13: the optimizer against numpy over 100 steps."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.train import optimizers


def numpy_step(param, m, v, grad, rate, decay):
    """google-research/bert, optimization.py, in float64."""
    m = 0.9 * m + 0.1 * grad
    v = 0.999 * v + 0.001 * grad**2
    return param - rate * (m / (np.sqrt(v) + 1e-6) + decay * param), m, v


@pytest.mark.parametrize("size", [0.1, 100.0], ids=["below the clip", "clipped"])
def test_hundred_steps_equal_numpys(size):
    rng = np.random.default_rng(1)
    shapes = {"a/kernel": (7, 5), "a/bias": (5,), "b/LayerNorm/gamma": (7,)}
    params = {k: rng.standard_normal(s).astype("f") for k, s in shapes.items()}
    wanted = {k: (v.astype("d"), 0.0, 0.0) for k, v in params.items()}
    slots = {
        f"{k}/{s}": np.zeros_like(v)
        for k, v in params.items()
        for s in optimizers.SLOTS
    }
    for step in range(100):
        grads = {
            k: (size * rng.standard_normal(s)).astype("f") for k, s in shapes.items()
        }
        rate = 1e-2 * (1 - step / 100)
        params, slots, norm = optimizers.apply_gradients(
            params, slots, {k: tf.constant(g) for k, g in grads.items()}, rate
        )
        exact = np.sqrt(sum(np.square(g, dtype="d").sum() for g in grads.values()))
        assert float(norm) == pytest.approx(exact, rel=1e-6)
        for name, grad in grads.items():
            clipped = grad.astype("d") * min(1.0, 1.0 / exact)
            decay = 0.01 if name.endswith("kernel") else 0.0
            wanted[name] = numpy_step(*wanted[name], clipped, rate, decay)
    for name, (value, m, v) in wanted.items():
        np.testing.assert_allclose(params[name], value, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(slots[f"{name}/adam_m"], m, rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(slots[f"{name}/adam_v"], v, rtol=1e-3, atol=1e-9)


def test_infinite_gradient_gives_no_finite_norm():
    grads = {"a": tf.constant([1.0, np.inf]), "b": tf.constant([2.0])}
    assert not np.isfinite(float(optimizers.global_norm(grads)))
