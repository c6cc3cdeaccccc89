"""Reads the answers of a question, and their place in the context, from its label.

The label is SQuAD's list of objects with text and answer_start, an object of two lists
as in transformers' data sets, or just texts, as in CMRC's own files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from bert_mgpu.core.errors import short_repr
from bert_mgpu.core.rows import Example
from bert_mgpu.core.text_files import Faults, report_faults
from bert_mgpu.data import squad_json
from bert_mgpu.tasks.files import Columns, TaskFiles
from bert_mgpu.tasks.span_qa.files import NEGATIVE

_FLAG = f"--{NEGATIVE}=true"
_HALF = re.compile("[\ud800-\udfff]")  # of a character: a surrogate
_TEXT, _START = "text", "answer_start"


class Answers(NamedTuple):
    """The label of a question: its true answers."""

    texts: tuple[str, ...]  # as the file has them; () if there is no answer
    span: tuple[int, int] | None  # place of the first text found in the context
    misplaced: tuple[str, ...] = ()  # a message on each that is not at its place

    @property
    def is_not_in_context(self) -> bool:
        """Whether there are answers, but the context has none of them."""
        return bool(self.texts) and self.span is None


def read_label(files: TaskFiles, columns: Columns, cells: Sequence[Any]) -> Answers:
    """The label of a row (a `tasks.reader.LabelReader`)."""
    assert columns.label is not None and columns.text_b is not None
    label, context = cells[columns.label], cells[columns.text_b]
    question = cells[columns.text_a]
    place, is_impossible, given = "", None, label
    if isinstance(label, dict) and squad_json.PLACE in label:
        place, given = f"{label[squad_json.PLACE]}: ", label.get(squad_json.ANSWERS)
        is_impossible = label.get(squad_json.IMPOSSIBLE)
    try:
        if place and columns.id is not None and cells[columns.id] == "":
            raise ValueError(f"there is no {squad_json.ID!r}")
        if place and squad_json.ANSWERS not in label and not is_impossible:
            raise ValueError(f"there is no {squad_json.ANSWERS!r}")
        for name, text in (("question", question), ("context", context)):
            if not isinstance(text, str):
                raise ValueError(f"the {name} is {short_repr(text)}: pass a text")
        answers = [*_given(given)]
        _check(len(answers), is_impossible, bool(files.options.get(NEGATIVE)))
    except ValueError as error:
        raise ValueError(f"{place}{error}") from None
    return _located(context, answers)


def check_ids(path: Any, examples: Sequence[Example], faults: Faults) -> None:
    """Reports each id that an earlier question has, too: answers are keyed by id."""
    lines = dict[str, int]()
    for example in examples:
        first = lines.setdefault(str(example.guid), example.line)
        if first != example.line:
            fault = f"the id {short_repr(example.guid)} is that of line {first}, too"
            report_faults(path, example.line, ValueError(fault), faults=faults)


def _given(label: Any) -> Iterator[tuple[str, int | None]]:
    """Yields the text and start of each answer. Raises ValueError for a bad label."""
    if label is None:
        return
    if isinstance(label, dict):
        texts, starts = label.get(_TEXT), label.get(_START)
        if not (isinstance(texts, list) and isinstance(starts, list)):
            raise ValueError(
                f"answers: {short_repr(label)}: lists {_TEXT!r} and {_START!r} are"
                " needed"
            )
        if len(texts) != len(starts):
            raise ValueError(f"answers: {len(texts)} texts and {len(starts)} starts")
        pairs = [*zip(texts, starts, strict=True)]
    elif isinstance(label, list):
        pairs = [
            (item.get(_TEXT), item.get(_START))
            if isinstance(item, dict)
            else (item, None)
            for item in label
        ]
    else:
        pairs = [(label, None)]
    for text, start in pairs:
        if not isinstance(text, str):
            raise ValueError(f"the answer is {short_repr(text)}: a text is needed")
        if _HALF.search(text):
            raise ValueError(f"the answer {text!r} has an unpaired surrogate")
        if not text.strip():
            raise ValueError(f"the answer {text!r} is empty")
        if isinstance(start, bool) or not isinstance(start, int | None):
            raise ValueError(f"{_START} is {short_repr(start)}: a number is needed")
        yield text, start


def _check(count: int, is_impossible: Any, may_lack: bool) -> None:
    """Raises ValueError if the number of answers is wrong."""
    if not isinstance(is_impossible, bool | None):
        raise ValueError(f"is_impossible is {short_repr(is_impossible)}: pass a bool")
    if is_impossible and count:
        answers = f"{count} answer{'s' * (count > 1)}"
        raise ValueError(f"is_impossible is true, but it has {answers}")
    if is_impossible is False and not count and may_lack:
        raise ValueError("no answer, but is_impossible is false")
    if not count and not may_lack:
        raise ValueError(f"a question without an answer needs {_FLAG}")


def _located(context: str, answers: Sequence[tuple[str, int | None]]) -> Answers:
    span, misplaced = None, list[str]()
    nearest: tuple[int, int] | None = None
    for text, start in answers:
        own = _place(context, text, start)
        if own and start is not None and own[0] in _places_of(text, start):
            span = span or own
            continue
        nearest = nearest or own
        if start is not None or own is None:
            misplaced.append(_told(text, start, own[0] if own else None))
    texts = tuple(text for text, _ in answers)
    return Answers(texts, span or nearest, tuple(misplaced))


def _places_of(text: str, start: int) -> Iterable[int]:
    """Where an answer may begin, with or without the white space before its words."""
    return range(max(0, start), start + 1 + len(text) - len(text.lstrip()))


def _place(context: str, text: str, start: int | None) -> tuple[int, int] | None:
    """Where a text stands in a context: at `start`, or nearest to it; None: nowhere.

    If need be, runs of white space may differ, and what surrounds the text is left out:
    google-research/bert compares so.
    """
    at: int | None = context.find(text) if start is None else start
    if at is not None and at >= 0 and context.startswith(text, at):
        return at, at + len(text)
    words = re.compile(r"\s+".join(map(re.escape, text.split())))
    if start is not None and start <= len(context):
        for begin in _places_of(text, start):
            if match := words.match(context, begin):
                return match.span()
    if (at := _nearest(context, text, start or 0)) is not None:
        return at, at + len(text)
    spans = [match.span() for match in words.finditer(context)]
    return min(spans, key=lambda own: abs(own[0] - (start or 0)), default=None)


def _nearest(context: str, text: str, start: int) -> int | None:
    """Where a text occurs nearest to a place; of two equally near, the first."""
    best, at = None, context.find(text)
    while at >= 0:
        if best is None or abs(at - start) < abs(best - start):
            best = at
        elif at > start:
            break
        at = context.find(text, at + 1)
    return best


def _told(text: str, start: int | None, at: int | None) -> str:
    where = "" if start is None else f" at {start}"
    if at is None:
        elsewhere = "" if start is None else ", nor elsewhere"
        done = f"{elsewhere} in the context: left out"
    else:
        is_near = start is not None and start >= 0 and abs(at - start) == 1
        off = ", off by one" if is_near else ""
        done = f", but at {at}{off}"
    return f"the answer {short_repr(text)} is not{where}{done}"
