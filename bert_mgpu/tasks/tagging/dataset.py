"""Model input for tagging: long texts in windows, each unit in the core of one.

A unit is a word or a word piece; pieces that share a character, as those of Hangul do,
are one unit. The tag is at a unit's first piece; a word without any piece gets [UNK].
Token columns, int32: `tag_ids` is 1 + the tag of each unit in the core, 0 elsewhere;
for a conditional random field, `prior_ids` is 1 + the tag of the unit before, 0 at the
core's start, and `edges` marks a sentence's first and last unit, see model/crf.py.
Letters: U units of a text.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bert_mgpu.core import hashing
from bert_mgpu.core.rows import Example, Features, Ragged
from bert_mgpu.data import cache
from bert_mgpu.model import crf
from bert_mgpu.tasks.tagging import bio
from bert_mgpu.tasks.tagging.bio import Span
from bert_mgpu.tasks.tagging.reader import Entities
from bert_mgpu.text.pieces import bare_end, cover_marks
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.windows import windows

OF_CRF = ("prior_ids", "edges")
UNITS, ENTITIES = "units", "entities"  # in `Features.unread`: int32 [..., 2], [..., 3]
_KEYS = "unit_keys"  # in `Features.unread`: int64 [...], see `_keys`
_CONTINUES = "##"  # begins a piece that continues a word
_Type = TypeVar("_Type")  # of an entity: its name or its index


class Units(NamedTuple):
    """The units of a text: their places in it, int64 [U, 2], and the pieces of each."""

    places: np.ndarray
    pieces: list[list[int]]


def featurise(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    tags: Sequence[str],
    *,
    max_seq_length: int,
    doc_stride: int,
    by_words: bool,
    for_crf: bool = False,
) -> Features:
    """Rows [CLS] units [SEP], one for each window of each example.

    tags: the model's. doc_stride: see `windows`. by_words: whether the units of texts
    that are not given as words are words, not pieces. for_crf: adds the columns that
    only a conditional random field reads.
    """
    rows, owners, lengths = list[WindowRow](), list[int](), list[int]()
    keys, truth = list[np.ndarray](), list[list[Span]]()
    repaired = total = between = 0
    writer, room = _TagWriter(tags), max_seq_length - 2
    for number, example in enumerate(examples):
        units = _units(example, tokenizer, by_words)
        label = example.label or Entities(())
        truth.append(snapped(label.spans, example.text_a, units.places))
        spans = unit_spans(truth[-1], units.places)
        tag_ids = writer.ids(spans, len(units.pieces))
        sizes = np.array([len(pieces) for pieces in units.pieces], np.int64)
        cut = windows(sizes, room, doc_stride)
        for window in zip(*(each.tolist() for each in cut), strict=True):
            rows.append(_row(units, tag_ids, window, tokenizer=tokenizer, room=room))
            owners.append(number)
        keys.append(_keys(units, example.text_a, tokenizer.unk_id))
        lengths.append(int(sizes.sum()) + 2)
        repaired += label.repaired
        total += len(label.spans)
        between += len(label.spans) - len(spans)
    several = len(rows) > len(examples)
    places = _pairs([row.places for row in rows], 2)
    numbers = np.array(owners, np.int64)
    is_first = np.diff(numbers, prepend=-1) > 0
    entities = [
        writer.rows(truth[number]) if first else []
        for number, first in zip(owners, is_first, strict=True)
    ]
    notes = cache.length_notes(np.array(lengths), 0)
    return Features(
        {
            name: Ragged.from_rows([getattr(row, name) for row in rows])
            for name in ("input_ids", "segment_ids", "tag_ids", *OF_CRF * for_crf)
        },
        {},
        np.array([examples[number].line for number in owners], np.int64),
        notes=notes
        | {"rows": len(rows), "repaired": repaired}
        | {"entities": total, "between": between},
        keys=np.array([hashing.text_key(each.text_a) for each in examples], np.uint64)[
            numbers
        ],
        owners=numbers if several else None,
        unread={
            UNITS: places,
            _KEYS: Ragged(np.concatenate(keys), places.offsets),
            ENTITIES: _pairs(entities, 3),
        },
    )


class WindowRow(NamedTuple):
    """The token columns of a row, and the places of the units in its core."""

    input_ids: list[int]
    segment_ids: list[int]
    tag_ids: np.ndarray
    prior_ids: np.ndarray
    edges: np.ndarray
    places: np.ndarray  # int64 [units of the core, 2]


def _row(
    units: Units,
    tag_ids: np.ndarray,
    window: tuple[int, int, int, int],
    *,
    tokenizer: Tokenizer,
    room: int,
) -> WindowRow:
    """The row of a window: (start, end, core start, core end), counted in units."""
    start, end, core_start, core_end = window
    pieces = [own[:room] for own in units.pieces[start:end]]
    ids = [tokenizer.cls_id, *itertools.chain(*pieces), tokenizer.sep_id]
    starts = 1 + np.cumsum([0, *map(len, pieces)])[:-1]  # of the units in the row
    core = starts[core_start - start : core_end - start]
    own, prior, edges = (np.zeros(len(ids), np.int32) for _ in range(3))
    own[core] = tag_ids[core_start:core_end]
    if len(core):
        prior[core[1:]] = tag_ids[core_start : core_end - 1]
        edges[core[0]] += crf.FIRST * (core_start == 0)
        edges[core[-1]] += crf.LAST * (core_end == len(units.pieces))
    places = units.places[core_start:core_end]
    zeros = [0] * len(ids)
    return WindowRow(ids, zeros, own, prior_ids=prior, edges=edges, places=places)


class _TagWriter:
    """Turns entities into the ids of their tags and types."""

    def __init__(self, tags: Sequence[str]):
        self._index = {tag: 1 + number for number, tag in enumerate(tags)}
        self._types = {kind: i for i, kind in enumerate(bio.types_of(tags))}
        self._scheme = bio.scheme_of(tags)

    def ids(self, spans: Sequence[Span], length: int) -> np.ndarray:
        """1 + the tag of each unit, int32 [length]; spans: the entities, in units."""
        written = bio.write_tags(spans, length, self._scheme)
        return np.array([self._index[tag] for tag in written], np.int32)

    def rows(self, spans: Sequence[Span]) -> list[tuple[int, int, int]]:
        """The entities of an example: start, end and the index of the type."""
        return [(start, end, self._types[kind]) for start, end, kind in spans]


def _units(example: Example, tokenizer: Tokenizer, by_words: bool) -> Units:
    """The units of an example: its given words, else words or pieces of its text."""
    text = example.text_a
    if example.words is not None:
        words = [text[start:end] for start, end in example.words]
        ids = tokenizer.batch_ids(words)
        pieces = [ids.row(i).tolist() or [tokenizer.unk_id] for i in range(len(words))]
        return Units(np.array(example.words, np.int64).reshape(-1, 2), pieces)
    places, pieces, before = list[list[int]](), list[list[int]](), 0
    for token, start, end in tokenizer.ids_with_offsets(text):
        continues = by_words and tokenizer.tokens[token].startswith(_CONTINUES)
        if pieces and (continues or start < before):
            pieces[-1].append(token)
            places[-1][1] = max(end, places[-1][1])
        else:
            pieces.append([token])
            places.append([start, end])
        before = end
    cover_marks(text, places)
    return Units(np.array(places, np.int64).reshape(-1, 2), pieces)


def _keys(units: Units, text: str, unknown: int) -> np.ndarray:
    """Hashes of the units' pieces, and of the text of those with [UNK]: int64 [U]."""
    places = units.places.tolist()
    own = [
        [*pieces, *map(ord, text[start:end] if unknown in pieces else "")]
        for pieces, (start, end) in zip(units.pieces, places, strict=True)
    ]
    return np.array([hash((*values,)) for values in own], np.int64)


