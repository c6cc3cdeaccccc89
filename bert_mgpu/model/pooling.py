"""One vector from the hidden states of a row, as pure functions.

Shapes: B rows of one example each, T tokens, H width.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from bert_mgpu.core.task import Params
from bert_mgpu.model import bert

_SHORTEST = 1e-12  # the smallest norm by which a vector is divided, as in torch


def first(params: Params, hidden: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The hidden state of [CLS]: [B, T, H] -> [B, H]."""
    return hidden[:, 0]


def mean(params: Params, hidden: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The mean over the tokens of each row, [CLS] and [SEP] included.

    As sentence-transformers pools (Reimers & Gurevych 2019): [B, T, H] -> [B, H].
    """
    real = tf.cast(mask > 0, hidden.dtype)[..., None]  # [B, T, 1]
    count = tf.maximum(tf.reduce_sum(real, 1), 1.0)  # filler rows have none
    return tf.reduce_sum(hidden * real, 1) / count


def largest(params: Params, hidden: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The largest value over the tokens of each row: [B, T, H] -> [B, H]."""
    return tf.reduce_max(tf.where(mask[..., None] > 0, hidden, hidden.dtype.min), 1)


def pooler(params: Params, hidden: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """BERT's own pooled output, which a classifier reads: [B, T, H] -> [B, H]."""
    return bert.pool(params, hidden[:, 0])


# hidden [B, T, H], mask int32 [B, T], 0 at padding -> [B, H].
POOLINGS: dict[str, Callable[[Params, tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "cls": first,
    "mean": mean,
    "max": largest,
    "pooler": pooler,
}
OF_FIRST = frozenset({"cls", "pooler"})  # those that read only [CLS]


def normalized(vectors: tf.Tensor) -> tf.Tensor:
    """The vectors scaled to length 1: [B, H] -> [B, H]. Zeros stay zeros."""
    norms = tf.norm(vectors, axis=-1, keepdims=True)
    return vectors / tf.maximum(norms, _SHORTEST)
