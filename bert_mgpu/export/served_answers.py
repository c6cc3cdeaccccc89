"""A question-answering model as a SavedModel: answers with their places.

`serving_default` takes questions and contexts as texts, cuts the contexts into windows
as a run does (text/windows.py) and chooses answers as a run does
(tasks/span_qa/answers.py), also in float64. Letters: B questions, W windows of all of
them, T tokens of a row, C tokens of all contexts, n = n_best_size, P pairs of a start
and an end, D distinct answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import tensorflow as tf

from bert_mgpu.config.span_qa import Choice, WindowCut
from bert_mgpu.export.graph_marks import cover_marks
from bert_mgpu.export.graph_tokenizer import GraphTokenizer, is_space
from bert_mgpu.export.saved_model import Exportable, Served
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.windows import LENGTH_WEIGHT

_BLOCK = 16  # windows that the model reads at once: a context may have many
_NONE = -1  # the place where there is no answer
_NO_BEST = 1e6  # null odds where no pair is an answer, as in the file null_odds.json
_BLANK = 0x20


@runtime_checkable
class ExportableAnswers(Exportable, Protocol):
    """A task that answers questions from contexts."""

    choice: Choice
    cut: WindowCut


class _Windows(NamedTuple):
    """The windows of all contexts, one context after the other: int32 [W] each."""

    owners: tf.Tensor  # the question of each
    starts: tf.Tensor  # in tokens of its context
    ends: tf.Tensor  # exclusive
    core_starts: tf.Tensor  # in tokens of the window
    core_ends: tf.Tensor


class _ContextPieces(NamedTuple):
    """The contexts of all questions, one after the other."""

    ids: tf.RaggedTensor  # int32 [B, tokens]
    starts: tf.Tensor  # int32 [C], of each token in its context, in characters
    ends: tf.Tensor  # exclusive
    points: tf.RaggedTensor  # int32 [B, characters]


class _Pairs(NamedTuple):
    """Possible answers, grouped by question, the best one first: [P] each."""

    questions: tf.Tensor  # int32
    starts: tf.Tensor  # int32, in characters of the context
    ends: tf.Tensor  # exclusive
    scores: tf.Tensor  # float64

    def take(self, numbers: tf.Tensor) -> _Pairs:
        return _Pairs(*(tf.gather(column, numbers) for column in self))


class ServedAnswers(Served):
    """A question-answering model with its weights and tokenizer."""

    _task: ExportableAnswers

    def __init__(
        self,
        task: ExportableAnswers,
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
        self._choice, self._cut = task.choice, task.cut

    @property
    def facts(self) -> dict[str, Any]:
        """A classifier's facts, and how ONNX clients cut windows and choose answers."""
        return super().facts | self._cut._asdict() | self._choice._asdict()

    def answers_for_pairs(
        self, text_a: tf.Tensor, text_b: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Questions and contexts, string [B] each, UTF-8 -> their answers, [B] each.

        answer: string, "" for none; start, end: int32, in characters of the context,
        the end exclusive, -1 for none; probability: float32, of the answer among the
        n best; null_odds: float32, only where questions may have no answer.
        """
        # A question leaves room for [CLS], two [SEP] and a token of its context.
        longest = max(1, min(self._cut.max_query_length, self._max_length - 4))
        questions = self._tokenize(text_a)[:, :longest]
        contexts = self._pieces(text_b)
        heads = tf.cast(questions.row_lengths(), tf.int32) + 2  # tokens before windows
        room = self._max_length - heads - 1
        sizes = tf.cast(contexts.ids.row_lengths(), tf.int32)
        windows = windows_of(sizes, room, stride=tf.minimum(room, self._cut.doc_stride))
        heads = tf.gather(heads, windows.owners)
        logits = self._logits(questions, contexts, windows, heads=heads)
        pairs = self._pairs(logits, contexts, windows, heads=heads)
        sums = tf.reduce_sum(logits[:, :1], [1, 2])  # [W], at [CLS]
        none = tf.math.unsorted_segment_min(sums, windows.owners, tf.size(sizes))
        return self._chosen(_distinct(pairs, contexts.points), none, contexts.points)

    def _pieces(self, texts: tf.Tensor) -> _ContextPieces:
        pieces = self._tokenize.located(texts)
        starts, ends = pieces.starts.values, pieces.ends.values
        ends = cover_marks(texts, starts, ends, unit_texts=pieces.ids.value_rowids())
        points = tf.strings.unicode_decode(texts, "UTF-8")
        return _ContextPieces(pieces.ids, starts, ends, points=points)

    def _logits(
        self,
        questions: tf.RaggedTensor,
        contexts: _ContextPieces,
        windows: _Windows,
        *,
        heads: tf.Tensor,
    ) -> tf.Tensor:
        """float64 [W, T, 2], -inf after each row's last token. heads: int32 [W]."""
        count = tf.size(windows.owners)
        cls, sep = (tf.fill([count, 1], token) for token in (self._cls, self._sep))
        own = tf.gather(questions, windows.owners)
        begins = tf.gather(tf.cast(contexts.ids.row_starts(), tf.int32), windows.owners)
        tokens = tf.ragged.range(begins + windows.starts, begins + windows.ends)
        tokens = tokens.with_values(tf.gather(contexts.ids.values, tokens.values))
        rows = tf.concat([cls, own, sep, tokens, sep], 1)
        ids = rows.to_tensor()
        inside = tf.sequence_mask(rows.row_lengths(), tf.shape(ids)[1])
        mask = tf.cast(inside, tf.int32)
        segments = mask * tf.cast(
            tf.range(tf.shape(ids)[1]) >= heads[:, None], tf.int32
        )

        def more(first: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
            return first < count

        def block(first: tf.Tensor, logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            batch = (each[first : first + _BLOCK] for each in (ids, mask, segments))
            made = self.outputs_for_ids(*batch)["logits"]
            return first + _BLOCK, tf.concat([logits, made], 0)

        start = tf.constant(0), tf.zeros([0, tf.shape(ids)[1], 2])
        shapes = tf.TensorShape([]), tf.TensorShape([None, None, 2])
        _, logits = tf.while_loop(more, block, start, shape_invariants=shapes)
        return tf.where(inside[..., None], tf.cast(logits, tf.float64), -np.inf)

    def _pairs(
        self,
        logits: tf.Tensor,
        contexts: _ContextPieces,
        windows: _Windows,
        *,
        heads: tf.Tensor,
    ) -> _Pairs:
        """All pairs of each window's n best starts and n best ends that are answers."""
        count = tf.minimum(tf.shape(logits)[1], self._choice.n_best_size)
        # Of equal logits the first token comes first.
        chosen, best = tf.math.top_k(tf.transpose(logits, [0, 2, 1]), count)
        places = best - heads[:, None, None]  # [W, 2, n], in the window
        starts, ends = places[:, 0, :, None], places[:, 1, None, :]
        right = windows.core_starts[:, None, None] <= starts
        right &= (starts < windows.core_ends[:, None, None]) & (starts <= ends)
        right &= ends < (windows.ends - windows.starts)[:, None, None]
        right &= ends - starts < self._choice.max_answer_length
        window, start, end = tf.unstack(tf.where(right), axis=1)
        own = tf.gather(windows.owners, window)
        first = tf.gather(tf.cast(contexts.ids.row_starts(), tf.int32), own)
        first += tf.gather(windows.starts, window)
        at_start, at_end = tf.stack([window, start], 1), tf.stack([window, end], 1)
        scores = tf.gather_nd(chosen[:, 0], at_start)
        found = _Pairs(
            own,
            tf.gather(contexts.starts, first + tf.gather_nd(places[:, 0], at_start)),
            tf.gather(contexts.ends, first + tf.gather_nd(places[:, 1], at_end)),
            scores=scores + tf.gather_nd(chosen[:, 1], at_end),
        )
        found = found.take(tf.argsort(-found.scores, stable=True))
        return found.take(tf.argsort(found.questions, stable=True))

    def _chosen(
        self, pairs: _Pairs, none: tf.Tensor, points: tf.RaggedTensor
    ) -> dict[str, tf.Tensor]:
        """The answers. pairs: of distinct texts; none: float64 [B], of "no answer"."""
        has_none = self._choice.version_2_with_negative
        n_best, count = self._choice.n_best_size, tf.size(none)
        lists = tf.RaggedTensor.from_value_rowids(
            pairs.scores,
            tf.cast(pairs.questions, tf.int64),
            nrows=tf.cast(count, tf.int64),
        )
        firsts = lists.row_starts()
        if not has_none:  # "no answer" only where no pair is an answer
            has_pairs = lists.row_lengths() > 0
            none = tf.where(has_pairs, tf.constant(-np.inf, tf.float64), 0.0)
        # "No answer" is in the list if fewer than n others score as high; else it is
        # appended.
        before = tf.cast(pairs.scores >= tf.gather(none, pairs.questions), tf.int32)
        before = tf.math.unsorted_segment_sum(before, pairs.questions, count)
        room = tf.where(before < n_best, n_best - 1, n_best)
        rank = tf.cast(tf.ragged.range(lists.row_lengths()), tf.int32)
        lists = tf.ragged.boolean_mask(lists, rank < room[:, None])
        lists = tf.concat([lists, none[:, None]], 1)
        shares = tf.nn.softmax(lists.to_tensor(-np.inf))
        is_any = lists.row_lengths() > 1
        odds = none - lists[:, :1].values  # the first is none itself if alone
        odds = tf.where(is_any, odds, tf.constant(_NO_BEST, tf.float64))
        is_none = ~is_any | (odds > self._choice.null_score_diff_threshold)
        last = lists.row_lengths() - 1
        share = tf.gather(shares, tf.where(is_none, last, 0), batch_dims=1)
        nowhere = tf.size(pairs.starts, tf.int64)
        first = tf.where(is_none, nowhere, firsts)
        start, end = (
            tf.gather(tf.concat([places, [_NONE]], 0), first)
            for places in (pairs.starts, pairs.ends)
        )
        chars = _characters(points, tf.range(count), start, ends=end)
        text = chars.with_values(tf.gather(points.values, chars.values))
        found = {
            "answer": tf.strings.unicode_encode(text, "UTF-8"),
            "start": start,
            "end": end,
            "probability": tf.cast(share, tf.float32),
        }
        return found | ({"null_odds": tf.cast(odds, tf.float32)} if has_none else {})


def windows_of(sizes: tf.Tensor, room: tf.Tensor, stride: tf.Tensor) -> _Windows:
    """`text.windows.windows` for units of one token, of several texts: int32 [B] each.

    Every window scores its tokens; a token is in the core of the first window that
    scores it highest. No core is empty: a window shows the most context around its
    middle, and the last one alone shows the end.
    """
    counts = 1 + tf.maximum(0, -((room - sizes) // stride))
    owners = tf.repeat(tf.range(tf.size(sizes)), counts)
    starts = tf.ragged.range(counts).values * tf.gather(stride, owners)
    ends = tf.minimum(starts + tf.gather(room, owners), tf.gather(sizes, owners))
    tokens = tf.ragged.range(starts, ends)
    window, count = tf.cast(tokens.value_rowids(), tf.int32), tf.size(starts)
    token, low, high = tokens.values, tf.gather(starts, window), tf.gather(ends, window)
    context = tf.cast(tf.minimum(token - low, high - 1 - token), tf.float64)
    scores = context + LENGTH_WEIGHT * tf.cast(high - low, tf.float64)
    place = tf.gather(tf.cumsum(sizes, exclusive=True), tf.gather(owners, window))
    place, places = place + token, tf.reduce_sum(sizes)
    best = tf.math.unsorted_segment_max(scores, place, places)
    first = tf.where(scores == tf.gather(best, place), window, count)
    first = tf.math.unsorted_segment_min(first, place, places)
    own = tf.where(window == tf.gather(first, place))[:, 0]
    in_core, token = tf.gather(window, own), tf.gather(token - low, own)
    return _Windows(
        owners,
        starts,
        ends,
        core_starts=tf.math.unsorted_segment_min(token, in_core, count),
        core_ends=tf.math.unsorted_segment_max(token + 1, in_core, count),
    )


def _distinct(pairs: _Pairs, points: tf.RaggedTensor) -> _Pairs:
    """The best of those pairs whose texts differ only in the length of whitespace.

    points: of the contexts, int32 [B, characters]. An answer neither begins nor ends
    with whitespace.
    """
    chars = _characters(points, pairs.questions, pairs.starts, ends=pairs.ends)
    blanks = tf.gather(is_space(points.values), chars.values)
    again = blanks & tf.concat([[False], blanks], 0)[:-1]
    values = tf.where(blanks, _BLANK, tf.gather(points.values, chars.values))
    texts = tf.ragged.boolean_mask(chars.with_values(values), chars.with_values(~again))
    texts = tf.strings.unicode_encode(texts, "UTF-8")
    named = [tf.strings.as_string(pairs.questions), texts]
    distinct, number = tf.unique(tf.strings.join(named, ":"))
    order = tf.range(tf.size(number))
    return pairs.take(tf.math.unsorted_segment_min(order, number, tf.size(distinct)))


def _characters(
    points: tf.RaggedTensor, questions: tf.Tensor, starts: tf.Tensor, *, ends: tf.Tensor
) -> tf.RaggedTensor:
    """The characters of some answers, as indices into those of all contexts."""
    begins = tf.gather(tf.cast(points.row_starts(), tf.int32), questions)
    return tf.ragged.range(begins + starts, begins + ends)
