"""The phrases of an index that are most similar to a text, by tf-idf of bigrams.

The score is the cosine of Salton's vectors, whose weights are 1 or 0 for the frequency
of a pair of characters in a phrase (pairs seldom occur twice), times the logarithm of
N / df. A file lists the phrases that hold each pair by number, so those of a range of
lengths are a slice of the pair's list.

Letters: N phrases, P pairs of a text.
"""

from __future__ import annotations

import contextlib
import pathlib

import numpy as np

from bert_mgpu.data_prep.phrase_index import PhraseIndex

_AT_ONCE = 1 << 14  # phrases read together
_PARTS = 64  # files of pairs, each small enough to sort in memory
_MOST = 1 << 12  # phrases that are scored for a text
_SHIFT = 21  # bits of a code point
_NO_KEY = 1 << 62
_ROW = np.dtype([("key", np.int64), ("number", np.uint32)])


def pairs(text: str) -> np.ndarray:
    """The distinct pairs of adjacent characters, as numbers: int64 [P]."""
    codes = _codes(text)
    return np.unique(codes[:-1] << _SHIFT | codes[1:])


def _codes(text: str) -> np.ndarray:
    """The code points of the characters, int64 [length]."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int64)


class Neighbours:
    """The pairs in an index and the phrases that hold each, as `build` wrote them."""

    def __init__(self, index: PhraseIndex) -> None:
        self._index, folder = index, index.folder
        self._phrases = len(index)
        self._keys = _mapped(folder / "keys.npy")
        self._starts = _mapped(folder / "key_starts.npy")
        self._counts = _mapped(folder / "key_counts.npy")
        self._norms = _mapped(folder / "norms.npy")
        self._numbers = np.asarray(np.memmap(folder / "numbers", np.uint32, "r"))

    def __reduce__(self) -> tuple[type[Neighbours], tuple[PhraseIndex]]:
        return Neighbours, (self._index,)

    def of(self, text: str, bounds: tuple[int, int], count: int) -> list[int]:
        """The numbers of the most similar phrases, within a range of numbers.

        Phrases that share no pair are left out. If too many phrases hold a pair, only
        some of them are scored, evenly spread over the range.
        """
        wanted = pairs(text)
        at = self._keys.searchsorted(wanted)
        at = at[self._keys[at] == wanted]
        at = at[np.argsort(self._counts[at], kind="stable")]  # rare ones first
        idf = _idf(self._phrases, self._counts[at])
        lists: list[np.ndarray] = []
        left = _MOST
        for start, holding in zip(self._starts[at], self._counts[at], strict=True):
            own = self._numbers[start : start + holding]
            low, high = own.searchsorted(np.array(bounds, np.uint32)).tolist()
            size = min(high - low, left)
            lists.append(own[low + np.arange(size) * (high - low) // max(size, 1)])
            left -= size
        if left == _MOST:
            return []
        numbers, which = np.unique(np.concatenate(lists), return_inverse=True)
        each = np.repeat(idf**2, [len(own) for own in lists])
        scores = np.bincount(which, each) / self._norms[numbers]
        order = np.lexsort((numbers, -scores))[:count]
        return [int(number) for number in numbers[order]]


def _mapped(path: pathlib.Path) -> np.ndarray:
    """An array that stays on disk, as a plain ndarray: its slices cost less."""
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _idf(phrases: int, holding: np.ndarray) -> np.ndarray:
    return np.log((1 + phrases) / holding)


def build(index: PhraseIndex) -> None:
    """Writes the pairs of an index to its folder, in bounded memory.

    A last key that no pair has, without phrases, avoids a special case for no pairs.
    """
    folder = index.folder
    paths = [folder / f"{part}.pairs" for part in range(_PARTS)]
    with contextlib.ExitStack() as stack:
        parts = [stack.enter_context(open(path, "wb")) for path in paths]
        for first in range(0, len(index), _AT_ONCE):
            keys, numbers = _pairs_of(index, first)
            rows = np.empty(len(keys), _ROW)
            rows["key"], rows["number"] = keys, numbers
            part_of = keys % _PARTS
            for part, file in enumerate(parts):
                file.write(rows[part_of == part].tobytes())
    all_keys, counts = [np.array([_NO_KEY])], [np.zeros(1, np.int64)]
    starts, end = [np.zeros(1, np.int64)], 0
    with open(folder / "numbers", "wb") as file:
        for path in paths:
            own = np.fromfile(path, _ROW)
            path.unlink()
            own = own[np.argsort(own["key"], kind="stable")]
            file.write(own["number"].tobytes())
            keys, count = np.unique(own["key"], return_counts=True)
            all_keys.append(keys)
            counts.append(count)
            starts.append(end + np.cumsum(count) - count)
            end += len(own)
        file.write(bytes(_ROW["number"].itemsize))
    keys = np.concatenate(all_keys)
    order = np.argsort(keys)
    np.save(folder / "keys.npy", keys[order])
    np.save(folder / "key_starts.npy", np.concatenate(starts)[order])
    holding = np.concatenate(counts)[order]
    np.save(folder / "key_counts.npy", holding)
    np.save(folder / "norms.npy", _norms(index, keys[order], holding))


def _norms(index: PhraseIndex, keys: np.ndarray, holding: np.ndarray) -> np.ndarray:
    """The length of each phrase's vector, and 1 at the end: float32 [N + 1]."""
    norms = np.ones(len(index) + 1, np.float32)
    for first in range(0, len(index), _AT_ONCE):
        own, numbers = _pairs_of(index, first)
        squares = _idf(len(index), holding[keys.searchsorted(own)]) ** 2
        after = min(first + _AT_ONCE, len(index))
        sums = np.bincount(numbers - first, squares, minlength=after - first)
        norms[first:after] = np.sqrt(np.maximum(sums, 1e-12))
    return norms


def _pairs_of(index: PhraseIndex, first: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of some phrases and the phrases' numbers, ascending: int64 [pairs]."""
    texts = index.texts(first, min(first + _AT_ONCE, len(index)))
    lengths = [len(text) for text in texts]
    codes = _codes("".join(texts))
    owner = np.repeat(np.arange(len(texts)), lengths)
    inside = owner[:-1] == owner[1:]
    keys = (codes[:-1] << _SHIFT | codes[1:])[inside]
    both = np.unique(owner[:-1][inside] << 2 * _SHIFT | keys)
    return both & ((1 << 2 * _SHIFT) - 1), first + (both >> 2 * _SHIFT)
