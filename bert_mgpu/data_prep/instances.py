"""The rows that a model is pretrained on, made from the token ids of documents.

A row is one or two spans of a block's ids, so planning it touches no token:

    rows = plan("nsp", block, 128, short_seq_prob=0.1, rng=random.Random(seed))
    batch = assemble(block, rows.spans[:512], 128, cls_id=cls_id, sep_id=sep_id)

Letters: S sentences, D documents, R rows, T tokens of a row.
"""

from __future__ import annotations

import array
import random
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bert_mgpu.text.truncation import truncate_pair_lengths

_TRIES = 10  # at drawing a document other than the current one


class Documents(NamedTuple):
    """The token ids of a block of documents; for "infill" see `_pairs`."""

    ids: np.ndarray  # uint16 or int32, all sentences one after the other
    starts: np.ndarray | None  # bool, whether a word begins at each; None: no words
    sentences: array.array[int]  # "q" [S + 1], where each sentence begins in `ids`
    documents: array.array[int]  # "q" [D + 1], where each begins in `sentences`
    labels: np.ndarray | None = None  # int32 [D], given with the text
    context: int = 0  # number of leading documents, which give no rows


class InstancePlan(NamedTuple):
    """Rows, as spans of the ids of a block."""

    spans: np.ndarray  # int64 [R, 4]: begin and end of the first text, then the second
    labels: np.ndarray | None  # int32 [R], next_sentence_labels; None: there are none
    cut: int = 0  # rows that were truncated
    lost: int = 0  # tokens that they lost


class Batch(NamedTuple):
    """Rows `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`, then zeros."""

    input_ids: np.ndarray  # int32 [R, T]
    segment_ids: np.ndarray  # int32 [R, T]
    is_text: np.ndarray  # bool [R, T], False at [CLS], [SEP] and padding
    starts: np.ndarray | None  # bool [R, T], True at [CLS] and [SEP] too
    lengths: np.ndarray  # int64 [R]


def plan(
    objective: str,
    block: Documents,
    max_seq_length: int,
    *,
    short_seq_prob: float,
    rng: random.Random,
) -> InstancePlan:
    """The rows of all documents except the context, in their order.

    objective: one of OBJECTIVES.
      "nsp": pairs of texts as google-research/bert's create_instances_from_document
        draws them; label 1 if the second is from another document.
      "mlm": each sentence is a row, cut at max_seq_length, as in bert-ad's
        create_pretraining_data_mlm.py.
      "documents": consecutive sentences of a document fill a row; a sentence too long
        for a row is cut into several rows, so that no token is lost.
      "infill": as in bert-ad's create_pretraining_data_mass.py, see `_pairs`.
    short_seq_prob: the share of documents whose rows aim at a shorter length, drawn
      uniformly from 2 tokens up; for "nsp" and "documents" only.
    """
    return _PLANS[objective](block, max_seq_length, short_seq_prob, rng=rng)


def _next_sentences(
    block: Documents, max_seq_length: int, short_seq_prob: float, *, rng: random.Random
) -> InstancePlan:
    """The pairs of all documents, as in Google's create_instances_from_document."""
    budget = max_seq_length - 3
    ends, firsts = block.sentences, block.documents
    spans, labels = array.array("q"), array.array("i")
    for number in range(block.context, len(firsts) - 1):
        here, stop = firsts[number], firsts[number + 1]
        target = _target(budget, short_seq_prob, rng)
        while here < stop:
            # Take sentences up to the target length, or the end of the document.
            after = bisect_left(ends, ends[here] + target, here + 1, stop)
            middle = after if after == here + 1 else _randint(here + 1, after - 1, rng)
            is_random = after == here + 1 or rng.random() < 0.5
            first = ends[here], ends[middle]
            if is_random:
                wanted = target - (first[1] - first[0])
                second = _from_another(block, number, wanted, rng=rng)
                here = middle  # the sentences after the first text are used again
            else:
                second = ends[middle], ends[after]
                here = after
            spans.extend(_truncated(first, second, budget, rng=rng))
            labels.append(is_random)
    return _rows(spans, np.array(labels, np.int32))


def _target(budget: int, short_seq_prob: float, rng: random.Random) -> int:
    """The number of tokens that the rows of a document aim at."""
    return (
        _randint(min(2, budget), budget, rng)
        if rng.random() < short_seq_prob
        else budget
    )


def _randint(low: int, high: int, rng: random.Random) -> int:
    """A random integer from low to high, like rng.randint but much faster."""
    return low + int(rng.random() * (high - low + 1))


def _from_another(
    block: Documents, number: int, wanted: int, *, rng: random.Random
) -> tuple[int, int]:
    """A span of at least `wanted` tokens, from a random sentence of another document.

    The document is `number` itself if ten tries find no other; a span that reaches the
    end of its document may be shorter.
    """
    ends, firsts = block.sentences, block.documents
    for _ in range(_TRIES):
        other = _randint(0, len(firsts) - 2, rng)
        if other != number:
            break
    stop = firsts[other + 1]
    begin = _randint(firsts[other], stop - 1, rng)
    return ends[begin], ends[bisect_left(ends, ends[begin] + wanted, begin + 1, stop)]


