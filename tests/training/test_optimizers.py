"""Every optimizer against numpy over 100 steps."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core import tensor_names
from bert_mgpu.training import optimizers, update
from bert_mgpu.training.optimizers import Optimizer
from tests.support.marks import rarely

STEPS = 100
SHAPES = {
    "bert/embeddings/word_embeddings": (11, 6),
    "bert/encoder/layer_0/output/dense/kernel": (6, 5),
    "bert/encoder/layer_0/output/dense/bias": (5,),
    "bert/encoder/layer_1/output/LayerNorm/gamma": (7,),
    "scalar/kernel": (1,),
    "stack/kernel": (2, 3, 4),
    "zero/kernel": (3, 5),
}
LARGE = {"a/kernel": (64, 65), "a/bias": (65,)}  # one is large enough for 8 bits
RATES = ((r"layer_0", 0.25), (r"embeddings", 0.5), (r"", 1.0))


# The papers, in float64: each takes and returns (param, state).


def google_step(p, state, g, rate, decay, t):
    """google-research/bert, optimization.py."""
    m, v = state or (0.0, 0.0)
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g**2
    return p - rate * (m / (np.sqrt(v) + 1e-6) + decay * p), (m, v)


def adam_direction(state, g, t, epsilon):
    """Kingma & Ba 2015, algorithm 1."""
    m, v = state or (0.0, 0.0)
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g**2
    return (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + epsilon), (m, v)


def adamw_step(p, state, g, rate, decay, t):
    """Loshchilov & Hutter 2019, algorithm 2, in the order of torch."""
    direction, state = adam_direction(state, g, t, 1e-8)
    return p * (1 - rate * decay) - rate * direction, state


def lamb_step(p, state, g, rate, decay, t, adapts):
    """You et al. 2020, algorithm 2, for a parameter that adapts."""
    update, state = adam_direction(state, g, t, 1e-6)
    update = update + decay * p
    if adapts:
        lengths = np.sqrt(np.sum(p**2)), np.sqrt(np.sum(update**2))
        if all(lengths):
            update = update * lengths[0] / lengths[1]
    return p - rate * update, state


def adafactor_step(p, state, g, rate, decay, t):
    """Shazeer & Stern 2018, algorithms 4 and 5, with the rate from outside."""
    beta = 1 - t**-0.8
    if p.ndim < 2:
        state = beta * (0.0 if state is None else state) + (1 - beta) * (g**2 + 1e-30)
        second = state
    else:
        rows, columns = state or (0.0, 0.0)
        rows = beta * rows + (1 - beta) * np.sum(g**2 + 1e-30, -1)
        columns = beta * columns + (1 - beta) * np.sum(g**2 + 1e-30, -2)
        state = rows, columns
        total = np.sum(rows, -1)[..., None, None]
        second = rows[..., :, None] * columns[..., None, :] / total
    update = g / np.sqrt(second)
    update = update / max(1.0, np.sqrt(np.mean(update**2)))
    return p * (1 - rate * decay) - rate * update, state


def lion_step(p, state, g, rate, decay, t):
    """Chen et al. 2023, program 1."""
    m = 0.0 if state is None else state
    update = np.sign(0.9 * m + 0.1 * g)
    return p - rate * (update + decay * p), 0.99 * m + 0.01 * g


REFERENCES = {
    "adamw_google": google_step,
    "adamw": adamw_step,
    "lamb": lamb_step,
    "adafactor": adafactor_step,
    "lion": lion_step,
}


def first_params(rng):
    params = {k: rng.standard_normal(s).astype("f") for k, s in SHAPES.items()}
    params["zero/kernel"][:] = 0
    return params


def gradients(rng, size=1.0):
    """Of very different sizes from row to row; some rows never get any."""
    grads = {}
    for name, shape in SHAPES.items():
        spread = 10.0 ** np.linspace(0, -4, shape[0]).reshape(-1, *[1] * len(shape[1:]))
        grads[name] = (size * spread * rng.standard_normal(shape)).astype("f")
    grads["bert/embeddings/word_embeddings"][3:7] = 0
    return grads


def test_all_optimizers_have_a_reference():
    assert REFERENCES.keys() == optimizers.OPTIMIZERS.keys()


@pytest.mark.parametrize(
    ("xla", "weight_decay"),
    [(False, 0.01), (True, 0.01), (False, 0.2), (False, 0.0), *rarely((True, 0.0))],
)
@pytest.mark.parametrize("name", REFERENCES)
def test_hundred_steps_equal_numpys(name, xla, weight_decay):
    rng = np.random.default_rng(1)
    optimizer = Optimizer(name, rates=RATES, weight_decay=weight_decay)
    params = first_params(rng)
    slots = optimizer.zero_slots(params)
    wanted = {k: (v.astype("d"), None) for k, v in params.items()}
    update = (
        tf.function(optimizer.update, jit_compile=True, autograph=False)
        if xla
        else None
    )
    for step in range(STEPS):
        rate, grads = 1e-2 * (1 - step / STEPS), gradients(rng)
        params, slots = (update or optimizer.update)(
            params,
            slots,
            grads,
            rate=tf.constant(rate, tf.float32),
            step=tf.constant(step, tf.int64),
        )
        for key, grad in grads.items():
            factor = 0.25 if "layer_0" in key else 0.5 if "embeddings" in key else 1.0
            excluded = "bias" in key or "LayerNorm" in key
            decay = 0.0 if excluded else weight_decay
            own = {"adapts": not excluded} if name == "lamb" else {}
            wanted[key] = REFERENCES[name](
                *wanted[key], grad.astype("d"), rate * factor, decay, step + 1, **own
            )
    for key, (value, _) in wanted.items():
        np.testing.assert_allclose(
            params[key], value, rtol=1e-4, atol=1e-5, err_msg=key
        )


@pytest.mark.parametrize("size", [0.1, 100.0], ids=["below the clip", "clipped"])
def test_default_is_googles_with_its_clip(size):
    rng = np.random.default_rng(1)
    params = first_params(rng)
    slots = Optimizer().zero_slots(params)
    wanted = {k: (v.astype("d"), None) for k, v in params.items()}
    for step in range(STEPS):
        grads, rate = gradients(rng, size), 1e-2 * (1 - step / STEPS)
        given = {k: tf.constant(g) for k, g in grads.items()}
        number = tf.constant(step, tf.int64)
        norm = update.global_norm(
            tf.concat([tf.reshape(g, [-1]) for g in given.values()], 0)
        )
        params, slots, norm = update.apply_gradients(
            Optimizer(), params, slots, grads=given, norm=norm, rate=rate, step=number
        )
        exact = np.sqrt(sum(np.square(g, dtype="d").sum() for g in grads.values()))
        assert float(norm) == pytest.approx(exact, rel=1e-6)
        for key, grad in grads.items():
            clipped = grad.astype("d") * min(1.0, 1.0 / exact)
            decay = 0.0 if "bias" in key or "LayerNorm" in key else 0.01
            wanted[key] = google_step(*wanted[key], clipped, rate, decay, step + 1)
    for key, (value, (m, v)) in wanted.items():
        np.testing.assert_allclose(params[key], value, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(slots[f"{key}/adam_m"], m, rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(slots[f"{key}/adam_v"], v, rtol=1e-3, atol=1e-9)


def test_infinite_gradient_gives_no_finite_norm():
    assert not np.isfinite(float(update.global_norm(tf.constant([1.0, np.inf, 2.0]))))


KINDS = [(name, 32) for name in REFERENCES] + [("adamw_google", 8), ("lamb", 8)]


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize(("name", "bits"), KINDS)
def test_a_step_that_is_not_finite_moves_nothing(name, bits, number):
    """Not a bit of weights, moments and averages; the next step goes on from there."""
    optimizer = Optimizer(name, bits, ema_decay=0.9)
    rng = np.random.default_rng(2)
    params = {k: rng.standard_normal(s).astype("f") for k, s in LARGE.items()}
    slots = optimizer.zero_slots(params)

    @tf.function(jit_compile=True, autograph=False)
    def update(*state, step, moves):
        rate = tf.constant(0.1)
        return optimizer.update(*state, rate=rate, step=step, moves=moves)

    def grads():
        return {k: rng.standard_normal(s).astype("f") for k, s in LARGE.items()}

    for step in range(3):
        at = tf.constant(step, tf.int64)
        spoilt = {k: g * np.float32(number) for k, g in grads().items()}
        kept = update(params, slots, spoilt, step=at, moves=tf.constant(False))
        for old, new in zip((params, slots), kept, strict=True):
            assert old.keys() == new.keys()
            for key, value in old.items():
                np.testing.assert_array_equal(new[key], value, err_msg=key)
        params, slots = update(params, slots, grads(), step=at, moves=tf.constant(True))
        assert all(np.isfinite(value).all() for value in params.values())


@pytest.mark.parametrize(("name", "bits"), KINDS)
def test_an_update_returns_the_slots_it_was_given(name, bits):
    optimizer = Optimizer(name, bits, ema_decay=0.9)
    params = {name: np.ones(shape, "f") for name, shape in LARGE.items()}
    slots = optimizer.zero_slots(params)
    _, after = optimizer.update(
        params, slots, params, rate=0.1, step=tf.constant(0, tf.int64)
    )
    assert list(after) == list(slots)
    for key, value in after.items():
        assert (value.shape, value.dtype) == (slots[key].shape, slots[key].dtype), key
        assert key.rpartition("/")[2] in tensor_names.SLOTS


def test_average_is_tensorflows():
    rng = np.random.default_rng(3)
    optimizer = Optimizer("adamw", ema_decay=0.9)
    params = first_params(rng)
    slots = optimizer.zero_slots(params)
    variables = {k: tf.Variable(v) for k, v in params.items()}
    done = tf.Variable(0)
    theirs = tf.train.ExponentialMovingAverage(0.9, num_updates=done)
    for step in range(120):  # (1 + 80) / (10 + 80) is 0.9
        done.assign(step)
        params, slots = optimizer.update(
            params, slots, gradients(rng), rate=1e-2, step=tf.constant(step, tf.int64)
        )
        if step == 0:  # it starts as a copy of what the variables hold
            theirs.apply([*variables.values()])
        for key, variable in variables.items():
            variable.assign(params[key])
        theirs.apply([*variables.values()])
    for key, variable in variables.items():
        np.testing.assert_allclose(
            slots[f"{key}/ExponentialMovingAverage"],
            theirs.average(variable),
            rtol=1e-5,
            atol=1e-7,
        )


def test_slots_do_not_share_memory_with_the_weights():
    params = {"a": np.ones(3, "f")}
    slots = Optimizer(ema_decay=0.5).zero_slots(params)
    params["a"] += 1
    assert slots["a/ExponentialMovingAverage"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": "sgd"}, "'sgd'.*adamw_google, adamw, lamb, adafactor, lion"),
        ({"slot_bits": 4}, "4 bits.*8 or 32"),
        ({"name": "lion", "slot_bits": 8}, "lion.*adamw_google, adamw, lamb$"),
        (
            {"name": "adafactor", "slot_bits": 8},
            "adafactor.*adamw_google, adamw, lamb$",
        ),
        ({"ema_decay": 1.0}, "1.0.*below 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, error):
    with pytest.raises(ValueError, match=error):
        Optimizer(**arguments)
