"""Tables of facts about questions, and warnings about likely mistakes in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_mgpu.core import terminal
from bert_mgpu.core.rows import Features
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.tasks.span_qa import dataset
from bert_mgpu.tasks.span_qa.dataset import PLACES

_NUMBER_WIDTH = 16  # characters of a column
# Shares to warn of: of long answers, of cut questions, of answers that no window shows.
_LONG, _CUT, _FIT_NOWHERE = 0.05, 0.05, 0.01
_FEWEST = 10  # tokens of a context that a window ought to show


def remarks(features: Features) -> Iterator[str]:
    """Yields lines for the log about a set; see `warnings` for likely mistakes."""
    notes = features.notes
    if features.owners is not None:
        rooms = _rooms_of_several_windows(features)
        if alone := int((rooms <= notes["stride"]).sum()):
            widest = int(rooms[rooms <= notes["stride"]].max())
            yield (
                f"windows of a context do not overlap: --doc_stride={notes['stride']},"
                f" and those of {_questions(alone)} have up to {widest} tokens"
            )
    if notes["misplaced"] or notes["lost"]:
        yield (
            f"{notes['misplaced']} of {notes['answers']} answers are not at their"
            f" place; {_questions(notes['lost'])} whose answers are not in the context"
        )
    if notes["fit_nowhere"]:
        yield (
            f"{_questions(notes['fit_nowhere'])} whose answers fit into no window:"
            " training takes them for questions without an answer"
        )
    if notes["cut_questions"]:
        yield (
            f"{_questions(notes['cut_questions'])} longer than --{notes['cut_by']}"
            " allows: the ends are left out"
        )


def warnings(checked: CheckedSet) -> Iterator[str]:
    """Yields a line for each likely mistake in a set."""
    notes, path = checked.features.notes, checked.path
    count = len(checked.features.first_rows)
    if notes["cut_questions"] > _CUT * count:
        share = notes["cut_questions"] / count
        yield f"{path}: {share:.0%} of the questions are cut: raise --{notes['cut_by']}"
    tokens = dataset.windows_of(checked.features)
    for what, sizes in (
        ("without any text", tokens.heads - 2),  # [CLS] and [SEP]
        ("with an empty context", tokens.sizes),
    ):
        empty = np.flatnonzero(sizes[checked.features.first_rows] == 0)
        if len(empty):
            yield f"{checked.locations(empty)}: {_questions(len(empty))} {what}"
    if len(short := _with_short_windows(checked.features)):
        yield (
            f"{checked.locations(short)}: {_questions(len(short))} so long that windows"
            f" show fewer than {_FEWEST} tokens of the context: raise --max_seq_length,"
            " or lower --max_query_length"
        )
    if not checked.labelled:
        return
    for line, told in notes["misplaced_shown"]:
        yield f"{path}:{line}: {told}"
    if more := notes["misplaced"] - len(notes["misplaced_shown"]):
        yield (
            f"{path}: and {more} more answers that are not at their place:"
            " --verbose_logging=true names all"
        )
    with_answer = count - notes["without"]
    if notes["long_answers"] > _LONG * with_answer:
        share = notes["long_answers"] / with_answer
        yield (
            f"{path}: {share:.1%} of the answers have more tokens than"
            f" --max_answer_length, up to {notes['longest_answer']}: they cannot be"
            " predicted: raise it"
        )
    if notes["fit_nowhere"] > _FIT_NOWHERE * with_answer:
        share = notes["fit_nowhere"] / with_answer
        yield (
            f"{path}: {share:.1%} of the answers fit into no window: they cannot be"
            " predicted, and training takes them for questions without an answer:"
            " raise --max_seq_length, or lower --doc_stride"
        )
    if with_answer and checked.split == "train" and notes["lost"] == with_answer:
        rest = "" if notes["learnt"] else ": nothing to learn"
        yield f"{path}: no answer occurs in its context{rest}"


def tables(sets: Sequence[CheckedSet]) -> list[str]:
    """A table, by set, of facts and of what strides would cost; [] without any set."""
    if not sets:
        return []
    features = [checked.features for checked in sets]
    train = next((each.features for each in sets if each.split == "train"), None)
    known = _contexts(train) if train is not None else set()
    rows: list[tuple[str, list[Any]]] = [
        ("contexts", [len(each.unread[PLACES].lengths) for each in features]),
        ("questions without an answer", [each.notes["without"] for each in features]),
        ("answers not at their place", [each.notes["misplaced"] for each in features]),
        ("questions with unusable answers", [each.notes["lost"] for each in features]),
        (
            "answers that are too long",
            [each.notes["long_answers"] for each in features],
        ),
        (
            "answers that fit into no window",
            [each.notes["fit_nowhere"] for each in features],
        ),
        ("questions that are cut", [each.notes["cut_questions"] for each in features]),
    ]
    shared = [
        "-" if each is train or train is None else len(known & _contexts(each))
        for each in features
    ]
    rows.append(("contexts that are in train, too", shared))
    own = features[0].notes["stride"]
    for stride in (max(1, own // 2), own, 2 * own):
        costs = [_cost(each, stride) for each in features]
        shown = [f"{windows} ({tokens / 1e6:.2f} M)" for windows, tokens in costs]
        rows.append((f"rows (tokens) at doc_stride={stride}", shown))
    lines = [["", *(checked.split for checked in sets)]]
    lines += [[name, *map(str, values)] for name, values in rows]
    return [terminal.align(lines, [_NUMBER_WIDTH] * len(sets))]


def _questions(count: int) -> str:
    return f"{count} question{'s' * (count != 1)}"


def _with_short_windows(features: Features) -> np.ndarray:
    """The questions that leave few tokens to each of several windows."""
    return np.flatnonzero(_rooms_of_several_windows(features) < _FEWEST)


def _rooms_of_several_windows(features: Features) -> np.ndarray:
    """The tokens that a window has for the context, for each question.

    Without a limit where one window has all of it: float64 [questions].
    """
    first = features.first_rows
    several = np.diff(np.append(first, len(features))) > 1
    room = features.notes["room"] - dataset.windows_of(features).heads[first]
    return np.where(several, room, np.inf)


def _contexts(features: Features) -> set[bytes]:
    """The token ids of each distinct context, as bytes."""
    places, values = features.unread[PLACES], features.spliced["input_ids"].values
    pairs = zip(places.offsets[:-1], places.offsets[1:], strict=True)
    return {values[start:end].tobytes() for start, end in pairs}


def _cost(features: Features, stride: int) -> tuple[int, int]:
    """How many rows, and tokens in them, a set has at this stride."""
    windows = dataset.windows_of(features)
    first = features.first_rows
    last = np.append(first[1:], len(features)) - 1
    sizes = windows.firsts[last] + windows.sizes[last] - windows.firsts[first]
    heads = windows.heads[first]
    room = features.notes["room"] - heads
    step = np.minimum(stride, room)
    more = np.maximum(0, -(-(sizes - room) // step))
    # All windows but the last are full.
    tokens = more * room + sizes - more * step + (more + 1) * (heads + 1)
    return int((more + 1).sum()), int(tokens.sum())
