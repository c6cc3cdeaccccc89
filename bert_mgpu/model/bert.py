"""The BERT encoder (Devlin et al. 2019) as a function of its parameters.

Shapes: B rows, T length, F positions of a row, N heads, D width of a head, H = N * D
width, E examples.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from bert_mgpu.core.task import Batch, DropoutKey, Params
from bert_mgpu.model import layers
from bert_mgpu.model.config import BertConfig
from bert_mgpu.model.recompute import recomputed

_MASKED_SCORE = -10000.0  # as in Google's code: hidden positions get this score

# Dropout sites: 0 embeddings, then three a layer. Heads start at HEAD_SITE.
_SITES_PER_LAYER = 3
HEAD_SITE = 60000


def embed(
    params: Params, config: BertConfig, batch: Batch, *, dropout_key: DropoutKey | None
) -> tf.Tensor:
    """The batch of `encode` -> [B, T, H]."""
    tables = "bert/embeddings/"
    input_ids = batch["input_ids"]
    words = tf.gather(params[f"{tables}word_embeddings"], input_ids)  # [B, T, H]
    # A handful of rows: a product with one-hot is faster than a scatter back.
    types = params[f"{tables}token_type_embeddings"]
    segments = tf.one_hot(batch["segment_ids"], types.shape[0], dtype=types.dtype)
    summed = words + tf.tensordot(segments, types, 1)
    positions = params[f"{tables}position_embeddings"]
    if "position_ids" in batch:
        summed += tf.gather(positions, batch["position_ids"])
    else:
        summed += positions[: layers.shape_list(input_ids)[1]]
    normal = layers.layer_norm(
        params, "bert/embeddings", summed, epsilon=config.layer_norm_eps
    )
    return layers.dropout(normal, config.hidden_dropout_prob, dropout_key, site=0)


def attention_bias(batch: Batch) -> tf.Tensor:
    """What is added to attention scores: [B, 1, 1, T], if packed [B, 1, T, T].

    Tokens see the tokens of their own example, and none sees padding.
    """
    mask = batch["input_mask"]
    if "position_ids" in batch:
        seen = (mask[:, :, None] == mask[:, None, :]) & (mask > 0)[:, None, :]
    else:
        seen = (mask > 0)[:, None, :]
    return tf.where(seen, 0.0, _MASKED_SCORE)[:, None]


def self_attention(
    own: Params,
    config: BertConfig,
    inputs: tf.Tensor,
    *,
    score_bias: tf.Tensor,
    dropout_key: DropoutKey | None,
    site: int,
    places: tf.Tensor | None,
) -> tf.Tensor:
    """The attention of a layer (Vaswani et al. 2017): [B, T, H] -> [B, F, H].

    own: the layer's parameters; score_bias: [B, 1, 1 or F, T], added to every score;
    site: of its dropout; places: int32 [B, F], which inputs are queries, None for all.
    """
    heads = config.num_attention_heads
    depth = config.hidden_size // heads
    parts = [f"attention/self/{part}" for part in ("query", "key", "value")]
    if places is None:
        flat = layers.dense_together(own, parts, inputs)
    else:
        flat = [layers.dense(own, parts[0], tf.gather(inputs, places, batch_dims=1))]
        flat += layers.dense_together(own, parts[1:], inputs)

    def split(projected: tf.Tensor) -> tf.Tensor:
        shape = [*layers.shape_list(projected)[:2], heads, depth]
        return tf.transpose(tf.reshape(projected, shape), [0, 2, 1, 3])

    query, key, value = (split(part) for part in flat)  # [B, N, F or T, D]
    # Scaled before the product, which could overflow float16 otherwise.
    query = query * tf.cast(1.0 / math.sqrt(depth), query.dtype)
    scores = layers.at_least_float32(
        tf.matmul(query, key, transpose_b=True)
    )  # [B, N, F, T]
    scores = scores + tf.cast(score_bias, scores.dtype)
    shares = tf.cast(tf.nn.softmax(scores), value.dtype)  # [B, N, F, T]
    rate = config.attention_probs_dropout_prob
    shares = layers.dropout(shares, rate, dropout_key, site=site)
    context = tf.transpose(tf.matmul(shares, value), [0, 2, 1, 3])  # [B, F, N, D]
    return tf.reshape(context, layers.shape_list(flat[0]))


def encoder_layer(
    own: Params,
    config: BertConfig,
    inputs: tf.Tensor,
    *,
    score_bias: tf.Tensor,
    dropout_key: DropoutKey | None,
    site: int,
    places: tf.Tensor | None = None,
    recompute: str = "none",
) -> tf.Tensor:
    """One encoder layer, normalised after each residual: [B, T, H] -> same.

    own: the layer's parameters, without "bert/encoder/layer_N/" before their names.
    site: the first of its places of dropout.
    places: int32 [B, F]: only these positions are worked out -> [B, F, H].
    """
    rate, epsilon = config.hidden_dropout_prob, config.layer_norm_eps
    wanted = inputs
    if places is not None:
        wanted = tf.gather(inputs, places, batch_dims=1)
        if score_bias.shape[2] > 1:  # packed
            score_bias = tf.gather(score_bias, places, axis=2, batch_dims=1)

    def attention(own: Params, inputs: tf.Tensor) -> tf.Tensor:
        return self_attention(
            own,
            config,
            inputs,
            score_bias=score_bias,
            dropout_key=dropout_key,
            site=site,
            places=places,
        )

    if recompute == "attention":
        parts = {n: own[n] for n in own if n.startswith("attention/self/")}
        attended = recomputed(attention, parts, inputs)
    else:
        attended = attention(own, inputs)
    attended = layers.dense(own, "attention/output/dense", attended)
    attended = layers.dropout(attended, rate, dropout_key, site=site + 1)
    attended = layers.layer_norm(
        own, "attention/output", attended + wanted, epsilon=epsilon
    )
    inner = layers.dense(own, "intermediate/dense", attended)
    inner = layers.ACTIVATIONS[config.hidden_act](inner)  # [B, F, intermediate]
    outputs = layers.dense(own, "output/dense", inner)  # [B, F, H]
    outputs = layers.dropout(outputs, rate, dropout_key, site=site + 2)
    return layers.layer_norm(own, "output", outputs + attended, epsilon=epsilon)


def encode(
    params: Params,
    config: BertConfig,
    batch: Batch,
    *,
    dropout_key: DropoutKey | None = None,
    places: tf.Tensor | None = None,
    recompute: str = "none",
) -> list[tf.Tensor]:
    """All hidden states: the embedding output, then one [B, T, H] a layer.

    batch: input_ids, segment_ids, input_mask int32 [B, T], shapes static; the mask is
    0 at padding. Where several examples share a row, the mask holds each token's
    example, from 1, and position_ids [B, T] its place in that example. Other keys
    are not read. Without noise nothing is dropped: inference.
    places: int32 [B, F]: the last layer is worked out at these positions only, and
    gives [B, F, H]. A head that reads one token of a row saves most of a layer.
    The hidden states have the precision of the encoder's kernels.
    recompute: what the backward pass works out again instead of keeping it: nothing
    ("none"), all that is of size T x T ("attention"), or whole layers ("block").
    """
    precision = params["bert/encoder/layer_0/attention/self/query/kernel"].dtype
    hidden = [tf.cast(embed(params, config, batch, dropout_key=dropout_key), precision)]
    score_bias = attention_bias(batch)
    for index in range(config.num_hidden_layers):
        prefix = f"bert/encoder/layer_{index}/"
        own = {
            n.removeprefix(prefix): params[n] for n in params if n.startswith(prefix)
        }
        site = 1 + index * _SITES_PER_LAYER
        at = places if index == config.num_hidden_layers - 1 else None

        def layer(own: Params, inputs: Any, *, site: int = site, at: Any = at) -> Any:
            return encoder_layer(
                own,
                config,
                inputs,
                score_bias=score_bias,
                dropout_key=dropout_key,
                site=site,
                places=at,
                recompute=recompute,
            )

        if recompute == "block":
            hidden.append(recomputed(layer, own, hidden[-1]))
        else:
            hidden.append(layer(own, hidden[-1]))
    return hidden


def first_tokens(batch: Batch) -> tf.Tensor:
    """Where the [CLS] of every example stands in its row, int32 [B, F]."""
    if "first_tokens" in batch:
        return batch["first_tokens"]
    return tf.zeros([layers.shape_list(batch["input_ids"])[0], 1], tf.int32)


def pool(params: Params, first_tokens: tf.Tensor) -> tf.Tensor:
    """The last hidden state of each [CLS], [E, H] -> what a classifier reads, same."""
    return tf.tanh(layers.dense(params, "bert/pooler/dense", first_tokens))
