"""Building blocks of BERT as pure functions. Shapes: B batch, T length, H width."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from bert_mgpu.core.task import DropoutKey, Params

# Dropout draws 8 random bits per value if a multiple of 1/256 is within 2 % of the
# rate, else 16. 0.1, the rate of every published BERT, becomes 26/256 = 0.1016 (1.6 %
# off; 16 bits would cost 2 to 10 % of a step). Outputs are scaled by the true keep
# rate, so expectations are exact either way.
_MAX_RATE_ERROR = 0.02
_PHILOX = 1  # the counter-based generator of Salmon et al. 2011
_WORDS_PER_COUNT = 4  # Philox makes four 32-bit words for one counter value


def gelu_tanh(x: tf.Tensor) -> tf.Tensor:
    """Google's gelu (Hendrycks & Gimpel 2016), in its tanh form.

    tf.nn.gelu calls pow for the cube, which took a sixth of a step of BERT-base in
    bfloat16 on a CPU without XLA.
    """
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1.0 + tf.tanh(inner))


ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "gelu_tanh": gelu_tanh,
    "gelu_erf": lambda x: tf.nn.gelu(x, approximate=False),
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "linear": tf.identity,
}


def at_least_float32(values: tf.Tensor) -> tf.Tensor:
    """The values in float32 or wider: for sums over many values and for exponents."""
    return tf.cast(values, tf.float32) if values.dtype.size < 4 else values


def shape_list(values: tf.Tensor) -> list[int | tf.Tensor]:
    """The shape, with numbers for all static sizes; only exports have others."""
    static = list(values.shape)
    if None not in static:
        return static
    dynamic = tf.shape(values)
    return [dynamic[i] if size is None else size for i, size in enumerate(static)]


def dense(params: Params, name: str, inputs: tf.Tensor) -> tf.Tensor:
    """A dense layer, [..., inputs] -> [..., outputs], in the kernel's precision."""
    kernel = params[f"{name}/kernel"]
    flat = tf.reshape(tf.cast(inputs, kernel.dtype), [-1, kernel.shape[0]])
    outputs = tf.matmul(flat, kernel) + params[f"{name}/bias"]
    return tf.reshape(outputs, [*shape_list(inputs)[:-1], kernel.shape[1]])


def dense_together(
    params: Params, names: Sequence[str], inputs: tf.Tensor
) -> list[tf.Tensor]:
    """The outputs of several dense layers for the same inputs, as one product."""
    kernels = [params[f"{name}/kernel"] for name in names]
    merged = {
        "kernel": tf.concat(kernels, 1),
        "bias": tf.concat([params[f"{name}/bias"] for name in names], 0),
    }
    outputs = dense({f"merged/{k}": v for k, v in merged.items()}, "merged", inputs)
    return tf.split(outputs, [kernel.shape[1] for kernel in kernels], -1)


def layer_norm(
    params: Params, name: str, inputs: tf.Tensor, *, epsilon: float
) -> tf.Tensor:
    """Layer normalisation over the last axis (Ba et al. 2016).

    Computed in float32 or wider, returned in the precision of the inputs.
    """
    gamma, beta = (params[f"{name}/LayerNorm/{kind}"] for kind in ("gamma", "beta"))
    values = at_least_float32(inputs)
    mean = tf.reduce_mean(values, -1, keepdims=True)
    centered = values - mean
    variance = tf.reduce_mean(tf.square(centered), -1, keepdims=True)
    normalized = centered * tf.math.rsqrt(variance + epsilon)
    return tf.cast(normalized * gamma + beta, inputs.dtype)


def dropout_lanes(rate: float) -> tuple[int, int]:
    """(bits, threshold): a lane of `bits` random bits >= threshold is kept."""
    threshold = round(rate * 256)
    if threshold < 256 and abs(threshold / 256 - rate) <= _MAX_RATE_ERROR * rate:
        return 8, threshold
    return 16, min(max(1, round(rate * 65536)), 65535)


def keep_mask(
    shape: tuple[int, ...], rate: float, dropout_key: DropoutKey, *, site: int
) -> tuple[tf.Tensor, float]:
    """A dropout's keep mask, bool [B, ...], and its true keep rate.

    The mask of a row is determined by (seed, step, its index in the global batch,
    site): rows take consecutive counters of one Philox stream, so a tower draws
    the masks of its rows in one call and gets what any other tower would.
    """
    bits, threshold = dropout_lanes(rate)
    lanes_per_word = 32 // bits
    rows, lanes = shape[0], math.prod(shape[1:])
    counts = -(-lanes // (lanes_per_word * _WORDS_PER_COUNT))
    words = counts * _WORDS_PER_COUNT
    counter = tf.stack(
        [
            tf.cast(dropout_key.first_row, tf.uint64) * tf.constant(counts, tf.uint64),
            tf.cast(dropout_key.step * 65536 + site, tf.uint64),
        ]
    )
    random = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[rows, words],
        key=tf.reshape(dropout_key.seed, [1]),
        counter=counter,
        alg=_PHILOX,
        dtype=tf.uint32,
    )
    lane_type = {8: tf.uint8, 16: tf.uint16}[bits]
    drawn = tf.bitcast(random, lane_type)  # [B, words, lanes_per_word]
    drawn = tf.reshape(drawn, [rows, words * lanes_per_word])[:, :lanes]
    keep = tf.reshape(drawn >= tf.constant(threshold, lane_type), shape)
    return keep, 1.0 - threshold / 2**bits


def dropout(
    inputs: tf.Tensor, rate: float, dropout_key: DropoutKey | None, *, site: int
) -> tf.Tensor:
    """Inverted dropout (Srivastava et al. 2014); without a key, the inputs themselves.

    inputs: [B, ...] with a static shape; site: the number of this dropout in the
    network.
    """
    if dropout_key is None or rate == 0.0:
        return inputs
    keep, keep_rate = keep_mask(tuple(inputs.shape), rate, dropout_key, site=site)
    # In float32: XLA and TensorFlow's graph optimizer multiply by 1 / keep rate, which
    # 16 bits round. For a rate of 0.1 the factor was 0.33 % too small in bfloat16. In
    # float32 each quotient is rounded once, up or down by chance. (Rates below 1/256
    # are the exception: they change values by less than bfloat16 resolves.)
    scaled = at_least_float32(inputs) / keep_rate
    return tf.where(keep, tf.cast(scaled, inputs.dtype), tf.zeros_like(inputs))
