"""Codes of 8 bits against the map's definition, and AdamW with them."""

import functools
import re

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.training import quantized_moments
from bert_mgpu.training.optimizers import Optimizer

both = pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
with_xla = pytest.mark.parametrize("xla", [False, True], ids=["eager", "xla"])


def defined_map(signed):
    """create_dynamic_map of bitsandbytes, in words: decades and their bisections."""
    numbers = [0.0, 1.0]
    for i in range(7):
        ends = np.linspace(0.1, 1.0, (2**i if signed else 2 ** (i + 1)) + 1)
        centres = 10.0 ** (i - 6) * (ends[:-1] + ends[1:]) / 2
        numbers += [*centres, *-centres] if signed else [*centres]
    return np.sort(numbers)


@functools.cache
def coder(signed, xla):
    def there_and_back(values):
        codes, scales = quantized_moments.quantize(values, signed)
        return (
            codes,
            scales,
            quantized_moments.dequantize(codes, scales, values.shape, signed=signed),
        )

    jitted = tf.function(there_and_back, jit_compile=True, autograph=False)
    return lambda values: [
        x.numpy() for x in (jitted if xla else there_and_back)(values)
    ]


@both
def test_map_is_the_dynamic_one(signed):
    numbers = quantized_moments.dynamic_map(signed)
    assert numbers.shape == (256,) and numbers[0] == 0
    np.testing.assert_allclose(np.sort(numbers), defined_map(signed), rtol=1e-12)


def samples(signed):
    """Three blocks: of all sizes, of one size, and the numbers with their middles."""
    rng = np.random.default_rng(1)
    numbers = defined_map(signed)
    middles = (numbers[1:] + numbers[:-1]) / 2
    # Not the middles themselves, where both neighbours are right.
    edges = np.concatenate([numbers, middles * (1 - 1e-5), middles * (1 + 1e-5)])
    blocks = np.zeros((3, quantized_moments.BLOCK))
    blocks[0] = 10 ** rng.uniform(-8.5, 0, quantized_moments.BLOCK)
    blocks[1] = rng.uniform(0, 1, quantized_moments.BLOCK)
    if signed:
        blocks[:2] *= rng.choice([-1, 1], (2, quantized_moments.BLOCK))
    blocks[2, : len(edges)] = edges
    blocks[:, 0] = [1.0, -1.0 if signed else 1.0, 1.0]  # the scales
    return (blocks * np.array([[1.0], [3e-9], [250.0]])).astype("f")


@with_xla
@both
def test_every_value_becomes_the_nearest_number(signed, xla):
    values = samples(signed)
    codes, scales, back = coder(signed, xla)(values)
    assert codes.dtype == np.uint8 and codes.shape == (values.size,)
    np.testing.assert_array_equal(scales, values[:, 0])
    numbers = defined_map(signed)
    parts = values.astype("d") / scales[:, None].astype("d")
    nearest = numbers[np.abs(parts[..., None] - numbers).argmin(-1)]
    if not signed:  # never to zero: see quantize
        nearest[(nearest == 0) & (values > 0)] = numbers[1]
    wanted = nearest * scales[:, None]
    np.testing.assert_allclose(back, wanted, rtol=2e-6, atol=0)
    actual = quantized_moments.dynamic_map(signed)[codes.reshape(parts.shape)]
    np.testing.assert_allclose(actual, nearest, rtol=1e-12)


@with_xla
@both
def test_what_comes_back_exactly(signed, xla):
    """Zeros, blocks of zeros, what gives the scale, and what came back before."""
    values = samples(signed)
    values[1, 5:50] = 0
    values = np.concatenate([values, np.zeros_like(values[:1])])
    codes, scales, back = coder(signed, xla)(values)
    assert (
        scales[3] == 0
        and not back[3].any()
        and not codes[-quantized_moments.BLOCK :].any()
    )
    np.testing.assert_array_equal(back[values == 0], 0)
    np.testing.assert_array_equal(back[:, 0], values[:, 0])
    for again, before in zip(
        coder(signed, xla)(back), (codes, scales, back), strict=True
    ):
        np.testing.assert_array_equal(again, before)
    if not signed:
        assert (back[values > 0] > 0).all()


@both
def test_zeros_make_no_nan_on_the_way(signed):
    """What a NaN becomes as a code is the processor's choice."""
    tf.debugging.enable_check_numerics()
    try:
        quantized_moments.quantize(np.zeros(10, "f"), signed)
    finally:
        tf.debugging.disable_check_numerics()


