"""The BERT encoder (Devlin et al. 2019) as a function of its parameters.

Shapes: B batch, T length, N heads, D width of a head, H = N * D width.
"""

from __future__ import annotations

import math

import tensorflow as tf

from bert_mgpu.config import BertConfig
from bert_mgpu.nn import layers
from bert_mgpu.task import Noise, Params

_MASKED_SCORE = -10000.0  # as in Google's code: hidden positions get this score

# Dropout sites: 0 embeddings, then three a layer. Heads start at HEAD_SITE.
_SITES_PER_LAYER = 3
HEAD_SITE = 60000


def embed(
    params: Params,
    config: BertConfig,
    input_ids: tf.Tensor,
    segment_ids: tf.Tensor,
    noise: Noise | None,
) -> tf.Tensor:
    """input_ids, segment_ids: int32 [B, T] -> [B, T, H]."""
    length = input_ids.shape[1]
    tables = "bert/embeddings/"
    words = tf.gather(params[f"{tables}word_embeddings"], input_ids)  # [B, T, H]
    # A handful of rows: a product with one-hot is faster than a scatter back.
    types = params[f"{tables}token_type_embeddings"]
    segments = tf.one_hot(segment_ids, types.shape[0], dtype=types.dtype)  # [B,T,types]
    summed = words + tf.tensordot(segments, types, 1)
    summed += params[f"{tables}position_embeddings"][:length]
    normal = layers.layer_norm(params, "bert/embeddings", summed, config.layer_norm_eps)
    return layers.dropout(normal, config.hidden_dropout_prob, noise, site=0)


def attend(
    params: Params,
    config: BertConfig,
    index: int,
    inputs: tf.Tensor,
    score_bias: tf.Tensor,
    noise: Noise | None,
) -> tf.Tensor:
    """Self-attention of layer `index` (Vaswani et al. 2017).

    inputs: [B, T, H]; score_bias: [B, 1, 1, T] added to every score -> [B, T, H].
    """
    batch, length, width = inputs.shape
    heads = config.num_attention_heads
    depth = width // heads
    name = f"bert/encoder/layer_{index}/attention/self"

    def split(part: str) -> tf.Tensor:
        projected = layers.dense(params, f"{name}/{part}", inputs)
        projected = tf.reshape(projected, [batch, length, heads, depth])
        return tf.transpose(projected, [0, 2, 1, 3])  # [B, N, T, D]

    query, key, value = split("query"), split("key"), split("value")
    scores = tf.matmul(query, key, transpose_b=True)  # [B, N, T, T]
    scores = scores * (1.0 / math.sqrt(depth)) + score_bias
    shares = tf.nn.softmax(scores)  # [B, N, T, T]
    shares = layers.dropout(
        shares,
        config.attention_probs_dropout_prob,
        noise,
        site=1 + index * _SITES_PER_LAYER,
    )
    context = tf.transpose(tf.matmul(shares, value), [0, 2, 1, 3])  # [B, T, N, D]
    return tf.reshape(context, [batch, length, width])  # [B, T, H]


def block(
    params: Params,
    config: BertConfig,
    index: int,
    inputs: tf.Tensor,
    score_bias: tf.Tensor,
    noise: Noise | None,
) -> tf.Tensor:
    """One encoder layer, normalised after each residual: [B, T, H] -> same."""
    name = f"bert/encoder/layer_{index}"
    site = 1 + index * _SITES_PER_LAYER
    rate, epsilon = config.hidden_dropout_prob, config.layer_norm_eps

    attended = attend(params, config, index, inputs, score_bias, noise)
    attended = layers.dense(params, f"{name}/attention/output/dense", attended)
    attended = layers.dropout(attended, rate, noise, site + 1)
    attended = layers.layer_norm(
        params, f"{name}/attention/output", attended + inputs, epsilon
    )
    inner = layers.dense(params, f"{name}/intermediate/dense", attended)
    inner = layers.ACTIVATIONS[config.hidden_act](inner)  # [B, T, intermediate]
    outputs = layers.dense(params, f"{name}/output/dense", inner)  # [B, T, H]
    outputs = layers.dropout(outputs, rate, noise, site + 2)
    return layers.layer_norm(params, f"{name}/output", outputs + attended, epsilon)


def encode(
    params: Params,
    config: BertConfig,
    input_ids: tf.Tensor,
    input_mask: tf.Tensor,
    segment_ids: tf.Tensor,
    noise: Noise | None = None,
) -> list[tf.Tensor]:
    """All hidden states: the embedding output, then one [B, T, H] a layer.

    input_ids, input_mask, segment_ids: int32 [B, T], shapes static; mask 0 is
    padding. Without noise nothing is dropped: inference.
    """
    hidden = [embed(params, config, input_ids, segment_ids, noise)]
    visible = tf.cast(input_mask, hidden[0].dtype)[:, None, None, :]  # [B,1,1,T]
    score_bias = (1.0 - visible) * _MASKED_SCORE
    for index in range(config.num_hidden_layers):
        hidden.append(block(params, config, index, hidden[-1], score_bias, noise))
    return hidden


def pool(params: Params, sequence_output: tf.Tensor) -> tf.Tensor:
    """The vector of the first token, [CLS]: [B, T, H] -> [B, H]."""
    first = sequence_output[:, 0]
    return tf.tanh(layers.dense(params, "bert/pooler/dense", first))
