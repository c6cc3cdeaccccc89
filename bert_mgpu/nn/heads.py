"""What stands on top of the encoder. Shapes: B batch, H width, C classes."""

from __future__ import annotations

import tensorflow as tf

from bert_mgpu.nn import bert, layers
from bert_mgpu.task import Noise, Params


def classify(
    params: Params,
    pooled: tf.Tensor,
    dropout_rate: float,
    noise: Noise | None = None,
) -> tf.Tensor:
    """Logits of google-research/bert's classifier: pooled [B, H] -> [B, C]."""
    pooled = layers.dropout(pooled, dropout_rate, noise, site=bert.HEAD_SITE)
    logits = tf.matmul(pooled, params["output_weights"], transpose_b=True)
    return logits + params["output_bias"]


def cross_entropy(logits: tf.Tensor, label_ids: tf.Tensor) -> tf.Tensor:
    """-log p(label) of each row: [B, C], int32 [B] -> [B]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(label_ids, logits)
