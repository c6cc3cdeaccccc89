"""Finds texts that are nearly the same: different case or punctuation, or a typo.

Two texts are near each other if two things hold. Their numbers are the same. And apart
from whitespace, case and punctuation, at most one character in twenty of the shorter
text is replaced, missing or added, and never more than ten.

So if a text with k allowed edits is cut into k + 1 pieces, at least one of them occurs
unchanged in any text near it, at most k characters away (the pigeonhole principle, as
in Pass-Join, Li et al. 2011). The rarest pieces of ten characters of each text are
looked up, and the edits of each pair that shares one are counted: no pair is found
wrongly.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

_PER_EDIT, _MOST_EDITS = 20, 10  # characters for each edit; edits
_PIECE = 10  # characters: half of those for an edit, so there are always k + 1 pieces
_LENGTH_BITS = 20  # of a key, whose other bits are a hash
_BLOCK = 1 << 19  # characters, or pairs, that are processed together
_MOST_LOOKED_AT = 500  # places of a row's pieces in other rows
# The size of the character counts that pairs are first compared by; the largest count.
_BINS, _MOST_COUNTED = 64, np.iinfo(np.int16).max
_NUMBERS = re.compile(r"\d+|[零〇一二三四五六七八九十百千万]+")
_FACTOR = 0x9E3779B97F4A7C15  # odd, so that no bits are lost

Texts = tuple[str, ...]  # of a row, such as a pair; each has to be near


class _Left(dict[int, int | None]):
    """For `str.translate`: drops punctuation, whitespace and invisible characters."""

    def __missing__(self, code: int) -> int | None:
        kind = unicodedata.category(chr(code))[0]
        self[code] = None if kind in "PZC" else code
        return self[code]


_LEFT = _Left()


def bare(text: str) -> str:
    """The text without whitespace, punctuation, and differences of case and width."""
    return unicodedata.normalize("NFKC", text).casefold().translate(_LEFT)


def edits_allowed(length: int) -> int:
    """How many characters may differ. length: that of the shorter text once `bare`."""
    return min(length // _PER_EDIT, _MOST_EDITS)


def first_near(rows: Sequence[Texts]) -> np.ndarray:
    """For each row the first earlier row that is near it, int64 [rows]; -1: none.

    Rows without any letter, digit or symbol are near no other. A row whose pieces occur
    in hundreds of other rows of similar length is compared only with those that share
    its rarest pieces.
    """
    keys = [(*map(bare, texts), *_numbers(texts)) for texts in rows]
    first: dict[Texts, int] = {}
    near: np.ndarray = np.full(len(rows), -1, np.int64)
    for index, key in enumerate(keys):
        if any(key):
            near[index] = first.setdefault(key, index)
    # Edits are counted between the first rows of each key.
    numbers = np.fromiter(first.values(), np.int64, len(first))
    width = max(map(len, rows), default=0)
    parts = [key[:width] for key in first]
    earliest = np.arange(len(rows))
    for one, other in _edited(parts, [key[width:] for key in first]).items():
        earliest[numbers[one]] = numbers[other]
    near = np.where(near < 0, near, earliest[near])
    near[near == np.arange(len(rows))] = -1
    return near


def _numbers(texts: Texts) -> Texts:
    return tuple(_NUMBERS.findall(unicodedata.normalize("NFKC", "\n".join(texts))))


@dataclasses.dataclass
class _Rows:
    """Texts as arrays. Letters: R rows."""

    texts: list[str]  # the parts of a row, a line each
    lengths: np.ndarray  # int64 [R]
    edits: np.ndarray  # int64 [R], allowed
    numbers: np.ndarray  # int64 [R], equal where the numbers in the texts are
    counts: np.ndarray  # int16 [R, _BINS], of characters

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (first row, the characters of some rows in a sequence: uint64)."""
        ends = np.cumsum(self.lengths)
        first = 0
        while first < len(self.texts):
            before = ends[first] - self.lengths[first]
            stop = max(first + 1, int(np.searchsorted(ends, before + _BLOCK)))
            raw = "".join(self.texts[first:stop]).encode("utf-32-le", "surrogatepass")
            yield first, np.frombuffer(raw, np.uint32).astype(np.uint64)
            first = stop


