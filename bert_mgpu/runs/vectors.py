"""Computes vectors of texts, with the weights of towers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.features import POOLINGS
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Features
from bert_mgpu.evaluation.forward import ForwardSettings, forward
from bert_mgpu.tasks.feature_extraction import POOLER, VALUES, FeatureExtraction
from bert_mgpu.text.pair_rows import Pair, pair_rows
from bert_mgpu.text.segments import Segments
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.training.towers import Towers


@dataclasses.dataclass(frozen=True)
class Extractor:
    """A model that computes one kind of vectors."""

    tokenizer: Tokenizer
    task: FeatureExtraction
    towers: Towers
    settings: ForwardSettings

    def rows(self, pairs: Sequence[Pair]) -> Features:
        """The rows of token ids that the model reads for these texts."""
        made = pair_rows(pairs, self.tokenizer, Segments(self.task.max_seq_length))
        return Features(made.columns, {}, np.arange(len(pairs)))

    def values(self, rows: Features) -> Any:
        """The vectors of rows: Ragged float32 [tokens, K, H], pooled float32 [rows, H].

        K is the number of layers, H their width. Raises OutOfMemory if not even one row
        fits, and Diverged as `forward` does.
        """
        done = forward(rows, self.towers, self.settings, note=lambda text: None)
        return done[VALUES]


class EncodedTexts(NamedTuple):
    """The vectors of texts."""

    vectors: np.ndarray  # float32 [texts, H]
    lengths: np.ndarray  # tokens from which each was made, with [CLS] and [SEP]


class TextVectors:
    """A model that computes one vector for each text, with any pooling."""

    def __init__(self, model: Pretrained, towers: Towers, settings: ForwardSettings):
        """towers: of any task; their weights are shared, not copied."""
        self._model, self._towers, self._settings = model, towers, settings
        self._extractors: dict[tuple[str, bool], Extractor] = {}

    def encode(
        self, pairs: Sequence[Pair], pooling: str, normalize: bool
    ) -> EncodedTexts:
        """The vectors of texts; a long text gets that of its first segment.

        pooling: one of POOLINGS in config/features.py. Raises UserError if it needs a
        pooler and the model has none; see also `Extractor.values`.
        """
        extractor = self._extractor(pooling, normalize)
        rows = extractor.rows(pairs)
        if not pairs:
            empty = np.zeros((0, *extractor.task.value_shape), np.float32)
            return EncodedTexts(empty, rows.lengths)
        return EncodedTexts(np.asarray(extractor.values(rows)), rows.lengths)

    def _extractor(self, pooling: str, normalize: bool) -> Extractor:
        key = pooling, normalize
        if key not in self._extractors:
            if pooling not in self.poolings:
                raise UserError(
                    "the model has no pooler: pass another pooling, such as cls"
                )
            length = self._settings.segment or self._settings.max_length
            task = FeatureExtraction(
                self._model.bert_config,
                length,
                how=pooling,
                normalize=normalize,
            )
            settings = dataclasses.replace(
                self._settings,
                name="encode",
                max_length=length,
                segment=None,
                packs=False,
                streams=True,
            )
            self._extractors[key] = Extractor(
                self._model.required_tokenizer,
                task,
                self._towers.sharing(task),
                settings=settings,
            )
        return self._extractors[key]

    @property
    def width(self) -> int:
        """H, the length of a vector."""
        return self._model.bert_config.hidden_size

    @property
    def poolings(self) -> tuple[str, ...]:
        """The poolings for which the model has weights; the first is the usual one."""
        specs = self._towers.task.param_specs()
        has_pooler = "bert/pooler/dense/kernel" in specs
        return tuple(name for name in POOLINGS if name != POOLER or has_pooler)
