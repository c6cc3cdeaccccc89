"""How much memory a step needs for its activations: a model of what was measured.

Letters as in bert.py. A unit u is one [T, H] of a row, v is one [N, T, T].
"""

from __future__ import annotations

from typing import NamedTuple

from bert_mgpu.config import BertConfig


class _Copies(NamedTuple):
    """How many float32 units of a layer are held."""

    linear: float  # u
    square: float  # v


# Of each layer but the last, which works out the first token alone; and while one
# layer is gone back through. Fitted to peaks of resident memory, docs/performance.md.
_KEPT = {
    ("none", True): _Copies(13.0, 2.25),
    ("none", False): _Copies(20.0, 4.0),
    ("attention", True): _Copies(13.0, 0.5),
    ("attention", False): _Copies(20.0, 0.5),
    ("block", True): _Copies(2.0, 0.0),
    ("block", False): _Copies(2.0, 0.0),
}
_WORKING = _Copies(13.0, 4.0)


def activations(
    config: BertConfig,
    rows: int,
    length: int,
    compiled: bool,
    recompute: str,
    precision: str,
) -> float:
    """Bytes for one tower's forward and backward pass over rows of `length` tokens."""
    width = 2 if precision != "float32" else 4
    unit = rows * length * config.hidden_size * width
    square = rows * config.num_attention_heads * length**2 * width
    kept = _KEPT[recompute, compiled]
    layers = config.num_hidden_layers - 1
    return (
        layers * (kept.linear * unit + kept.square * square)
        + _WORKING.linear * unit
        + _WORKING.square * square
    )


def compiler(config: BertConfig) -> float:
    """Bytes of host memory that XLA's compiler has at its peak."""
    return 3e8 + 4e7 * config.num_hidden_layers
