"""Rows of questions: [CLS] question [SEP] window of the context [SEP].

Each distinct context or question is tokenized once, however many rows have it: rows
are slices of these tokens (`core.rows.Spliced`). Windows are google-research/bert's:
each begins `doc_stride` tokens after the one before, and all but the last are full.
Letters: W windows, C tokens of all distinct contexts.
"""

from __future__ import annotations

import array
import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_mgpu.core import hashing
from bert_mgpu.core.rows import Example, Features, Ragged, Spliced
from bert_mgpu.data import cache
from bert_mgpu.tasks.span_qa.reader import Answers
from bert_mgpu.text.pieces import cover_marks
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.windows import windows

SPECIAL = 3  # [CLS], [SEP] and [SEP] of a row
# Names in `Features.unread`: int32 [C, 2], the place of each token in its context, by
# context; int32 [W, 2], the core's first and excluded last token, in the window.
PLACES, CORES = "places", "cores"
STARTS, ENDS = "start_positions", "end_positions"
NO_TARGET = -1  # of a row without a known answer: it has no loss
_ROW = "max_seq_length"  # the flag that limits questions in short rows
_CHINESE = re.compile("[\u3400-\u9fff]")
SHOWN = 20  # maximum number of misplaced answers that are named


class _Contexts:
    """The tokens of distinct contexts, one after the other."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._known: dict[str, tuple[int, int]] = {}  # first token, excluded last one
        self._ids, self._places = array.array("i"), array.array("i")
        self._ends = array.array("q", [0])

    def of(self, text: str) -> tuple[int, int]:
        """The first and the excluded last token of a context, among those of all."""
        if text not in self._known:
            located = self._tokenizer.ids_with_offsets(text)
            places = [[start, end] for _, start, end in located]
            cover_marks(text, places)
            first = len(self._ids)
            self._ids.extend(token for token, _, _ in located)
            self._places.extend(itertools.chain.from_iterable(places))
            self._ends.append(len(self._ids))
            self._known[text] = first, len(self._ids)
        return self._known[text]

    def places_of(self, first: int, end: int) -> np.ndarray:
        """The places of a context's tokens: int32 [tokens, 2]; first, end: see `of`."""
        return np.array(self._places[2 * first : 2 * end], np.int32).reshape(-1, 2)

    @property
    def ids(self) -> np.ndarray:
        return np.array(self._ids, np.int32)

    @property
    def places(self) -> Ragged:
        places = np.array(self._places, np.int32).reshape(-1, 2)
        return Ragged(places, np.array(self._ends, np.int64))

    def are_chinese(self) -> bool:
        """Whether most of their non-whitespace characters are Chinese."""
        counts = [
            (len(_CHINESE.findall(text)), len("".join(text.split())))
            for text in self._known
        ]
        return 2 * sum(own for own, _ in counts) > sum(all_ for _, all_ in counts)


class _Questions:
    """The tokens of distinct questions, each with [CLS] before and [SEP] after it."""

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer, most: int):
        """most: maximum number of tokens of a question."""
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        made = tokenizer.batch_ids([*numbers])
        sizes = np.minimum(made.lengths, most)
        self.cut = {*itertools.compress(numbers, (made.lengths > most).tolist())}
        rows = np.stack([made.offsets[:-1], sizes], 1)[:, None]
        kept = Spliced(made.values, rows.astype(np.int32)).take(np.arange(len(rows)))
        special = np.array([tokenizer.cls_id, tokenizer.sep_id], np.int32)
        ends = kept.offsets[1:] + 2 * np.arange(1, len(rows) + 1)
        self.ids = np.full(len(kept.values) + 2 * len(rows), special[1], np.int32)
        starts = ends - sizes - 2
        self.ids[starts] = special[0]
        inside = np.repeat(starts + 1, sizes) + kept.positions
        self.ids[inside] = kept.values
        pairs = zip(starts.tolist(), (sizes + 2).tolist(), strict=True)
        self.slices = dict(zip(numbers, pairs, strict=True))  # the start and the length