def _as_rows(parts: Sequence[Texts], numbers: Sequence[Texts]) -> _Rows:
    texts = ["\n".join(one) for one in parts]
    known = {own: index for index, own in enumerate(dict.fromkeys(numbers))}
    edits = [sum(edits_allowed(len(part)) for part in one) for one in parts]
    rows = _Rows(
        texts,
        lengths=np.array([len(text) for text in texts], np.int64),
        edits=np.array(edits, np.int64),
        numbers=np.array([known[own] for own in numbers], np.int64),
        counts=np.zeros((len(texts), _BINS), np.int16),
    )
    for first, codes in rows.blocks():
        row, _ = _places(rows, first, len(codes))
        bins = (row - first) * _BINS + (codes % np.uint64(_BINS)).astype(np.int64)
        size = int(row[-1] - first + 1) if len(row) else 0
        counts = np.bincount(bins, minlength=size * _BINS).reshape(size, _BINS)
        rows.counts[first : first + size] = np.minimum(counts, _MOST_COUNTED)
    return rows


def _places(rows: _Rows, first: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The row of each of `size` characters from row `first` on, and its place there."""
    ends = np.cumsum(rows.lengths[first:])
    stop = int(np.searchsorted(ends, size)) + 1
    lengths = rows.lengths[first : first + stop]
    row = np.repeat(np.arange(first, first + len(lengths)), lengths)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return row[:size], np.arange(size) - starts[:size]


class _Pieces:
    """Pieces of texts, as columns: a hash, the row, and the place in its text."""

    def __init__(self, hashes: np.ndarray, row: np.ndarray, place: np.ndarray):
        self.hashes, self.row, self.place = hashes, row, place

    def take(self, chosen: np.ndarray) -> _Pieces:
        return _Pieces(self.hashes[chosen], self.row[chosen], self.place[chosen])


def _pieces(rows: _Rows) -> Iterator[_Pieces]:
    """All pieces of the texts, one from each character on, block by block."""
    for first, codes in rows.blocks():
        size = len(codes) - _PIECE + 1
        if size < 1:
            continue
        hashes = np.zeros(size, np.uint64)
        for place in range(_PIECE):
            hashes = (hashes + codes[place : place + size]) * np.uint64(_FACTOR)
            hashes ^= hashes >> np.uint64(31)
        row, place_in = _places(rows, first, size)
        whole = (place_in + _PIECE <= rows.lengths[row]) & (rows.edits[row] > 0)
        yield _Pieces(hashes, row, place_in).take(np.flatnonzero(whole))


def _index(rows: _Rows) -> _Pieces:
    """The k + 1 rarest of the pieces into which each text is cut."""
    found = [some.take(some.place % _PIECE == 0) for some in _pieces(rows)]
    names = ("hashes", "row", "place")
    columns = [np.concatenate([getattr(some, n) for some in found]) for n in names]
    every = _Pieces(columns[0], columns[1], columns[2])
    _, numbers, counts = np.unique(
        every.hashes, return_inverse=True, return_counts=True
    )
    order = np.lexsort((every.place, counts[numbers], every.row))
    row = every.row[order]
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    return every.take(order[rank <= rows.edits[row]])


def _candidates(rows: _Rows) -> Iterator[np.ndarray]:
    """Pairs of rows that share a piece and may be near, some of them twice.

    A pair is one number, int64: the later row times R, plus the earlier row.
    """
    if not rows.edits.any():
        return
    index = _index(rows)
    keys = _key(index.hashes, rows.lengths[index.row])
    order = np.argsort(keys, kind="stable")
    keys, index = keys[order], index.take(order)
    bits = np.zeros(1 << 24, bool)  # whether any hash has these bits: most do not
    bits[_low(index.hashes)] = True
    for pieces in _pieces(rows):
        some = pieces.take(np.flatnonzero(bits[_low(pieces.hashes)]))
        length = rows.lengths[some.row]
        left = np.searchsorted(keys, _key(some.hashes, length))
        right = np.searchsorted(keys, _key(some.hashes, length + _MOST_EDITS * 2 + 1))
        order = np.lexsort((right - left, some.row))
        some, left, right = some.take(order), left[order], right[order]
        counts = _limited(right - left, some.row)
        ends = np.cumsum(counts)
        for total in range(0, int(ends[-1]) if len(ends) else 0, _BLOCK):
            pairs = np.arange(total, min(total + _BLOCK, int(ends[-1])))
            own = np.searchsorted(ends, pairs, side="right")
            other = left[own] + pairs - (ends[own] - counts[own])
            yield _possible(rows, some.take(own), index.take(other))


def _limited(counts: np.ndarray, row: np.ndarray) -> np.ndarray:
    """The counts, cut where the sum of a row's would be too high. row: ascending."""
    ends = np.cumsum(counts)
    before = np.concatenate([[0], ends])[np.searchsorted(row, row)]
    return np.clip(_MOST_LOOKED_AT - (ends - counts - before), 0, counts)


def _key(hashes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Keys that sort by hash, then by length."""
    bits = np.uint64(_LENGTH_BITS)
    most = (1 << _LENGTH_BITS) - 1
    return hashes >> bits << bits | np.minimum(lengths, most).astype(np.uint64)


def _low(hashes: np.ndarray) -> np.ndarray:
    return (hashes >> np.uint64(40)).astype(np.int64)


def _possible(rows: _Rows, one: _Pieces, other: _Pieces) -> np.ndarray:
    """The pairs of rows, given pairs of pieces, that no bound rules out."""
    edits = np.minimum(rows.edits[one.row], rows.edits[other.row])
    fits = (
        (one.row != other.row)
        & (np.abs(one.place - other.place) <= edits)
        & (np.abs(rows.lengths[one.row] - rows.lengths[other.row]) <= edits)
        & (rows.numbers[one.row] == rows.numbers[other.row])
    )
    own, others = one.row[fits], other.row[fits]
    count = len(rows.texts)
    pairs = np.unique(np.maximum(own, others) * count + np.minimum(own, others))
    later, earlier = np.divmod(pairs, count)
    # Each edit changes two of the counts by one at most (the bag distance of
    # Bartolini et al. 2002).
    apart = rows.counts[later] - rows.counts[earlier]
    limit = np.minimum(rows.edits[later], rows.edits[earlier])
    near = np.maximum(apart.clip(0).sum(1), (-apart).clip(0).sum(1)) <= limit
    return pairs[near]


def _edited(parts: Sequence[Texts], numbers: Sequence[Texts]) -> dict[int, int]:
    """Row -> the first earlier row that few edits lead to, for rows that have one."""
    rows = _as_rows(parts, numbers)
    near: dict[int, int] = {}
    for pair in np.unique(np.concatenate([np.zeros(0, np.int64), *_candidates(rows)])):
        one, other = divmod(int(pair), len(parts))
        if one not in near and all(map(differ_little, parts[one], parts[other])):
            near[one] = other
    return near


def differ_little(one: str, other: str) -> bool:
    """Whether one bare text becomes the other by no more edits than are allowed.

    As Ukkonen 1985 does, it computes how far so many edits lead on each diagonal.
    """
    most = edits_allowed(min(len(one), len(other)))
    aim = len(other) - len(one)  # the diagonal on which both texts end
    if abs(aim) > most:
        return False
    reach = {0: _equal_from(one, other, 0, diagonal=0)}
    for _ in range(most):
        if reach.get(aim, -1) >= len(one):
            return True
        grown = dict[int, int]()
        for diagonal in range(min(reach) - 1, max(reach) + 2):
            start = max(
                reach.get(diagonal, -2) + 1,  # a character is replaced
                reach.get(diagonal - 1, -2),  # is added in the other text
                reach.get(diagonal + 1, -2) + 1,  # is missing there
            )
            start = min(start, len(one), len(other) - diagonal)
            grown[diagonal] = _equal_from(one, other, start, diagonal=diagonal)
        reach = grown
    return reach.get(aim, -1) >= len(one)


def _equal_from(one: str, other: str, start: int, *, diagonal: int) -> int:
    """Where the texts first differ, from `start` in the first one on."""
    end = min(len(one), len(other) - diagonal)
    while start < end and one[start] == other[start + diagonal]:
        start += 1
    return start
