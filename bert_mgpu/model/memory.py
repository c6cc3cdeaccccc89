"""The memory that a training step needs, estimated by a fit to measurements.

Letters as in bert.py. Unit u is one tensor [T, H] per row, unit v one [N, T, T].
"""

from __future__ import annotations

from typing import NamedTuple

from bert_mgpu.model.config import BertConfig


class _HeldUnits(NamedTuple):
    """The memory of one layer, in units u and v."""

    linear: float  # in units u
    square: float  # in units v


# What each layer keeps, except the last one, which computes only the first token; and
# what is needed while the backward pass is in one layer. Fitted to peaks of resident
# memory, see docs/performance.md.
_KEPT = {
    "none": _HeldUnits(21.0, 1.65),
    "attention": _HeldUnits(21.0, 0.0),
    "block": _HeldUnits(1.0, 0.0),
}
_WORKING = {
    "none": _HeldUnits(0.0, 4.5),
    "attention": _HeldUnits(0.0, 7.0),
    "block": _HeldUnits(21.0, 4.5),
}
# Bytes that XLA's compiler takes per layer, whose forward pass "block" has twice.
_COMPILER = {"none": 7e7, "attention": 7e7, "block": 1.4e8}


def activation_bytes(
    config: BertConfig,
    rows: int,
    length: int,
    *,
    recompute: str,
    precision: str,
    frozen: int = 0,
) -> float:
    """Bytes for one tower's forward and backward pass over rows of `length` tokens.

    frozen: layers at the bottom that no gradient reaches, so that they keep nothing.
    """
    width = 2 if precision in ("bfloat16", "float16") else 4
    unit = rows * length * config.hidden_size * width
    square = rows * config.num_attention_heads * length**2 * width
    kept, working = _KEPT[recompute], _WORKING[recompute]
    layers = max(0, config.num_hidden_layers - 1 - frozen)
    return (layers * kept.linear + working.linear) * unit + (
        layers * kept.square + working.square
    ) * square


def masked_lm_bytes(config: BertConfig, targets: float) -> float:
    """Bytes for predicting `targets` masked tokens: logits, probabilities, gradient."""
    return 3.0 * 4 * targets * config.vocab_size


def compiler_bytes(config: BertConfig, recompute: str) -> float:
    """Bytes of host memory that XLA's compiler takes at its peak."""
    return 1e8 + _COMPILER[recompute] * config.num_hidden_layers
