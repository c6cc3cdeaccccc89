"""The tags and entities of whole sentences, from the outputs of their windows.

The tags are the highest-scoring path that the notation allows (Viterbi), across the
windows of a sentence, with the transition scores of a conditional random field or
without any. Letters: U units of a sentence, L tags.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.core.rows import Example, Features, Outputs, Ragged
from bert_mgpu.core.task import ReadExamples
from bert_mgpu.data.forward_batching import round_up_coarsely
from bert_mgpu.model import crf
from bert_mgpu.tasks.tagging import bio
from bert_mgpu.tasks.tagging.bio import Span
from bert_mgpu.tasks.tagging.dataset import ENTITIES, UNITS

_FULL = 1 << 15  # units of a full batch, padding included
_SHORTEST = 8  # minimum length to which sentences are padded


class TaggedSet:
    """The sentences of a set: the outputs, decoded on first use, and the truth.

    Ragged attributes have a row for each sentence and a value for each unit.
    """

    def __init__(
        self,
        outputs: Outputs,
        rows: Features,
        tags: Sequence[str],
        *,
        rules: crf.Transitions,
        examples: ReadExamples,
    ):
        """tags: the model's; rules: which may follow one another, see `bio.Rules`."""
        self.tags, self._rules, self._examples = tags, rules, examples
        is_unit = rows.ragged["tag_ids"].values > 0
        counts = is_unit.astype(np.int64)
        by_row = np.add.reduceat(counts, rows.ragged["tag_ids"].offsets[:-1])
        starts = rows.first_rows
        offsets = np.concatenate([[0], np.cumsum(np.add.reduceat(by_row, starts))])
        self.emissions = Ragged(outputs["logits"].values[is_unit], offsets)
        self.truth = Ragged(rows.ragged["tag_ids"].values[is_unit] - 1, offsets)
        self.places = Ragged(rows.unread[UNITS].values, offsets)
        entities = rows.unread[ENTITIES]
        ends = np.append(entities.offsets[starts], entities.offsets[-1])
        self._entities = Ragged(entities.values, ends)
        count = len(tags)
        flat = np.zeros(count * (count + 2), np.float32)
        if "transitions" in outputs:
            flat = outputs["transitions"][0]
        follow, first, last = np.split(flat, [count * count, count * (count + 1)])
        self.transitions = crf.Transitions(follow.reshape(count, count), first, last)

    def __len__(self) -> int:
        return len(self.emissions.offsets) - 1

    @functools.cached_property
    def examples(self) -> Sequence[Example]:
        """The examples with their texts, read on first use."""
        return self._examples()

    @functools.cached_property
    def true_entities(self) -> list[list[Span]]:
        """The true entities of each sentence, by character.

        They are as the file has them, but for dropped characters at an end.
        """
        types = bio.types_of(self.tags)
        return [
            [Span(start, end, types[kind]) for start, end, kind in own.tolist()]
            for own in map(self._entities.row, range(len(self)))
        ]

    @functools.cached_property
    def decoded(self) -> tuple[Ragged, Ragged]:
        """The predicted tag of each unit, int32, and its probability, float32."""
        return decode(self.emissions, self.transitions, self._rules)

    @functools.cached_property
    def unit_entities(self) -> list[list[Span]]:
        """The predicted entities of each sentence, by unit."""
        scheme = bio.scheme_of(self.tags)
        return [
            bio.read_spans([self.tags[tag] for tag in own.tolist()], scheme).spans
            for own in map(self.decoded[0].row, range(len(self)))
        ]

    @functools.cached_property
    def entities(self) -> list[list[Span]]:
        """The predicted entities of each sentence, by character."""
        return [
            [Span(int(places[s, 0]), int(places[e - 1, 1]), kind) for s, e, kind in own]
            for places, own in zip(
                map(self.places.row, range(len(self))), self.unit_entities, strict=True
            )
        ]

    @functools.cached_property
    def losses(self) -> np.ndarray:
        """-log p of the true tags of each sentence: float64 [sentences]."""
        losses = np.zeros(len(self))
        for batch in _batches(self.emissions):
            truth = np.zeros(batch.emissions.shape[:2], np.int32)
            truth[batch.inside] = 1 + self.truth.values[batch.units]
            losses[batch.numbers] = _losses(
                batch.emissions, truth, batch.edges, transitions=self.transitions
            )
        return losses