def snapped(spans: Sequence[Span], text: str, places: np.ndarray) -> list[Span]:
    """The spans, with ends among dropped characters moved to those of units.

    So a zero-width space beside an entity is never a part of it, and a span that ends
    before an accent has it, as the predicted ones do. places: of the text's units.
    """
    starts, ends = places[:, 0].tolist(), places[:, 1].tolist()
    bare = [bare_end(text, start, end) for start, end in places.tolist()]
    moved = []
    for span in spans:
        first = bisect.bisect_left(starts, span.start)
        last = bisect.bisect_right(bare, span.end) - 1
        begins = first == 0 or bare[first - 1] <= span.start
        stops = last == len(starts) - 1 or span.end <= starts[last + 1]
        if first <= last and begins and stops:
            span = Span(starts[first], ends[last], span.type)
        moved.append(span)
    return moved


def unit_spans(spans: Sequence[Span], places: np.ndarray) -> list[Span]:
    """Converts character spans to unit spans; drops those not aligned with units."""
    return [Span(*each) for each in in_units(spans, places)]


def in_units(
    spans: Iterable[tuple[int, int, _Type]], places: np.ndarray
) -> Iterator[tuple[int, int, _Type]]:
    """Yields unit_spans of (start, end, type), whatever the type's form."""
    starts = {start: number for number, start in enumerate(places[:, 0].tolist())}
    ends = {end: number + 1 for number, end in enumerate(places[:, 1].tolist())}
    for start, end, kind in spans:
        if start in starts and end in ends and starts[start] < ends[end]:
            yield starts[start], ends[end], kind


def _pairs(rows: Sequence[Any], width: int) -> Ragged:
    """Rows of [n, width] values as a ragged int32 column."""
    parts = [np.array(row, np.int32).reshape(-1, width) for row in rows]
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    return Ragged(np.concatenate(parts), offsets.astype(np.int64))


def sentences(
    rows: Features,
) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
    """Yields the keys and places of the units of each sentence, and its entities."""
    keys = rows.unread[_KEYS].values.tolist()
    places, entities = rows.unread[UNITS], rows.unread[ENTITIES]
    starts = [*rows.first_rows.tolist(), len(rows)]
    for first, last in zip(starts, starts[1:], strict=False):
        begin, end = int(places.offsets[first]), int(places.offsets[last])
        yield keys[begin:end], places.values[begin:end], entities.row(first)