def _truncated(
    first: tuple[int, int], second: tuple[int, int], budget: int, *, rng: random.Random
) -> tuple[int, int, int, int]:
    """Both spans, the longer one truncated until they fit the budget.

    Google's truncate_seq_pair flips a coin for each token to remove it from the front
    or the end; here all coins of a text are flipped at once.
    """
    lengths = first[1] - first[0], second[1] - second[0]
    if sum(lengths) <= budget:
        return *first, *second
    kept = truncate_pair_lengths(lengths[0], lengths[1], budget)
    fronts = []
    for length, left in zip(lengths, kept, strict=True):
        coins = length - left
        fronts.append(rng.getrandbits(coins).bit_count() if coins else 0)
    starts = first[0] + fronts[0], second[0] + fronts[1]
    return starts[0], starts[0] + kept[0], starts[1], starts[1] + kept[1]


def _single(
    block: Documents, max_seq_length: int, short_seq_prob: float, *, rng: random.Random
) -> InstancePlan:
    """One row for each sentence."""
    bounds = np.array(block.sentences, np.int64)
    bounds = bounds[block.documents[block.context] :]
    spans = np.zeros((len(bounds) - 1, 4), np.int64)
    spans[:, 0] = bounds[:-1]
    spans[:, 1] = np.minimum(bounds[1:], bounds[:-1] + max_seq_length - 2)
    return _cut(spans, bounds[1:] - spans[:, 1], None)


def _filled(
    block: Documents, max_seq_length: int, short_seq_prob: float, *, rng: random.Random
) -> InstancePlan:
    """Rows filled with sentences, which stay whole if they fit into a row."""
    budget = max_seq_length - 2
    ends, firsts = block.sentences, block.documents
    spans = array.array("q")
    for number in range(block.context, len(firsts) - 1):
        target = _target(budget, short_seq_prob, rng)
        here, stop = firsts[number], firsts[number + 1]
        begin, end = ends[here], ends[stop]
        while begin < end:
            # Up to the last sentence that ends within the target, or a part of one.
            here = bisect_left(ends, begin + target + 1, here, stop + 1) - 1
            until = ends[here] if ends[here] > begin else begin + target
            spans.extend((begin, until, 0, 0))
            begin = until
    return _rows(spans, None)


def _pairs(
    block: Documents, max_seq_length: int, short_seq_prob: float, *, rng: random.Random
) -> InstancePlan:
    """A row for each document, a phrase and an ad; `labels` are their flags.

    The ad is cut to fit. Rows are left out if the phrase has fewer than two tokens or
    the ad, once cut, is not longer than the phrase.
    """
    bounds = np.array(block.sentences, np.int64)
    spans = np.stack([bounds[0:-1:2], bounds[1::2], bounds[1::2], bounds[2::2]], axis=1)
    phrases = spans[:, 1] - spans[:, 0]
    ends = spans[:, 3].copy()
    fitting = spans[:, 2] + max_seq_length - 3 - phrases
    spans[:, 3] = np.minimum(ends, fitting)
    kept = (phrases >= 2) & (spans[:, 3] - spans[:, 2] > phrases)
    assert block.labels is not None
    return _cut(spans[kept], (ends - spans[:, 3])[kept], block.labels[kept])


def _cut(
    spans: np.ndarray, lost: np.ndarray, labels: np.ndarray | None
) -> InstancePlan:
    """A plan of rows that were cut. lost: tokens that did not fit, int64 [R]."""
    return InstancePlan(spans, labels, int((lost > 0).sum()), lost=int(lost.sum()))


def _rows(spans: array.array[int], labels: np.ndarray | None) -> InstancePlan:
    return InstancePlan(np.array(spans, np.int64).reshape(-1, 4), labels)


_Plan = Callable[..., InstancePlan]
_PLANS: dict[str, _Plan] = {
    "nsp": _next_sentences,
    "mlm": _single,
    "documents": _filled,
    "infill": _pairs,
}
OBJECTIVES = tuple(_PLANS)
LABELLED = ("nsp", "infill")  # objectives with next_sentence_labels
SHORTEST = {"nsp": 5, "mlm": 3, "documents": 3, "infill": 8}  # smallest max_seq_length


def assemble(
    block: Documents, spans: np.ndarray, width: int, *, cls_id: int, sep_id: int
) -> Batch:
    """The rows of these spans, int64 [R, 4], padded to `width` tokens."""
    first, second = spans[:, 0:2], spans[:, 2:4]
    # Positions in a row: the [SEP] of each text; the second text follows the first.
    sep = (first[:, 1] - first[:, 0] + 1)[:, None]  # [R, 1]
    size = (second[:, 1] - second[:, 0])[:, None]
    end = np.where(size > 0, sep + size + 2, sep + 1)
    position = np.arange(width)
    in_second = (position > sep) & (position < end)
    is_text = position < end - 1
    is_text &= position != sep
    is_text[:, 0] = False
    source = np.where(in_second, second[:, :1] - sep - 1, first[:, :1] - 1) + position
    source[~is_text] = 0
    ids = np.where(is_text, block.ids[source], 0).astype(np.int32, copy=False)
    ids[:, 0] = cls_id
    np.put_along_axis(ids, sep, sep_id, axis=1)
    np.put_along_axis(ids, end - 1, sep_id, axis=1)
    starts = None
    if block.starts is not None:
        starts = np.where(is_text, block.starts[source], position < end)
        # The rest of a word that was cut counts as a word.
        starts[:, 1] = True
        np.put_along_axis(starts, np.minimum(sep + 1, end - 1), True, axis=1)
    return Batch(
        ids, in_second.astype(np.int32), is_text, starts=starts, lengths=end[:, 0]
    )
