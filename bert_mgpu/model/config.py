"""The model's configuration, from bert_config.json or Hugging Face's config.json."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from typing import Any

from bert_mgpu.core import files
from bert_mgpu.core.activations import ACTIVATIONS
from bert_mgpu.core.errors import UserError, short_repr

# Google's "gelu" is the tanh form, Hugging Face's "gelu" the erf form: the
# config's origin decides, and from there on the name says which it is.
_GOOGLE_NAMES = {"gelu": "gelu_tanh", "gelu_new": "gelu_tanh"}
_HUGGING_FACE_NAMES = {
    "gelu": "gelu_erf",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python": "gelu_erf",
}
_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
}
_HUGGING_FACE_KEYS = ("model_type", "architectures", "transformers_version")


_LARGEST_SIZE = 100_000_000


def _is_size(value: float) -> bool:
    return 0 <= value <= _LARGEST_SIZE and math.isfinite(value)


_MAX_POSITIONS = 512  # of Google's models


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """Sizes and rates of a BERT encoder (Devlin et al. 2019), under Google's names."""

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu_tanh"  # one of ACTIVATIONS
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12

    @property
    def longest(self) -> int:
        """The most tokens of a row."""
        return min(self.max_position_embeddings, _MAX_POSITIONS)

    @property
    def size_in_words(self) -> str:
        """The size for a message, such as "12 layers x 768"."""
        layers = self.num_hidden_layers
        return f"{layers} layer{'s' * (layers != 1)} x {self.hidden_size}"

    @classmethod
    def from_json_file(
        cls, path: str | pathlib.Path, hidden_act: str | None = None
    ) -> BertConfig:
        """Reads Google's or Hugging Face's file; `hidden_act` overrides the file's."""
        raw = files.read_json(pathlib.Path(path))
        beside = pathlib.Path(path).parent.glob("*.safetensors*")
        if pathlib.Path(path).name == "config.json" and any(beside):
            raw = {"model_type": "bert", **raw}  # some of Hugging Face's do not say it
        return cls.from_dict(raw, str(path), hidden_act)

    @classmethod
    def from_dict(
        cls, raw: dict[str, Any], origin: str, hidden_act: str | None = None
    ) -> BertConfig:
        """The configuration with these values, all checked; errors name `origin`."""
        values: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            if field.name not in raw:
                continue
            value = raw[field.name]
            if type(value) not in _JSON_TYPES[str(field.type)]:
                raise UserError(
                    f"{origin}: {field.name} is {short_repr(value)}, not a value of"
                    f" type {field.type}"
                )
            values[field.name] = value
        if "vocab_size" not in values:
            raise UserError(f"{origin}: no vocab_size: this is not a bert_config.json")
        from_hugging_face = any(key in raw for key in _HUGGING_FACE_KEYS)
        names = _HUGGING_FACE_NAMES if from_hugging_face else _GOOGLE_NAMES
        activation = values.get("hidden_act", "gelu").lower()
        activation = hidden_act or names.get(activation, activation)
        if activation not in ACTIVATIONS:
            raise UserError(
                f"{origin}: hidden_act {short_repr(activation)} is not known: pass"
                f" --hidden_act, one of {', '.join(ACTIVATIONS)}"
            )
        config = cls(**{**values, "hidden_act": activation})
        config._check(origin)
        return config

    def _check(self, origin: str) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if str(field.type) == "int" and value < 1:
                raise UserError(f"{origin}: {field.name} is {value}, not positive")
            if str(field.type) == "int" and value > _LARGEST_SIZE:
                raise UserError(
                    f"{origin}: {field.name} is more than {_LARGEST_SIZE:,}"
                )
            if str(field.type) == "float" and not _is_size(value):
                raise UserError(
                    f"{origin}: {field.name} is {short_repr(value)}, not a number of 0"
                    " or more"
                )
            if field.name.endswith("_prob") and not 0 <= value < 1:
                raise UserError(f"{origin}: {field.name} is {value}, not in [0, 1)")
        if self.hidden_size % self.num_attention_heads:
            raise UserError(
                f"{origin}: hidden_size {self.hidden_size} is not a multiple of"
                f" num_attention_heads {self.num_attention_heads}"
            )

    def to_google_json(self) -> str:
        """bert_config.json as Google's code reads it.

        The erf form keeps its own name: Google's code has no such activation
        and then refuses the file, which is better than running another model.
        """
        values = dataclasses.asdict(self)
        if self.hidden_act == "gelu_tanh":
            values["hidden_act"] = "gelu"
        return json.dumps(values, indent=2, sort_keys=True) + "\n"
