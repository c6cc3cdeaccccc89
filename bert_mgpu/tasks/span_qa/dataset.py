"""Rows of questions: [CLS] question [SEP] window of the context [SEP].

Contexts and questions are tokenized once each, however many rows have them: a row is
slices of the tokens of all (`core.rows.Spliced`). Windows are google-research/bert's:
each begins `doc_stride` tokens behind the one before, and all but the last are full.
Letters: W windows, C tokens of all distinct contexts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rows import Example, Features, Ragged, Spliced
from bert_mgpu.data import cache
from bert_mgpu.tasks.span_qa.reader import Answers
from bert_mgpu.text.pieces import take_dropped
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.windows import windows

SPECIAL = 3  # [CLS], [SEP] and [SEP] of a row
# Unread: int32 [C, 2], the place of each token in its context, by context; and [W, 2],
# the first and the excluded last token of the window's core, in the window.
PLACES, CORES = "places", "cores"
STARTS, ENDS = "start_positions", "end_positions"
NO_TARGET = -1  # of a row without a known answer: it has no loss
_CHINESE = re.compile("[\u3400-\u9fff]")
_SHOWN = 20  # misplaced answers that are named


class _Text(NamedTuple):
    """The tokens of a text: where they stand among those of all, and in it."""

    first: int
    ids: np.ndarray  # int32 [tokens]
    places: np.ndarray  # int32 [tokens, 2]


class _Texts:
    """The tokens of distinct texts, one after the other."""

    def __init__(self, tokenizer: Tokenizer, most: int | None = None):
        """most: tokens of a text."""
        self._tokenizer, self._most = tokenizer, most
        self._known: dict[str, _Text] = {}
        self.count = self.cut = 0  # tokens; texts that lost some

    def of(self, text: str) -> _Text:
        if text not in self._known:
            located = self._tokenizer.ids_with_offsets(text)
            places = [[start, end] for _, start, end in located]
            take_dropped(text, places)
            ids = np.array([token for token, _, _ in located], np.int32)[: self._most]
            own = np.array(places, np.int32).reshape(-1, 2)[: self._most]
            self._known[text] = _Text(self.count, ids, own)
            self.count += len(ids)
            self.cut += len(ids) < len(located)
        return self._known[text]

    def are_chinese(self) -> bool:
        """Whether most of their characters but blanks are Chinese."""
        text = "".join(self._known)
        return len(_CHINESE.findall(text)) > len("".join(text.split())) / 2

    def ids(self) -> np.ndarray:
        none = np.zeros(0, np.int32)
        return np.concatenate([none, *(text.ids for text in self._known.values())])

    def places(self) -> Ragged:
        parts = [text.places for text in self._known.values()]
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        values = np.concatenate([np.zeros((0, 2), np.int32), *parts])
        return Ragged(values, offsets.astype(np.int64))


def featurise(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    shown: int | None = _SHOWN,
) -> Features:
    """An example has as many rows as its context has windows.

    shown: misplaced answers in the notes; None: all.
    """
    # A question leaves room for a token of its context.
    longest = max(1, min(max_query_length, max_seq_length - SPECIAL - 1))
    contexts, questions = _Texts(tokenizer), _Texts(tokenizer, longest)
    owners, slices = list[int](), list[tuple[int, ...]]()
    cores, targets = list[tuple[int, int]](), list[tuple[int, int]]()
    for number, example in enumerate(examples):
        question = questions.of(example.text_a)
        context = contexts.of(example.text_b or "")
        head, size = len(question.ids) + 2, len(context.ids)
        room = max_seq_length - head - 1
        cut = windows(np.ones(size, np.int64), room, min(doc_stride, room))
        answer = _tokens_of(example.label, context.places)
        for window in zip(*(each.tolist() for each in cut), strict=True):
            start, end, core_start, core_end = window
            slices.append(
                (question.first, head - 2, context.first + start, end - start)
            )
            cores.append((core_start - start, core_end - start))
            targets.append(_target(answer, start, end, head=head))
            owners.append(number)
    numbers = np.array(owners, np.int64)
    labels = [each.label for each in examples if isinstance(each.label, Answers)]
    lines = np.array([example.line for example in examples], np.int64)
    keys = np.array([_key(each.text_a, each.text_b) for each in examples], np.uint64)
    rows = np.array(slices, np.int32).reshape(-1, 4)
    starts, ends = np.array(targets, np.int32).reshape(-1, 2).T.copy()
    columns = _columns(rows, contexts.ids(), questions.ids(), tokenizer=tokenizer)
    notes = cache.length_notes(columns["input_ids"].lengths, 0)
    misplaced = [
        f"{example.guid}: {told}"
        for example in examples
        if isinstance(example.label, Answers)
        for told in example.label.misplaced
    ]
    return Features(
        {},
        {STARTS: starts, ENDS: ends},
        lines[numbers],
        notes=notes
        | {"answers": sum(len(label.texts) for label in labels)}
        | {"misplaced": len(misplaced), "misplaced_shown": misplaced[:shown]}
        | {"lost": sum(label.is_lost for label in labels)}
        | {"cut_questions": questions.cut, "contexts": contexts.count}
        | {"chinese": contexts.are_chinese()},
        keys=keys[numbers],
        owners=numbers if len(numbers) > len(examples) else None,
        unread={
            PLACES: contexts.places(),
            CORES: _each_in_a_row(np.array(cores, np.int32).reshape(-1, 2)),
        },
        spliced=columns,
    )


def _tokens_of(label: object, places: np.ndarray) -> tuple[int, int] | None:
    """The first and the last token of an answer; (-1, -1): it has none.

    None: the answer is not known, or has no token.
    """
    if not isinstance(label, Answers) or label.is_lost:
        return None
    if label.span is None:
        return -1, -1
    start, end = label.span
    inside = np.flatnonzero((places[:, 1] > start) & (places[:, 0] < end))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


def _target(
    answer: tuple[int, int] | None, start: int, end: int, *, head: int
) -> tuple[int, int]:
    """Where an answer stands in the row of a window; [CLS] where it does not.

    head: tokens before the window.
    """
    if answer is None:
        return NO_TARGET, NO_TARGET
    first, last = answer
    if not start <= first <= last < end:
        return 0, 0
    return first - start + head, last - start + head


def _columns(
    rows: np.ndarray,
    contexts: np.ndarray,
    questions: np.ndarray,
    *,
    tokenizer: Tokenizer,
) -> dict[str, Spliced]:
    """input_ids and segment_ids.

    rows: int32 [W, 4], the first token and the number of tokens of the question and of
    the window, among those of all questions and contexts.
    """
    special = np.array([tokenizer.cls_id, tokenizer.sep_id], np.int32)
    values = np.concatenate([contexts, questions, special])
    cls = np.full(len(rows), len(values) - 2)
    sep, one = cls + 1, np.ones(len(rows), int)
    question, size, window, length = rows.T
    parts = [
        (cls, one),
        (len(contexts) + question, size),
        (sep, one),
        (window, length),
        (sep, one),
    ]
    ids = np.stack([np.stack(part, -1) for part in parts], 1).astype(np.int32)
    longest = int(max(size.max(initial=0), length.max(initial=0))) + 2
    marks = np.repeat(np.arange(2, dtype=np.int32), longest)
    zero = np.zeros(len(rows), int)
    halves = [(zero, size + 2), (zero + longest, length + 1)]
    segments = np.stack([np.stack(half, -1) for half in halves], 1).astype(np.int32)
    return {"input_ids": Spliced(values, ids), "segment_ids": Spliced(marks, segments)}


def _each_in_a_row(values: np.ndarray) -> Ragged:
    return Ragged(values, np.arange(len(values) + 1))


def _key(question: str, context: str | None) -> int:
    """A 64-bit hash of a question and its context."""
    text = f"{question.strip()}\0{(context or '').strip()}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


class WindowTokens(NamedTuple):
    """What answers need to know of rows: int64 [W] each."""

    heads: np.ndarray  # tokens before the window
    sizes: np.ndarray  # of the window
    firsts: np.ndarray  # its first token among those of all contexts


def windows_of(rows: Features) -> WindowTokens:
    slices = rows.spliced["input_ids"].slices.astype(np.int64)
    return WindowTokens(slices[:, :3, 1].sum(1), slices[:, 3, 1], slices[:, 3, 0])
