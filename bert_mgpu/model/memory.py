"""How much memory a step needs for its activations: a model of what was measured.

Letters as in bert.py. A unit u is one [T, H] of a row, v is one [N, T, T].
"""

from __future__ import annotations

from typing import NamedTuple

from bert_mgpu.model.config import BertConfig


class _Copies(NamedTuple):
    """How many float32 units of a layer are held."""

    linear: float  # u
    square: float  # v


# Of each layer but the last, which works out the first token alone; and while one
# layer is gone back through. Fitted to peaks of resident memory, docs/performance.md.
_KEPT = {
    "none": _Copies(21.0, 1.65),
    "attention": _Copies(21.0, 0.0),
    "block": _Copies(1.0, 0.0),
}
_WORKING = {
    "none": _Copies(0.0, 4.5),
    "attention": _Copies(0.0, 7.0),
    "block": _Copies(21.0, 4.5),
}
# Of XLA's compiler, for each layer: it has the forward pass of a block twice.
_COMPILING = {"none": 7e7, "attention": 7e7, "block": 1.4e8}


def activations(
    config: BertConfig,
    rows: int,
    length: int,
    *,
    recompute: str,
    precision: str,
    frozen: int = 0,
) -> float:
    """Bytes for one tower's forward and backward pass over rows of `length` tokens.

    frozen: layers at the bottom that nothing flows back through, so keep nothing.
    """
    width = 2 if precision in ("bfloat16", "float16") else 4
    unit = rows * length * config.hidden_size * width
    square = rows * config.num_attention_heads * length**2 * width
    kept, working = _KEPT[recompute], _WORKING[recompute]
    layers = max(0, config.num_hidden_layers - 1 - frozen)
    return (layers * kept.linear + working.linear) * unit + (
        layers * kept.square + working.square
    ) * square


def words(config: BertConfig, targets: int) -> float:
    """Bytes for predicting so many masked words: logits, shares and a gradient."""
    return 3.0 * 4 * targets * config.vocab_size


def compiler(config: BertConfig, recompute: str) -> float:
    """Bytes of host memory that XLA's compiler has at its peak."""
    return 1e8 + _COMPILING[recompute] * config.num_hidden_layers
