"""The heads on top of the encoder, and their losses.

Shapes: B batch, R rows of T tokens, H width, C classes, M masked tokens, V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from bert_mgpu.core.rows import POSITIONS, REAL_TARGETS
from bert_mgpu.core.task import Batch, DropoutKey, Params
from bert_mgpu.model import bert, layers
from bert_mgpu.model.config import BertConfig

# -log p of each word and the log odds of the labels: see `slot_logits`.
WORD_BIAS, SLOT_BIAS = "cls/slot/word_bias", "cls/slot/output_bias"
_HIDDEN = -1e30  # the logit of a token that does not belong to an example
LEAST = 1e-9  # probability, whose logarithm is finite


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
    """Logits of a token classifier: [R, T, H] -> float32 [R, T, C].

    Its parameters are those of `classification_logits`, as in transformers'
    BertForTokenClassification.
    """
    hidden = layers.dropout(hidden, dropout_rate, dropout_key, site=bert.HEAD_SITE)
    hidden = layers.at_least_float32(hidden)
    logits = tf.tensordot(hidden, params["output_weights"], [[2], [1]])
    return logits + params["output_bias"]


def token_losses(logits: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
    """-log p of the class of each token: [R, T, C], int32 [R, T] -> [R, T].

    target_ids: 1 + the class; 0 for a token without a class, whose loss is 0.
    """
    losses = cross_entropy(logits, tf.maximum(target_ids - 1, 0))
    return tf.where(target_ids > 0, losses, 0.0)


def span_logits(params: Params, hidden: tf.Tensor) -> tf.Tensor:
    """Logits of google-research/bert's run_squad.py: [R, T, H] -> float32 [R, T, 2].

    The first is for a start, the second for an end. There is no dropout before them.
    """
    hidden = layers.at_least_float32(hidden)
    weights = params["cls/squad/output_weights"]
    return tf.tensordot(hidden, weights, [[2], [1]]) + params["cls/squad/output_bias"]


def span_losses(
    logits: tf.Tensor,
    input_mask: tf.Tensor,
    positions: tf.Tensor,
    *,
    first_tokens: tf.Tensor | None = None,
) -> tf.Tensor:
    """The mean of -log p of the start and -log p of the end: float32 [R * S].

    The softmax is over the tokens of an example. Google's is over padding, too, so that
    the loss depends on it; where rows are full, the two are the same.

    Args:
      logits: [R, T, 2].
      input_mask: int32 [R, T], the number of each token's example in its row, from 1.
      positions: int32 [R * S, 2], of the start and the end, counted from the example's
        first token; negative ones count as 0.
      first_tokens: int32 [R, S], where the examples of a row begin; None: S is 1.
    """
    if first_tokens is None:
        first_tokens = tf.zeros_like(input_mask[:, :1])
    rows, slots = layers.shape_list(first_tokens)
    is_own = input_mask[:, None] == tf.range(1, slots + 1)[:, None]  # [R, S, T]
    own = tf.where(is_own[..., None], logits[:, None], _HIDDEN)  # [R, S, T, 2]
    places = tf.reshape(tf.maximum(positions, 0), [rows, slots, 2])
    places += first_tokens[..., None]
    losses = cross_entropy(tf.transpose(own, [0, 1, 3, 2]), places)  # [R, S, 2]
    return tf.reshape(tf.reduce_mean(losses, -1), [-1])


class MaskedTokens(NamedTuple):
    """The masked tokens of a batch whose targets have the shape [R, P]."""

    index: tf.Tensor  # int32 [M], among the R * P
    ids: tf.Tensor  # int32 [M], the true tokens
    weights: tf.Tensor  # float32 [M], 0 at padding


def masked_tokens(batch: Batch) -> MaskedTokens:
    """The masked tokens that may be real: far fewer than R * P if rows differ."""
    ids = tf.reshape(batch["masked_lm_ids"], [-1])
    weights = tf.reshape(batch["masked_lm_weights"], [-1])
    if REAL_TARGETS not in batch:
        return MaskedTokens(tf.range(layers.shape_list(ids)[0]), ids, weights)
    index = tf.maximum(batch[REAL_TARGETS], 0)
    real = tf.cast(batch[REAL_TARGETS] >= 0, weights.dtype)
    return MaskedTokens(index, tf.gather(ids, index), tf.gather(weights, index) * real)


def with_targets(batch: Batch) -> Batch:
    """The batch; if it has no targets, each of its rows gets one with weight 0."""
    if POSITIONS in batch:
        return batch
    none = tf.zeros([batch["input_ids"].shape[0], 1], tf.int32)
    weights = tf.cast(none, "float32")
    return {
        **batch,
        POSITIONS: none,
        "masked_lm_ids": none,
        "masked_lm_weights": weights,
    }


def examples_of_targets(batch: Batch, tokens: MaskedTokens) -> tf.Tensor:
    """The example of each masked token, among the B of the batch: int32 [M]."""
    # The input mask numbers the examples of a row from 1.
    index = tf.gather(batch["input_mask"], batch[POSITIONS], batch_dims=1) - 1
    rows = tf.range(index.shape[0])[:, None]
    per_row = bert.first_tokens(batch).shape[1]
    return tf.gather(tf.reshape(rows * per_row + index, [-1]), tokens.index)


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


def slot_logits(
    params: Params,
    word_logits: tf.Tensor,
    tokens: MaskedTokens,
    *,
    examples: tf.Tensor,
    count: int,
) -> tf.Tensor:
    """The log odds that each phrase belongs in its slot: float32 [B].

    By Bayes' rule, they are the log odds of the labels plus log p(phrase | ad) -
    log p(phrase), taken here as means over the phrase's tokens. p(token | ad) is its
    mean probability at the slot's masks, so that the order of words plays no part.
    An example without masks has the log odds of the labels.

    Args:
      params: WORD_BIAS begins with -log p(token) and SLOT_BIAS with the log odds of
        the labels; both are trained.
      word_logits: at the masks, float32 [M, V].
      tokens: the phrases' tokens, one for each mask.
      examples: int32 [M], the example of each.
      count: B, the number of examples.
    """
    own = tf.one_hot(examples, count, axis=0) * tokens.weights  # [B, M]
    masks = tf.maximum(tf.reduce_sum(own, 1), 1.0)  # [B]
    expected = tf.matmul(own, tf.nn.softmax(word_logits)) / masks[:, None]  # [B, V]
    places = tf.stack([tf.maximum(examples, 0), tokens.ids], 1)  # -1: of padding
    gains = tf.math.log(tf.gather_nd(expected, places) + LEAST)  # [M]
    gains += tf.gather(params[WORD_BIAS], tokens.ids)
    return tf.linalg.matvec(own, gains) / masks + params[SLOT_BIAS]


def next_sentence_logits(params: Params, pooled: tf.Tensor) -> tf.Tensor:
    """Logits of "the next sentence" and "a random one": [B, H] -> [B, 2]."""
    weights = params["cls/seq_relationship/output_weights"]
    logits = tf.matmul(pooled, weights, transpose_b=True)
    return logits + params["cls/seq_relationship/output_bias"]


def cross_entropy(logits: tf.Tensor, label_ids: tf.Tensor) -> tf.Tensor:
    """-log p(label) of each row: [B, C], int32 [B] -> [B]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(label_ids, logits)


def one_minus_exp(values: tf.Tensor) -> tf.Tensor:
    """1 - exp(values) for negative values; above 0, so that powers have a gradient."""
    return tf.maximum(-tf.math.expm1(values), 1e-7)
