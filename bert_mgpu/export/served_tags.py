"""A tagger as a SavedModel: the tags of raw texts, with their places, in one graph.

`serving_default` takes texts, `ids` takes token ids. A text is one row; if it is
longer, only its beginning is tagged. Letters: B texts, T tokens of a row, U units of a
text, L tags.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import tensorflow as tf

from bert_mgpu.core.task import Batch, Params
from bert_mgpu.export.graph_marks import cover_marks
from bert_mgpu.export.graph_tokenizer import GraphTokenizer, Located
from bert_mgpu.export.saved_model import Exportable, Served
from bert_mgpu.model import crf
from bert_mgpu.text import whole_words
from bert_mgpu.text.tokenization import Tokenizer

_NONE = -1  # the number where there is no unit; the tag there is ""


@runtime_checkable
class ExportableTags(Exportable, Protocol):
    """A task that tags tokens."""

    rules: crf.Transitions
    tags_words: bool  # the words of raw texts, not pieces of words

    def logits(self, params: Params, batch: Batch) -> tf.Tensor: ...
    def transitions(self, params: Params) -> crf.Transitions: ...


class _Places(NamedTuple):
    """The places of the units that fit in a row, in characters: ragged [B, U]."""

    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


class ServedTags(Served):
    """A tagger with its weights and tokenizer."""

    _task: ExportableTags

    def __init__(
        self,
        task: ExportableTags,
        params: Mapping[str, np.ndarray],
        tokenizer: Tokenizer,
        *,
        in_graph: type[GraphTokenizer] = GraphTokenizer,
    ):
        super().__init__(
            task,
            params,
            tokenizer,
            truncation="head",
            head_tokens=0,
            in_graph=in_graph,
        )
        goes_on = whole_words.continuing(tokenizer.tokens)
        self._goes_on = tf.constant(goes_on & task.tags_words)
        self._weights = task.transitions(params)

    @property
    def facts(self) -> dict[str, Any]:
        """A classifier's facts, and the random field, which ONNX leaves to clients."""
        pairs = zip(crf.Transitions._fields, self._weights, strict=True)
        transitions = {name: np.asarray(part).tolist() for name, part in pairs}
        units = {"tag_units": "words" if self._task.tags_words else "pieces"}
        return super().facts | units | {"transitions": transitions}

    def outputs_for_ids(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """int32 [B, T], padded with zeros -> logits [B, T, L]."""
        params = {name: tf.convert_to_tensor(v) for name, v in self._params.items()}
        batch = {"input_ids": input_ids, "input_mask": input_mask}
        return {
            "logits": self._task.logits(params, {**batch, "segment_ids": segment_ids})
        }

    def answers_for_ids(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """int32 [B, T], padded with zeros -> logits, tags string [B, T]."""
        logits = self.outputs_for_ids(input_ids, input_mask, segment_ids)["logits"]
        places, lengths = tf.range(tf.shape(input_ids)[1]), tf.reduce_sum(input_mask, 1)
        is_unit = ~tf.gather(self._goes_on, input_ids) | (places == 1)
        is_unit &= (places > 0) & (places < lengths[:, None] - 1)  # [CLS], [SEP]
        tags, _ = self._decoded(logits, is_unit, tf.ones_like(lengths, tf.bool))
        none = tf.fill(tf.shape(input_ids), "")
        named = tf.tensor_scatter_nd_update(none, tf.where(is_unit), tags.values)
        return {"logits": logits, "tags": named}

    def answers_for_texts(self, text_a: tf.Tensor) -> dict[str, tf.Tensor]:
        """string [B], UTF-8 -> tags string [B, U] and numbers of the same shape.

        starts, ends: int32, in characters, the end exclusive; probabilities: float32;
        truncated: int32 [B], 1 where the text is longer than a row. After the last
        unit of a text, tags are "" and numbers -1.
        """
        ids, is_unit, units, truncated = self._row(text_a)
        mask = tf.cast(tf.sequence_mask(ids.row_lengths()), tf.int32)
        dense = ids.to_tensor()
        logits = self.outputs_for_ids(dense, mask, tf.zeros_like(dense))["logits"]
        tags, shares = self._decoded(logits, is_unit.to_tensor(), ~truncated)
        return {
            "tags": tags.to_tensor(""),
            "probabilities": shares.to_tensor(_NONE),
            "starts": units.starts.to_tensor(_NONE),
            "ends": units.ends.to_tensor(_NONE),
            "truncated": tf.cast(truncated, tf.int32),
        }

    def _row(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, _Places, tf.Tensor]:
        """The ids of rows, whether a unit begins at each, the units, what was cut.

        A row ends where a unit ends, as the windows of a run do.
        """
        pieces, count = self._tokenize.located(texts), tf.shape(texts, tf.int64)[0]
        begins = self._begins(pieces)
        unit = tf.cumsum(tf.cast(begins, tf.int32)) - 1  # of each piece
        unit_texts = tf.boolean_mask(pieces.ids.value_rowids(), begins)
        kept, fits = _fitting(unit, unit_texts, count, room=self._max_length - 2)
        ends = tf.math.unsorted_segment_max(
            pieces.ends.values, unit, tf.size(unit_texts)
        )
        starts = tf.boolean_mask(pieces.starts.values, begins)
        ends = cover_marks(texts, starts, ends, unit_texts=unit_texts)
        found = _Places(
            *(
                tf.RaggedTensor.from_value_rowids(
                    tf.boolean_mask(values, fits),
                    tf.boolean_mask(unit_texts, fits),
                    nrows=count,
                )
                for values in (starts, ends)
            )
        )
        left_out = tf.math.unsorted_segment_sum(
            tf.cast(~fits, tf.int32), unit_texts, count
        )
        ids, is_unit = (
            tf.ragged.boolean_mask(
                pieces.ids.with_values(values), pieces.ids.with_values(kept)
            )
            for values in (pieces.ids.values, begins)
        )
        edge = tf.fill([count, 1], False)
        cls, sep = (tf.fill([count, 1], token) for token in (self._cls, self._sep))
        return (
            tf.concat([cls, ids, sep], 1),
            tf.concat([edge, is_unit, edge], 1),
            found,
            left_out > 0,
        )

    def _begins(self, pieces: Located) -> tf.Tensor:
        """Whether a unit begins at each piece: bool, one text after the other."""
        ends = tf.concat([[0], pieces.ends.values[:-1]], 0)
        ends = ends[: tf.size(pieces.ids.values)]
        goes_on = tf.gather(self._goes_on, pieces.ids.values)
        goes_on |= pieces.starts.values < ends  # inside a character
        position = tf.ragged.range(pieces.ids.row_lengths()).values
        return ~goes_on | (position == 0)

    def _decoded(
        self, logits: tf.Tensor, is_unit: tf.Tensor, is_whole: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """The best allowed tags, ragged string [B, U], and their probabilities.

        is_unit: bool [B, T]; is_whole: bool [B], whether the row holds all its text.
        """
        emissions = tf.ragged.boolean_mask(logits, is_unit)
        lengths = tf.cast(emissions.row_lengths(), tf.int32)
        dense = tf.pad(emissions.to_tensor(), [[0, 0], [0, 2], [0, 0]])  # never empty
        places = tf.range(tf.shape(dense)[1])
        is_last = (places == lengths[:, None] - 1) & is_whole[:, None]
        edges = crf.FIRST * tf.cast(places == 0, tf.int32)
        edges += crf.LAST * tf.cast(is_last, tf.int32)
        weights = crf.allowed(self._weights, self._task.rules)
        scores = crf.with_edges(dense, edges, weights)
        tags = crf.viterbi(scores, lengths, weights.follow)
        shares = crf.marginals(scores, lengths, weights.follow)
        shares = tf.gather(shares, tags, batch_dims=2)
        inside = tf.sequence_mask(lengths, tf.shape(dense)[1])
        names = tf.gather(tf.constant([*self._task.labels]), tags)
        return (
            tf.ragged.boolean_mask(names, inside),
            tf.ragged.boolean_mask(shares, inside),
        )


def _fitting(
    unit: tf.Tensor, unit_texts: tf.Tensor, texts: tf.Tensor, *, room: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Whether each piece, and each unit, fits in the row of its text: bool.

    A unit that is longer than a row is cut; any other fits as a whole or not at all.
    unit: of each piece; unit_texts: the text of each unit; texts: how many there are.
    """
    count, place = tf.size(unit_texts), tf.range(tf.size(unit))
    place -= tf.gather(tf.math.unsorted_segment_min(place, unit, count), unit)
    sizes = tf.math.unsorted_segment_sum(tf.ones_like(unit), unit, count)
    sizes = tf.minimum(sizes, room)
    before = tf.cumsum(sizes, exclusive=True)
    texts_begin = tf.math.unsorted_segment_min(before, unit_texts, texts)
    fits = before + sizes - tf.gather(texts_begin, unit_texts) <= room
    return tf.gather(fits, unit) & (place < room), fits
