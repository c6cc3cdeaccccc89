"""Runs transformers' BERT on parameters with Google's names."""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import transformers

from bert_mgpu.checkpoints import weight_names
from bert_mgpu.model.config import BertConfig

_ACTIVATIONS = {"gelu_erf": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}


def build(
    config: BertConfig,
    num_labels: int,
    architecture: str = "BertForSequenceClassification",
) -> Any:
    """A model of transformers' own random weights."""
    return getattr(transformers, architecture)(
        transformers.BertConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            num_hidden_layers=config.num_hidden_layers,
            num_attention_heads=config.num_attention_heads,
            intermediate_size=config.intermediate_size,
            hidden_act=_ACTIVATIONS[config.hidden_act],
            max_position_embeddings=config.max_position_embeddings,
            type_vocab_size=config.type_vocab_size,
            layer_norm_eps=config.layer_norm_eps,
            num_labels=num_labels,
        )
    )


def shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of the model's parameters under Google's names."""
    actual = {}
    for name, value in model.state_dict().items():
        row = weight_names.row_by_hugging_face(name)
        assert row is not None, name
        shape = tuple(value.shape)
        actual[row.google] = shape[::-1] if row.transposed else shape
    return actual


def fill(model: Any, params: Mapping[str, np.ndarray]) -> Any:
    """Puts every parameter into the model."""
    state = {}
    for name in model.state_dict():
        row = weight_names.row_by_hugging_face(name)
        assert row is not None, name
        value = params[row.google]
        state[name] = torch.tensor(value.T if row.transposed else value)
    model.load_state_dict(state)
    return model


def load(folder: pathlib.Path, architecture: str = "AutoModel") -> Any:
    return getattr(transformers, architecture).from_pretrained(folder)


def run(model: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """hidden [layers + 1, B, T, H], pooled [B, H], logits [B, C] if any."""
    encoder = getattr(model, "bert", model)
    with torch.no_grad():
        out = encoder.eval()(
            input_ids=torch.tensor(inputs["input_ids"]).long(),
            attention_mask=torch.tensor(inputs["input_mask"]).long(),
            token_type_ids=torch.tensor(inputs["segment_ids"]).long(),
            output_hidden_states=True,
        )
        actual = {
            "hidden": torch.stack(out.hidden_states),
            "pooled": out.pooler_output,
        }
        if hasattr(model, "classifier"):
            actual["logits"] = model.eval().classifier(out.pooler_output)
    return {name: value.numpy() for name, value in actual.items()}
