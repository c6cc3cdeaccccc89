"""Small random models and inputs on which encoders are compared.

Weights and inputs follow from names and lengths alone, so that golden files
hold only what a reference computed from them.
"""

import dataclasses
import re
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bert_mgpu.model.config import BertConfig

TOLERANCE = 1e-5  # largest absolute difference
NUM_LABELS = 5
MODEL = BertConfig(
    vocab_size=99,
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=37,
    type_vocab_size=3,
)
SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "Fine-tuning is unstable on small data sets.",
    "How many GPUs fit into one box?",
    "Accuracy fell from 0.92 to 0.6 within a year.",
)


class Case(NamedTuple):
    """A model and the code whose answers count as right."""

    reference: str  # google or transformers
    activation: str
    epsilon: float
    lengths: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.reference}-{self.activation}-{self.epsilon:g}"

    @property
    def config(self) -> BertConfig:
        return dataclasses.replace(
            MODEL, hidden_act=self.activation, layer_norm_eps=self.epsilon
        )


# Google's code has the tanh form of gelu and 1e-12 only.
CASES = (
    Case("google", "gelu_tanh", 1e-12, (1, 7, 128, 512)),
    Case("google", "relu", 1e-12, (7,)),
    Case("transformers", "gelu_erf", 1e-12, (1, 7, 128, 512)),
    Case("transformers", "gelu_erf", 1e-5, (7,)),
    Case("transformers", "gelu_erf", 1e-3, (7,)),
    Case("transformers", "gelu_tanh", 1e-3, (7,)),
    Case("transformers", "relu", 1e-12, (7,)),
)

# Name -> (mean, deviation). Small embeddings make the epsilon visible, large
# kernels the activation and an attention that is not flat.
_VALUES = (
    (r"_embeddings$", (0.0, 0.03)),
    (r"/gamma$", (1.0, 0.2)),
    (r"(/beta|bias)$", (0.0, 0.1)),
    (r"(/kernel|output_weights)$", (0.0, 0.2)),
)


def _random(name: str) -> np.random.RandomState:
    # numpy guarantees the stream of this older class for ever.
    return np.random.RandomState(zlib.crc32(name.encode()))


def make_params(
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, np.ndarray]:
    """A float32 value for every Google name."""
    params = {}
    for name, shape in shapes.items():
        mean, deviation = next(
            values for key, values in _VALUES if re.search(key, name)
        )
        dropout_key = _random(name).standard_normal(shape)
        params[name] = (mean + deviation * dropout_key).astype(np.float32)
    return params


def make_inputs(length: int) -> dict[str, np.ndarray]:
    """Three rows, int32 [3, length]: full, padded, and masked in the middle."""
    random = _random(f"inputs of {length}")
    mask = np.ones((3, length), np.int32)
    mask[1, (length + 1) // 2 :] = 0
    mask[2, 1 : 1 + length // 3] = 0
    segments = random.randint(0, MODEL.type_vocab_size, (3, length))
    return {
        "input_ids": random.randint(0, MODEL.vocab_size, (3, length)).astype(np.int32),
        "input_mask": mask,
        "segment_ids": segments.astype(np.int32),
    }


def digest(
    hidden: np.ndarray, pooled: np.ndarray, logits: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """What a golden file keeps, float32; S states, B rows, T length, H width.

    hidden [S, B, T, H]: up to eight positions of a row as they are, of every
    position two products with fixed unit vectors, so that each value counts.
    """
    length, width = hidden.shape[2:]
    vectors = _random("projection").standard_normal((width, 2))
    vectors /= np.linalg.norm(vectors, axis=0)
    kept = {
        "states": hidden[:, :, :: -(-length // 8)],  # [S, B, <= 8, H]
        "projected": hidden.astype(np.float64) @ vectors,  # [S, B, T, 2]
        "pooled": pooled,  # [B, H]
    }
    if logits is not None:
        kept["logits"] = logits  # [B, C]
    return {name: value.astype(np.float32) for name, value in kept.items()}


def hide_padding(
    outputs: Mapping[str, np.ndarray], input_mask: np.ndarray
) -> dict[str, np.ndarray]:
    """Zeroes hidden [S, B, T, H] where input_mask [B, T] is 0.

    In real models what nobody reads is ill-conditioned: in MiniLM transformers'
    own float32 is 5e-5 from its float64 there, 2e-6 elsewhere.
    """
    return {**outputs, "hidden": outputs["hidden"] * input_mask[..., None]}