def featurise(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    max_answer_length: int | None = None,
    shown: int | None = SHOWN,
) -> Features:
    """Rows of all examples, each with one row for each window of its context.

    max_answer_length: the notes count the answers with more tokens; None: they count
    none. shown: maximum number of misplaced answers in the notes; None: all.
    """
    # A question leaves room for at least one token of its context.
    longest = max(1, min(max_query_length, max_seq_length - SPECIAL - 1))
    contexts = _Contexts(tokenizer)
    questions = _Questions([each.text_a for each in examples], tokenizer, longest)
    # For each window: its example, its slices, its core and its target.
    owners, slices, cores, targets = (array.array("i") for _ in range(4))
    answer_sizes, fit_nowhere, lost = array.array("i"), 0, 0  # in tokens; questions
    for number, example in enumerate(examples):
        question, head = questions.slices[example.text_a]
        first, last = contexts.of(example.text_b or "")
        room = max_seq_length - head - 1
        sizes = np.ones(last - first, np.int64)
        cut = windows(sizes, room, min(doc_stride, room))
        answer = _tokens_of(example.label, contexts, first, last=last)
        is_in_context, fits = answer is not None and answer[0] >= 0, False
        lost += answer is None and isinstance(example.label, Answers)
        if answer is not None and is_in_context:
            answer_sizes.append(answer[1] - answer[0] + 1)
        for window in zip(*(each.tolist() for each in cut), strict=True):
            start, end, core_start, core_end = window
            owners.append(number)
            slices.extend((question, head, first + start, end - start))
            cores.extend((core_start - start, core_end - start))
            target = _target(answer, start, end, head=head)
            targets.extend(target)
            fits |= target > (0, 0)
        fit_nowhere += is_in_context and not fits
    numbers = np.array(owners, np.int64)
    lines = np.array([example.line for example in examples], np.int64)
    keys = np.array(
        [hashing.text_key(each.text_a, each.text_b) for each in examples], np.uint64
    )
    starts, ends = np.array(targets, np.int32).reshape(-1, 2).T.copy()
    rows = np.array(slices, np.int32).reshape(-1, 4)
    columns = _columns(rows, contexts.ids, questions.ids, sep=tokenizer.sep_id)
    return Features(
        {},
        {STARTS: starts, ENDS: ends},
        lines[numbers],
        notes=cache.length_notes(columns["input_ids"].lengths, 0)
        | _answer_notes(examples, shown)
        | {"cut_questions": sum(each.text_a in questions.cut for each in examples)}
        | {"cut_by": "max_query_length" if longest == max_query_length else _ROW}
        | {"chinese": contexts.are_chinese()}
        | {"room": max_seq_length - 1, "stride": doc_stride, "lost": lost}
        | {"learnt": int((starts != NO_TARGET).sum()), "fit_nowhere": fit_nowhere}
        | {"longest_answer": max(answer_sizes, default=0)}
        | {"long_answers": sum(n > (max_answer_length or n) for n in answer_sizes)},
        keys=keys[numbers],
        owners=numbers if len(numbers) > len(examples) else None,
        unread={
            PLACES: contexts.places,
            CORES: _each_in_a_row(np.array(cores, np.int32).reshape(-1, 2)),
        },
        spliced=columns,
    )


def _answer_notes(examples: Sequence[Example], shown: int | None) -> dict[str, Any]:
    """Facts about the answers of a set: see `question_checks`."""
    labelled = [each for each in examples if isinstance(each.label, Answers)]
    misplaced = [
        (example.line, f"{example.guid}: {told}")
        for example in labelled
        for told in example.label.misplaced
    ]
    return {
        "answers": sum(len(each.label.texts) for each in labelled),
        "without": sum(not each.label.texts for each in labelled),
        "misplaced": len(misplaced),
        "misplaced_shown": misplaced[:shown],
    }


def _tokens_of(
    label: object, contexts: _Contexts, first: int, *, last: int
) -> tuple[int, int] | None:
    """The first and the last token of an answer; (-1, -1) if there is no answer.

    None if the answer is unknown, or has no token. first, last: see `_Contexts.of`.
    """
    if not isinstance(label, Answers) or label.is_not_in_context:
        return None
    if label.span is None:
        return -1, -1
    places, (start, end) = contexts.places_of(first, last), label.span
    inside = np.flatnonzero((places[:, 1] > start) & (places[:, 0] < end))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


def _target(
    answer: tuple[int, int] | None, start: int, end: int, *, head: int
) -> tuple[int, int]:
    """The first and the last token of an answer in a row; [CLS] if it is not there.

    start, end: the window in its context; head: tokens of the row before the window.
    """
    if answer is None:
        return NO_TARGET, NO_TARGET
    first, last = answer
    if not start <= first <= last < end:
        return 0, 0
    return first - start + head, last - start + head


def _columns(
    rows: np.ndarray, contexts: np.ndarray, questions: np.ndarray, *, sep: int
) -> dict[str, Spliced]:
    """The columns input_ids and segment_ids.

    rows: int32 [W, 4]: the first token, among those of all questions, and the number of
    tokens of a question with its [CLS] and [SEP]; the same of a window in all contexts.
    """
    values = np.concatenate([contexts, questions, np.array([sep], np.int32)])
    question, head, window, length = rows.T
    end = np.full(len(rows), len(values) - 1, np.int32)
    one = np.ones(len(rows), np.int32)
    parts = (len(contexts) + question, head), (window, length), (end, one)
    longest = int(max(head.max(initial=0), length.max(initial=0))) + 1
    marks = np.repeat(np.arange(2, dtype=np.int32), longest)
    zero = np.zeros(len(rows), np.int32)
    halves = (zero, head), (zero + longest, length + 1)
    return {
        "input_ids": Spliced(values, _slices(parts)),
        "segment_ids": Spliced(marks, _slices(halves)),
    }


def _slices(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Starts and lengths [W] of each part -> int32 [W, parts, 2]."""
    return np.stack([np.stack(part, -1) for part in parts], 1).astype(np.int32)


def _each_in_a_row(values: np.ndarray) -> Ragged:
    return Ragged(values, np.arange(len(values) + 1))


class WindowTokens(NamedTuple):
    """Where the windows are in their rows and contexts: int64 [W] each."""

    heads: np.ndarray  # tokens before the window
    sizes: np.ndarray  # of the window
    firsts: np.ndarray  # its first token among those of all contexts


def windows_of(rows: Features) -> WindowTokens:
    slices = rows.spliced["input_ids"].slices.astype(np.int64)
    return WindowTokens(slices[:, 0, 1], slices[:, 1, 1], slices[:, 1, 0])