@with_xla
@both
@pytest.mark.parametrize("shape", [(1,), (2047,), (2049,), (70, 5, 13)])
def test_any_shape_within_the_bounds(shape, signed, xla):
    rng = np.random.default_rng(2)
    values = rng.standard_normal(shape).astype("f")
    values = values if signed else values**2
    codes, scales, back = coder(signed, xla)(values)
    blocks = -(-values.size // quantized_moments.BLOCK)
    assert back.shape == shape
    assert (codes.size, scales.size) == (blocks * quantized_moments.BLOCK, blocks)
    specs = quantized_moments.specs(["m"], values.size)
    assert specs == {
        "m_q8": (codes.shape, codes.dtype),
        "m_scale": (scales.shape, scales.dtype),
    }
    scale = np.repeat(np.abs(scales), quantized_moments.BLOCK)[: values.size].reshape(
        shape
    )
    error, size = np.abs(back - values), np.abs(values)
    of_scale, of_value = (0.00704, 0.071) if signed else (0.00352, 0.0355)
    assert (error <= of_scale * scale).all()
    large = size > 0.1 * scale
    assert (error[large] <= of_value * size[large]).all()


def trained(optimizer, gradient, start, rate):
    """The weights after 100 steps and the longest step of one, in rates."""
    params = {"kernel": start.astype("f")}
    slots = optimizer.zero_slots(params)
    update = tf.function(optimizer.update, jit_compile=True, autograph=False)
    rng, longest = np.random.default_rng(4), 0.0
    for step in range(100):
        before = np.asarray(params["kernel"])
        grads = {"kernel": gradient(rng, before).astype("f")}
        params, slots = update(
            params,
            slots,
            grads,
            rate=tf.constant(rate),
            step=tf.constant(step, tf.int64),
        )
        longest = max(longest, np.abs(params["kernel"] - before).max() / rate)
    return np.asarray(params["kernel"]), longest


@pytest.mark.parametrize(
    ("name", "rate"), [("adamw_google", 1e-3), ("adamw", 2e-3), ("lamb", 3e-2)]
)
def test_noisy_quadratic_is_solved_as_in_32_bits(name, rate):
    size = 3 * quantized_moments.BLOCK - 100
    rng = np.random.default_rng(3)
    curvature = 10 ** rng.uniform(-2, 0, size)
    start, lowest = 0.05 * rng.standard_normal((2, size))

    def gradient(rng, weights):
        return curvature * (weights - lowest + 0.02 * rng.standard_normal(size))

    exact, _ = trained(Optimizer(name, 32), gradient, start, rate)
    coded, _ = trained(Optimizer(name, 8), gradient, start, rate)
    way, left, apart = (
        np.linalg.norm(difference)
        for difference in (exact - start, exact - lowest, coded - exact)
    )
    assert left < way / 2  # there was something to solve
    assert apart < 0.04 * way


def test_no_step_runs_away_where_gradients_differ_a_millionfold():
    """A second moment of 0 beside a first one that is not would divide by 1e-8."""
    size = 2 * quantized_moments.BLOCK
    sizes = 10.0 ** np.random.default_rng(5).uniform(-6, 0, size)

    def gradient(rng, weights):
        return sizes * rng.standard_normal(size)

    start = np.zeros(size)
    _, exact = trained(Optimizer("adamw", 32), gradient, start, 1e-3)
    _, coded = trained(Optimizer("adamw", 8), gradient, start, 1e-3)
    assert exact < 1.1 and coded < 3


def test_xla_decodes_one_parameter_after_the_other():
    """In the order of the compiled update, few tables of decoded slots are needed."""
    params = {f"{i}/kernel": tf.ones((64, 96)) for i in range(4)}
    optimizer = Optimizer("adamw", 8)
    slots = optimizer.zero_slots({k: v.numpy() for k, v in params.items()})
    update = tf.function(optimizer.update, jit_compile=True, autograph=False)
    scalars = {
        "rate": tf.constant(1e-3),
        "step": tf.constant(0, tf.int64),
        "moves": tf.constant(True),
    }
    compiler_ir = update.experimental_get_compiler_ir(params, slots, params, **scalars)
    text = compiler_ir(stage="optimized_hlo")
    assert "is_scheduled=true" in text
    lines = text[text.index("ENTRY") :].splitlines()
    tables = {}  # name -> (first line, last line) where it is needed
    for number, line in enumerate(lines):
        for name in set(re.findall(r"%[\w.-]+", line)) & tables.keys():
            tables[name] = tables[name][0], number
        if made := re.match(r"\s*(%[\w.-]+) = f32\[3,2048\]", line):
            tables[made[1]] = number, number
    assert len(tables) >= 2 * len(params)
    alive = [sum(a <= n <= b for a, b in tables.values()) for n in range(len(lines))]
    assert max(alive) <= 4


def test_embeddings_and_small_tensors_stay_in_32_bits():
    shapes = {
        "bert/embeddings/word_embeddings": (100, 64),
        "bert/embeddings/token_type_embeddings": (2, 4096),
        "bert/embeddings/position_embeddings": (512, 64),
        "bert/encoder/layer_0/output/dense/kernel": (64, 64),
        "bert/encoder/layer_0/intermediate/dense/bias": (4095,),
    }
    slots = Optimizer("adamw", 8).zero_slots(
        {name: np.ones(shape, "f") for name, shape in shapes.items()}
    )
    kernel = "bert/encoder/layer_0/output/dense/kernel"
    assert {key: value.shape for key, value in slots.items() if kernel in key} == {
        f"{kernel}/adam_m_q8": (4096,),
        f"{kernel}/adam_m_scale": (2,),
        f"{kernel}/adam_v_q8": (4096,),
        f"{kernel}/adam_v_scale": (2,),
    }
    for name in shapes.keys() - {kernel}:
        assert slots[f"{name}/adam_m"].shape == shapes[name]
        assert slots[f"{name}/adam_v"].shape == shapes[name]
    assert len(slots) == 4 + 2 * 4
