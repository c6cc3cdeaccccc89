"""Names, shapes and initial values of the parameters, as in google-research/bert.

A parameter table maps name -> (shape, initializer); parameters themselves are a
flat dict name -> array. The names are the variable names of Google's TF1 code,
so its checkpoints need no name map.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import numpy as np

from bert_mgpu.core.rng import normal
from bert_mgpu.core.rng.philox import Purpose, Stream
from bert_mgpu.model.config import BertConfig

MASKED_HEAD = "cls/predictions/transform/dense/kernel"  # its first parameter

Specs = dict[str, tuple[tuple[int, ...], str]]


def dense_specs(name: str, inputs: int, outputs: int) -> Specs:
    """The parameters of a dense layer; the kernel is [inputs, outputs]."""
    return {
        f"{name}/kernel": ((inputs, outputs), "truncated_normal"),
        f"{name}/bias": ((outputs,), "zeros"),
    }


def _layer_norm(name: str, width: int) -> Specs:
    return {
        f"{name}/LayerNorm/gamma": ((width,), "ones"),
        f"{name}/LayerNorm/beta": ((width,), "zeros"),
    }


def bert_specs(config: BertConfig, *, pooled: bool = True) -> Specs:
    """The parameters of the encoder and the pooler; kernels are [inputs, outputs]."""
    width = config.hidden_size
    specs: Specs = {
        f"bert/embeddings/{table}_embeddings": (
            (rows, width),
            "truncated_normal",
        )
        for table, rows in (
            ("word", config.vocab_size),
            ("token_type", config.type_vocab_size),
            ("position", config.max_position_embeddings),
        )
    }
    specs |= _layer_norm("bert/embeddings", width)
    for index in range(config.num_hidden_layers):
        layer = f"bert/encoder/layer_{index}"
        for part in ("query", "key", "value"):
            specs |= dense_specs(f"{layer}/attention/self/{part}", width, width)
        specs |= dense_specs(f"{layer}/attention/output/dense", width, width)
        specs |= _layer_norm(f"{layer}/attention/output", width)
        specs |= dense_specs(
            f"{layer}/intermediate/dense", width, config.intermediate_size
        )
        specs |= dense_specs(f"{layer}/output/dense", config.intermediate_size, width)
        specs |= _layer_norm(f"{layer}/output", width)
    return specs | (dense_specs("bert/pooler/dense", width, width) if pooled else {})


def classifier_specs(config: BertConfig, num_labels: int) -> Specs:
    """The head of Google's run_classifier.py; the kernel is [labels, width]."""
    return {
        "output_weights": (
            (num_labels, config.hidden_size),
            "truncated_normal",
        ),
        "output_bias": ((num_labels,), "zeros"),
    }


def span_specs(config: BertConfig) -> Specs:
    """The head of Google's run_squad.py: one output for the start, one for the end."""
    return {
        "cls/squad/output_weights": ((2, config.hidden_size), "truncated_normal"),
        "cls/squad/output_bias": ((2,), "zeros"),
    }


def pretraining_specs(config: BertConfig, next_sentence: bool) -> Specs:
    """The heads of Google's run_pretraining.py.

    The output layer's kernel is the table of the word embeddings.
    """
    width = config.hidden_size
    specs = dense_specs("cls/predictions/transform/dense", width, width)
    specs |= _layer_norm("cls/predictions/transform", width)
    specs["cls/predictions/output_bias"] = ((config.vocab_size,), "zeros")
    if next_sentence:
        specs["cls/seq_relationship/output_weights"] = ((2, width), "truncated_normal")
        specs["cls/seq_relationship/output_bias"] = ((2,), "zeros")
    return specs


def slot_specs(config: BertConfig) -> Specs:
    """What `heads.slot_logits` adds to the masked-word head."""
    return {
        "cls/slot/word_bias": ((config.vocab_size,), "zeros"),
        "cls/slot/output_bias": ((), "zeros"),
    }


def initialize(
    specs: Mapping[str, tuple[tuple[int, ...], str]],
    deviation: float,
    seed: int,
) -> dict[str, np.ndarray]:
    """Initial values, float32. Each depends only on its name and the seed.

    Normal values are drawn with this standard deviation and none lies beyond two of it,
    as with TensorFlow's truncated_normal_initializer.
    """
    values = {}
    for name, (shape, initializer) in specs.items():
        if initializer == "truncated_normal":
            number = zlib.crc32(name.encode())
            stream = Stream(seed, Purpose.FIRST_WEIGHTS, number)
            drawn = normal.truncated(stream, math.prod(shape), deviation)
            values[name] = drawn.reshape(shape)
        else:
            fill = {"zeros": np.zeros, "ones": np.ones}[initializer]
            values[name] = fill(shape, np.float32)
    return values
