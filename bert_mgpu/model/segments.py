"""Splits rows of several segments (see text/segments.py), and pools them afterwards.

Hierarchical methods of Sun et al. 2019, "How to Fine-Tune BERT for Text
Classification?", 5.3.1. Shapes: R rows of T tokens, K segments of S tokens, H width.
"""

from __future__ import annotations

import tensorflow as tf

from bert_mgpu.core.task import Batch, Params
from bert_mgpu.model import layers
from bert_mgpu.model.params import Specs, dense_specs

ATTENTION = "attention"
_DENSE, _QUERY = "segments/dense", "segments/query"  # names of parameters
_NO_SCORE = -1e30  # of a segment that a text does not have
_COLUMNS = ("input_ids", "segment_ids", "input_mask")


def specs(width: int, pooling: str) -> Specs:
    """The parameters of a pooling. Attention starts out as the mean."""
    if pooling != ATTENTION:
        return {}
    return dense_specs(_DENSE, width, width) | {_QUERY: ((width,), "zeros")}


def split(batch: Batch, length: int) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """The segments of rows as rows of their own, and which of them a text has.

    length: that of a segment. Returns the columns that `bert.encode` reads, int32
    [R * K, S], and bool [R, K]. Rows no longer than a segment stay as they are: K is 1.
    """
    rows, tokens = layers.shape_list(batch["input_ids"])
    size = (
        min(tokens, length) if isinstance(tokens, int) else tf.minimum(tokens, length)
    )
    count = (tokens + size - 1) // size  # ONNX divides towards 0: no negative numbers
    padding = [[0, 0], [0, count * size - tokens]]
    parts = {
        name: tf.reshape(tf.pad(batch[name], padding), [rows * count, size])
        for name in _COLUMNS
    }
    is_real = tf.reshape(parts["input_mask"][:, 0] > 0, [rows, count])
    # Rows that only fill a batch have none, and the mean of nothing is NaN.
    is_first = tf.range(count)[None] == 0
    return parts, is_real | is_first


def pool(
    params: Params, segments: tf.Tensor, is_real: tf.Tensor, *, how: str
) -> tf.Tensor:
    """One vector for each row: [R, K, H], bool [R, K] -> float32 [R, H].

    how: the mean or the maximum of each value, or the mean weighted by "attention":
    softmax(query . tanh(W h + b)) over the segments (Yang et al. 2016, 2.2).
    """
    real = is_real[..., None]  # [R, K, 1]
    vectors = layers.at_least_float32(segments)
    if how == "max":
        return tf.reduce_max(tf.where(real, vectors, vectors.dtype.min), 1)
    if how == ATTENTION:
        keys = tf.tanh(layers.dense(params, _DENSE, vectors))
        scores = tf.reduce_sum(keys * params[_QUERY], -1, keepdims=True)  # [R, K, 1]
        weights = tf.nn.softmax(tf.where(real, scores, _NO_SCORE), 1)
    else:
        shares = tf.cast(real, vectors.dtype)
        weights = shares / tf.reduce_sum(shares, 1, keepdims=True)
    return tf.reduce_sum(tf.where(real, vectors, 0.0) * weights, 1)