def decode(
    emissions: Ragged, transitions: crf.Transitions, rules: crf.Transitions
) -> tuple[Ragged, Ragged]:
    """The best allowed tags of each sentence, int32, and their probabilities, float32.

    A probability is the marginal one of a tag at its unit, over all allowed sequences;
    both come from the same random field. emissions: float32 [U, L] for each sentence.
    """
    allowed = crf.allowed(transitions, rules)
    tags = np.zeros(len(emissions.values), np.int32)
    shares = np.zeros(len(emissions.values), np.float32)
    for batch in _batches(emissions):
        work = _decode_compiled if batch.is_full else _decode
        found, own = work(
            batch.emissions, batch.edges, batch.lengths, transitions=allowed
        )
        tags[batch.units] = found.numpy()[batch.inside]
        shares[batch.units] = own.numpy()[batch.inside]
    return Ragged(tags, emissions.offsets), Ragged(shares, emissions.offsets)


class _Batch(NamedTuple):
    """Sentences of about the same length, padded with zeros."""

    emissions: np.ndarray  # float32 [R, T, L]
    numbers: np.ndarray  # int64 [R]: indices of the sentences
    lengths: np.ndarray  # int32 [R]
    units: np.ndarray  # int64 [U]: indices of their units, in order
    is_full: bool  # of a shape that is frequent enough to compile for

    @property
    def inside(self) -> np.ndarray:
        """Which positions are units, not padding: bool [R, T]."""
        return np.arange(self.emissions.shape[1]) < self.lengths[:, None]

    @property
    def edges(self) -> np.ndarray:
        """Marks the first and the last units, int32 [R, T]: see `crf.with_edges`."""
        places = np.arange(self.emissions.shape[1], dtype=np.int32)
        is_last = places == self.lengths[:, None] - 1
        return (crf.FIRST * (places == 0) + crf.LAST * is_last).astype(np.int32)


def _batches(emissions: Ragged) -> Iterator[_Batch]:
    """Batches of the sentences that have units, the shortest first."""
    lengths = emissions.lengths
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    while len(order):
        width = max(_SHORTEST, round_up_coarsely(int(lengths[order[0]])))
        most = max(1, _FULL // width)
        numbers = order[: np.searchsorted(lengths[order], width, side="right")][:most]
        order = order[len(numbers) :]
        own = lengths[numbers].astype(np.int32)
        firsts = np.repeat(emissions.offsets[numbers], own)
        before = np.repeat(np.cumsum(own) - own, own)
        units = firsts + np.arange(own.sum()) - before
        padded = np.zeros((len(own), width, emissions.values.shape[1]), np.float32)
        full = len(own) == most
        batch = _Batch(padded, numbers, own, units=units, is_full=full)
        padded[batch.inside] = emissions.values[units]
        yield batch


def _best_and_shares(
    emissions: tf.Tensor,
    edges: tf.Tensor,
    lengths: tf.Tensor,
    *,
    transitions: crf.Transitions,
) -> tuple[tf.Tensor, tf.Tensor]:
    """The best tags, int32 [R, T], and the probability of each, float32 [R, T]."""
    scores = crf.with_edges(emissions, edges, transitions)
    tags = crf.viterbi(scores, lengths, transitions.follow)
    shares = crf.marginals(scores, lengths, transitions.follow)
    return tags, tf.gather(shares, tags, batch_dims=2)


def _tag_losses(
    emissions: tf.Tensor,
    tag_ids: tf.Tensor,
    edges: tf.Tensor,
    *,
    transitions: crf.Transitions,
) -> tf.Tensor:
    """-log p of each sentence's tags, float32 [R]; tag_ids: 1 + the tag, 0: padding."""
    prior = tf.pad(tag_ids[:, :-1], [[0, 0], [1, 0]])
    return crf.losses(emissions, tag_ids, prior, edges=edges, transitions=transitions)


def _on_host(work: Callable[..., Any], **options: Any) -> Any:
    """A `tf.function` of `work` that takes arrays of any sizes and runs on the CPU."""
    function = tf.function(work, reduce_retracing=True, **options)

    def call(*arrays: Any, transitions: crf.Transitions) -> Any:
        with tf.device("CPU:0"):
            weights = crf.Transitions(*map(tf.convert_to_tensor, transitions))
            return function(*map(tf.convert_to_tensor, arrays), transitions=weights)

    return call


_decode, _losses = _on_host(_best_and_shares), _on_host(_tag_losses)
_decode_compiled = _on_host(_best_and_shares, jit_compile=True)
