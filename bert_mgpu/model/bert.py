"""The BERT encoder (Devlin et al. 2019) as a function of its parameters.

Shapes: B rows, T length, F positions of a row, N heads, D width of a head, H = N * D
width, E examples.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from bert_mgpu.core import observation
from bert_mgpu.core.task import Batch, DropoutKey, Params
from bert_mgpu.model import layers
from bert_mgpu.model.config import BertConfig
from bert_mgpu.model.recompute import recomputed

_MASKED_SCORE = -10000.0  # of positions that are not attended to, as in Google's code

# Dropout sites: 0 for embeddings, then three per layer. Heads start at HEAD_SITE.
_SITES_PER_LAYER = 3
HEAD_SITE = 60000


def embed(
    params: Params, config: BertConfig, batch: Batch, *, dropout_key: DropoutKey | None
) -> tf.Tensor:
    """The embedding output of a batch as `encode` takes it, [B, T, H]."""
    tables = "bert/embeddings/"
    input_ids = batch["input_ids"]
    words = tf.gather(params[f"{tables}word_embeddings"], input_ids)  # [B, T, H]
    # The table has a handful of rows: the gradient of a one-hot product is faster than
    # that of a gather, which scatters.
    type_table = params[f"{tables}token_type_embeddings"]
    segments = tf.one_hot(
        batch["segment_ids"], type_table.shape[0], dtype=type_table.dtype
    )
    summed = words + tf.tensordot(segments, type_table, 1)
    position_table = params[f"{tables}position_embeddings"]
    if "position_ids" in batch:
        summed += tf.gather(position_table, batch["position_ids"])
    else:
        summed += position_table[: layers.shape_list(input_ids)[1]]
    normalized = layers.layer_norm(
        params, "bert/embeddings", summed, epsilon=config.layer_norm_eps
    )
    return layers.dropout(normalized, config.hidden_dropout_prob, dropout_key, site=0)


def attention_bias(batch: Batch) -> tf.Tensor:
    """The bias of attention scores: [B, 1, 1, T], or [B, 1, T, T] for packed rows.

    A token attends to the tokens of its own example and never to padding.
    """
    mask = batch["input_mask"]
    if "position_ids" in batch:
        visible = (mask[:, :, None] == mask[:, None, :]) & (mask > 0)[:, None, :]
    else:
        visible = (mask > 0)[:, None, :]
    return tf.where(visible, 0.0, _MASKED_SCORE)[:, None]


def self_attention(
    layer_params: Params,
    config: BertConfig,
    inputs: tf.Tensor,
    *,
    score_bias: tf.Tensor,
    dropout_key: DropoutKey | None,
    site: int,
    positions: tf.Tensor | None,
) -> tf.Tensor:
    """The attention of a layer (Vaswani et al. 2017): [B, T, H] -> [B, F, H].

    layer_params: named without the prefix "bert/encoder/layer_N/"; score_bias:
    [B, 1, 1 or F, T], added to every score; site: that of its dropout; positions: int32
    [B, F], those of the inputs that are queries, None for all.
    """
    heads = config.num_attention_heads
    depth = config.hidden_size // heads
    names = [f"attention/self/{name}" for name in ("query", "key", "value")]
    if positions is None:
        flat = layers.dense_together(layer_params, names, inputs)
    else:
        queried = tf.gather(inputs, positions, batch_dims=1)
        flat = [layers.dense(layer_params, names[0], queried)]
        flat += layers.dense_together(layer_params, names[1:], inputs)

    def split(projected: tf.Tensor) -> tf.Tensor:
        shape = [*layers.shape_list(projected)[:2], heads, depth]
        return tf.transpose(tf.reshape(projected, shape), [0, 2, 1, 3])

    query, key, value = (split(projected) for projected in flat)  # [B, N, F or T, D]
    # Scaled before the product, which could overflow float16 otherwise.
    query = query * tf.cast(1.0 / math.sqrt(depth), query.dtype)
    scores = layers.at_least_float32(
        tf.matmul(query, key, transpose_b=True)
    )  # [B, N, F, T]
    scores = scores + tf.cast(score_bias, scores.dtype)
    attention_probs = tf.cast(tf.nn.softmax(scores), value.dtype)  # [B, N, F, T]
    rate = config.attention_probs_dropout_prob
    attention_probs = layers.dropout(attention_probs, rate, dropout_key, site=site)
    context = tf.transpose(
        tf.matmul(attention_probs, value), [0, 2, 1, 3]
    )  # [B, F, N, D]
    return tf.reshape(context, layers.shape_list(flat[0]))


def encoder_layer(
    layer_params: Params,
    config: BertConfig,
    inputs: tf.Tensor,
    *,
    score_bias: tf.Tensor,
    dropout_key: DropoutKey | None,
    site: int,
    positions: tf.Tensor | None = None,
    recompute: str = "none",
) -> tf.Tensor:
    """One encoder layer, normalised after each residual: [B, T, H] -> same.

    layer_params: named without the prefix "bert/encoder/layer_N/".
    site: the first of its three dropout sites.
    positions: int32 [B, F]: only these are computed -> [B, F, H].
    """
    rate, epsilon = config.hidden_dropout_prob, config.layer_norm_eps
    residual = inputs
    if positions is not None:
        residual = tf.gather(inputs, positions, batch_dims=1)
        if score_bias.shape[2] > 1:  # packed
            score_bias = tf.gather(score_bias, positions, axis=2, batch_dims=1)

    def attention(params: Params, inputs: tf.Tensor) -> tf.Tensor:
        return self_attention(
            params,
            config,
            inputs,
            score_bias=score_bias,
            dropout_key=dropout_key,
            site=site,
            positions=positions,
        )

    if recompute == "attention":
        projections = {
            name: value
            for name, value in layer_params.items()
            if name.startswith("attention/self/")
        }
        attended = recomputed(attention, projections, inputs)
    else:
        attended = attention(layer_params, inputs)
    attended = layers.dense(layer_params, "attention/output/dense", attended)
    attended = layers.dropout(attended, rate, dropout_key, site=site + 1)
    attended = layers.layer_norm(
        layer_params, "attention/output", attended + residual, epsilon=epsilon
    )
    inner = layers.dense(layer_params, "intermediate/dense", attended)
    inner = layers.ACTIVATIONS[config.hidden_act](inner)  # [B, F, intermediate]
    outputs = layers.dense(layer_params, "output/dense", inner)  # [B, F, H]
    outputs = layers.dropout(outputs, rate, dropout_key, site=site + 2)
    return layers.layer_norm(
        layer_params, "output", outputs + attended, epsilon=epsilon
    )


def encode(
    params: Params,
    config: BertConfig,
    batch: Batch,
    *,
    dropout_key: DropoutKey | None = None,
    positions: tf.Tensor | None = None,
    recompute: str = "none",
) -> list[tf.Tensor]:
    """All hidden states: the embedding output, then one [B, T, H] per layer.

    batch: input_ids, segment_ids, input_mask int32 [B, T], shapes static; the mask is
    0 at padding. Where several examples share a row, the mask holds the number of each
    token's example, from 1, and position_ids [B, T] its position in that example. Other
    keys are not read. Without a dropout key nothing is dropped: inference.
    positions: int32 [B, F]: the last layer is computed at these positions only, and
    gives [B, F, H]. A head that reads only one token thus saves most of a layer.
    The hidden states have the precision of the encoder's kernels.
    recompute: what the backward pass computes again, so that it is not kept: nothing
    ("none"), all that is of size T x T ("attention"), or whole layers ("block").
    """
    precision = params["bert/encoder/layer_0/attention/self/query/kernel"].dtype
    hidden = [tf.cast(embed(params, config, batch, dropout_key=dropout_key), precision)]
    score_bias = attention_bias(batch)
    for index in range(config.num_hidden_layers):
        prefix = f"bert/encoder/layer_{index}/"
        layer_params = {
            name.removeprefix(prefix): value
            for name, value in params.items()
            if name.startswith(prefix)
        }
        site = 1 + index * _SITES_PER_LAYER
        last = index == config.num_hidden_layers - 1
        queried = positions if last else None

        def layer(
            layer_params: Params,
            inputs: Any,
            *,
            site: int = site,
            queried: Any = queried,
        ) -> Any:
            return encoder_layer(
                layer_params,
                config,
                inputs,
                score_bias=score_bias,
                dropout_key=dropout_key,
                site=site,
                positions=queried,
                recompute=recompute,
            )

        if recompute == "block":
            hidden.append(recomputed(layer, layer_params, hidden[-1]))
        else:
            hidden.append(layer(layer_params, hidden[-1]))
    observation.show(hidden)
    return hidden


def first_tokens(batch: Batch) -> tf.Tensor:
    """The position of each example's [CLS] in its row, int32 [B, F]."""
    if "first_tokens" in batch:
        return batch["first_tokens"]
    return tf.zeros([layers.shape_list(batch["input_ids"])[0], 1], tf.int32)


def pool(params: Params, first_tokens: tf.Tensor) -> tf.Tensor:
    """The pooled output, which a classifier reads: hidden states [E, H] -> [E, H].

    first_tokens: the last hidden state of each example's [CLS].
    """
    return tf.tanh(layers.dense(params, "bert/pooler/dense", first_tokens))
