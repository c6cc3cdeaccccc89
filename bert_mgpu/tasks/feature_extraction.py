"""Vectors of texts: the outputs of layers for each token, or one vector per text.

Shapes: B rows of T tokens, one example each, K requested layers, H hidden size.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.config.features import TOKENS
from bert_mgpu.core.rows import Outputs, Rows
from bert_mgpu.core.task import Batch, DropoutKey, Forward, Params, ReadExamples
from bert_mgpu.model import bert, layers, pooling
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig

VALUES = "values"  # the name of the output
POOLER = "pooler"  # the pooling that has weights


class FeatureExtraction:
    """A task that learns nothing (a `core.task.Task`): its outputs are the vectors.

    Its rows are not packed.
    """

    name = "features"
    lower_is_better: frozenset[str] = frozenset()
    labels: tuple[str, ...] = ()
    unused_params: frozenset[str] = frozenset()
    new_head_warnings: Mapping[str, str] = types.MappingProxyType({})

    def __init__(
        self,
        bert_config: BertConfig,
        max_seq_length: int,
        *,
        layer_indices: Sequence[int] = (-1,),
        how: str = TOKENS,
        normalize: bool = False,
    ):
        """layer_indices: as in Google's code: 0 is the first layer, -1 the last one.

        how: TOKENS, or a pooling of config/features.py, which takes one layer. Raises
        IndexError if there is no such layer.
        """
        numbers = range(bert_config.num_hidden_layers)
        self._layers = [numbers[index] for index in layer_indices]
        self.max_seq_length = max_seq_length
        self.facts: dict[str, Any] = {}
        self.token_outputs = frozenset({VALUES} if how == TOKENS else ())
        self.shared_outputs: frozenset[str] = frozenset()
        self._config, self._how, self._normalize = bert_config, how, normalize

    @property
    def value_shape(self) -> tuple[int, ...]:
        """The shape of the values of a token, [K, H], or of a text, [H]."""
        width = self._config.hidden_size
        return (len(self._layers), width) if self.token_outputs else (width,)

    @property
    def takes_last(self) -> bool:
        """Whether only the last layer is requested."""
        return self._layers == [self._config.num_hidden_layers - 1]

    def param_specs(self) -> params_lib.Specs:
        return params_lib.bert_specs(self._config, pooled=self._how == POOLER)

    def outputs(self, params: Params, batch: Batch) -> dict[str, tf.Tensor]:
        """VALUES: float32 [B, T, K, H], or [B, H] with a pooling."""
        first = self._how in pooling.OF_FIRST and self.takes_last
        positions = bert.first_tokens(batch) if first else None
        states = bert.encode(params, self._config, batch, positions=positions)[1:]
        hidden = [layers.at_least_float32(states[index]) for index in self._layers]
        if self.token_outputs:
            return {VALUES: tf.stack(hidden, 2)}
        pooled = pooling.POOLINGS[self._how](params, hidden[0], batch["input_mask"])
        pooled = layers.at_least_float32(pooled)
        return {VALUES: pooling.normalized(pooled) if self._normalize else pooled}

    def infer(self, rows: Rows, forward: Forward) -> Outputs:
        return forward(rows)

    def scored_rows(
        self, outputs: Outputs, rows: Rows, examples: ReadExamples
    ) -> Outputs:
        return outputs

    # Nothing is learnt or scored.
    def first_values(
        self, params: Mapping[str, np.ndarray], new: Collection[str]
    ) -> dict[str, np.ndarray]:
        return {}

    def loss_weights(self, batch: Batch) -> dict[str, np.float32]:
        return {}

    def loss_sums(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> dict[str, Any]:
        return {}

    def scores(self, scored: Outputs) -> dict[str, Any]:
        return {}

    def results(self, scores: Mapping[str, Any], step: int) -> dict[str, Any]:
        return {}

    def summary(self, scored: Outputs, scores: Mapping[str, Any]) -> list[str]:
        return []
