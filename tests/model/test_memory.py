"""The estimate of memory: it grows and shrinks with what a step holds."""

import pytest

from bert_mgpu.model import memory
from bert_mgpu.model.config import BertConfig

CONFIG = BertConfig(vocab_size=1000)  # BERT-base


def activations(rows=8, length=128, recompute="none", **more):
    settings = {"precision": "float32"} | more
    return memory.activation_bytes(
        CONFIG, rows, length, recompute=recompute, **settings
    )


def test_recomputation_and_fewer_bits_save_memory():
    layers, attention = (
        activations(recompute="block"),
        activations(recompute="attention"),
    )
    assert layers < attention < activations()
    assert activations(precision="bfloat16") == activations() / 2
    assert activations(precision="tf32") == activations()


def test_frozen_layers_keep_nothing():
    assert activations(frozen=6) == pytest.approx(activations() * (1 - 6 / 11), rel=0.1)
    assert activations(frozen=12) == activations(frozen=11) > 0


def test_attention_grows_with_the_square_of_the_length():
    assert activations(rows=16) == 2 * activations()
    hidden, square = 4 * 8 * 128 * 768, 4 * 8 * 12 * 128**2  # bytes of a u and a v
    several = activations(rows=8, length=256) - 2 * activations()
    per_layer = 1.65 * 11 + 4.5  # of v; only those of u are twice as many
    assert several == pytest.approx(2 * per_layer * square)
    assert activations() == pytest.approx(11 * 21 * hidden + per_layer * square)
