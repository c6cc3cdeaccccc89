"""The heads on top of the encoder, and their losses.

Shapes: B batch, R rows of T tokens, H width, C classes, M masked tokens, V vocabulary.
"""

from __future__ import annotations

import tensorflow as tf

from bert_mgpu.core.task import DropoutKey, Params
from bert_mgpu.model import bert, layers
from bert_mgpu.model.config import BertConfig


def classification_logits(
    params: Params,
    pooled: tf.Tensor,
    dropout_rate: float,
    *,
    dropout_key: DropoutKey | None = None,
) -> tf.Tensor:
    """Logits of google-research/bert's classifier: pooled [B, H] -> [B, C]."""
    pooled = layers.dropout(pooled, dropout_rate, dropout_key, site=bert.HEAD_SITE)
    logits = tf.matmul(pooled, params["output_weights"], transpose_b=True)
    return logits + params["output_bias"]


def token_logits(
    params: Params,
    hidden: tf.Tensor,
    dropout_rate: float,
    *,
    dropout_key: DropoutKey | None = None,
) -> tf.Tensor:
    """Logits of a classifier of tokens: [R, T, H] -> float32 [R, T, C].

    Its parameters are those of `classification_logits`, as in transformers'
    BertForTokenClassification.
    """
    hidden = layers.dropout(hidden, dropout_rate, dropout_key, site=bert.HEAD_SITE)
    hidden = layers.at_least_float32(hidden)
    logits = tf.tensordot(hidden, params["output_weights"], [[2], [1]])
    return logits + params["output_bias"]


def token_losses(logits: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
    """-log p of the class of each token: [R, T, C], int32 [R, T] -> [R, T].

    target_ids: 1 + the class; 0 where a token has none, and no loss.
    """
    losses = cross_entropy(logits, tf.maximum(target_ids - 1, 0))
    return tf.where(target_ids > 0, losses, 0.0)


def masked_lm_logits(
    params: Params, config: BertConfig, hidden: tf.Tensor
) -> tf.Tensor:
    """Logits of google-research/bert's masked language model: [M, H] -> [M, V].

    hidden: the last hidden states of the masked tokens. The output layer is the table
    of the word embeddings (Press & Wolf 2017), in the precision of the kernels.
    """
    hidden = layers.dense(params, "cls/predictions/transform/dense", hidden)
    hidden = layers.ACTIVATIONS[config.hidden_act](hidden)
    hidden = layers.layer_norm(
        params, "cls/predictions/transform", hidden, epsilon=config.layer_norm_eps
    )
    table = tf.cast(params["bert/embeddings/word_embeddings"], hidden.dtype)
    logits = layers.at_least_float32(tf.matmul(hidden, table, transpose_b=True))
    return logits + params["cls/predictions/output_bias"]


def next_sentence_logits(params: Params, pooled: tf.Tensor) -> tf.Tensor:
    """Logits of "the next sentence" and "a random one": [B, H] -> [B, 2]."""
    weights = params["cls/seq_relationship/output_weights"]
    logits = tf.matmul(pooled, weights, transpose_b=True)
    return logits + params["cls/seq_relationship/output_bias"]


def cross_entropy(logits: tf.Tensor, label_ids: tf.Tensor) -> tf.Tensor:
    """-log p(label) of each row: [B, C], int32 [B] -> [B]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(label_ids, logits)


def one_minus_exp(values: tf.Tensor) -> tf.Tensor:
    """1 - exp(values) for values below 0, kept off 0: its powers have a gradient."""
    return tf.maximum(-tf.math.expm1(values), 1e-7)
