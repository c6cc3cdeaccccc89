"""Faults that make numbers infinite or NaN where a batch has a certain token."""

import numpy as np
import tensorflow as tf

from bert_mgpu.model import bert
from bert_mgpu.tasks.classification.task import Classification

# A weight of each part, whose gradient may be broken.
GRADIENTS = {
    "the head": "output_bias",
    "the pooler": "bert/pooler/dense/bias",
    "layer 1": "bert/encoder/layer_1/output/dense/bias",
    "layer 0": "bert/encoder/layer_0/output/dense/bias",
    "embeddings": "bert/embeddings/LayerNorm/beta",
}


def break_layer(number, culprit, monkeypatch):
    """The outputs of a layer for rows with the culprit are NaN."""
    layer, bias, seen = bert.encoder_layer, bert.attention_bias, []

    def noting(batch):
        seen[:] = [batch["input_ids"]]
        return bias(batch)

    def broken(*given, site, **named):
        outputs = layer(*given, site=site, **named)
        if site != 1 + 3 * number:
            return outputs
        hit = tf.reduce_any(seen[0] == culprit, 1)[:, None, None]
        return tf.where(hit, np.nan, outputs)

    monkeypatch.setattr(bert, "attention_bias", noting)
    monkeypatch.setattr(bert, "encoder_layer", broken)


def break_loss(part, culprit, monkeypatch):
    """The loss of rows with the culprit, or its gradient alone, is infinite."""
    whole = Classification.loss_sums

    def broken(self, params, batch, dropout_key):
        sums = whole(self, params, batch, dropout_key)
        hit = tf.cast(tf.reduce_any(batch["input_ids"] == culprit), tf.float32)
        if part == "the loss":
            more = -tf.math.log(1.0 - hit)
        else:  # of sqrt(0)
            values = tf.cast(params[GRADIENTS[part]], tf.float32)
            more = tf.sqrt(tf.reduce_sum(tf.square(values + 2.0) * (1.0 - hit)))
        return sums | {"loss": sums["loss"] + more}

    monkeypatch.setattr(Classification, "loss_sums", broken)
