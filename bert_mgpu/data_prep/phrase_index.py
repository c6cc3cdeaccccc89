"""Phrases on disk, from which some are drawn by length or by similarity.

They are sorted by length, then by code points, so that the phrases of a range of
lengths are a range of numbers. No phrases are kept in memory.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import numpy as np

from bert_mgpu.core.encodings import UTF_8

LONGEST = 64  # characters; longer phrases are treated as if of this length
_COPIED = 1 << 20  # bytes copied at once


class IndexWriter:
    """Builds an index, to which phrases are added in the order of code points."""

    def __init__(self, folder: pathlib.Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._texts = [self._open(f"{size}.texts") for size in range(LONGEST + 1)]
        self._sizes = [self._open(f"{size}.sizes") for size in range(LONGEST + 1)]
        self._counts = np.zeros(LONGEST + 1, np.int64)

    def _open(self, name: str) -> BinaryIO:
        return self._stack.enter_context(open(self._folder / name, "w+b"))

    def add(self, text: str) -> None:
        size = min(len(text), LONGEST)
        raw = text.encode()
        self._texts[size].write(raw)
        self._sizes[size].write(len(raw).to_bytes(4, "little"))
        self._counts[size] += 1

    def close(self) -> PhraseIndex:
        """Writes the index; nothing can be added afterwards."""
        end = 0
        with (
            open(self._folder / "texts", "wb") as texts,
            open(self._folder / "ends", "wb") as ends,
        ):
            ends.write(np.zeros(1, np.int64).tobytes())
            for text_file, size_file in zip(self._texts, self._sizes, strict=True):
                for part in _parts(text_file):
                    texts.write(part)
                for part in _parts(size_file):
                    after = end + np.cumsum(np.frombuffer(part, "<u4"), dtype=np.int64)
                    ends.write(after.tobytes())
                    end = int(after[-1])
        self._stack.close()
        for size in range(LONGEST + 1):
            (self._folder / f"{size}.texts").unlink()
            (self._folder / f"{size}.sizes").unlink()
        starts = np.concatenate([[0], np.cumsum(self._counts)])
        np.save(self._folder / "starts.npy", starts)
        return PhraseIndex(self._folder)


def _parts(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while part := file.read(_COPIED):
        yield part


class PhraseIndex:
    """Phrases by number. Can be pickled: another process reopens the files."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        starts = np.load(
            folder / "starts.npy", allow_pickle=False
        )  # int64 [LONGEST + 2]
        self._starts: list[int] = starts.tolist()
        self._texts = os.open(folder / "texts", os.O_RDONLY | os.O_CLOEXEC)
        self._ends = os.open(folder / "ends", os.O_RDONLY | os.O_CLOEXEC)

    def __reduce__(self) -> tuple[type[PhraseIndex], tuple[pathlib.Path]]:
        return PhraseIndex, (self.folder,)

    def __del__(self) -> None:
        for name in ("_texts", "_ends"):
            with contextlib.suppress(AttributeError, OSError):
                os.close(getattr(self, name))

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, number: int) -> str:
        start, end = self.bounds(number, number + 1).tolist()
        return os.pread(self._texts, end - start, start).decode(UTF_8)

    def bounds(self, first: int, after: int) -> np.ndarray:
        """The bytes at which phrases begin, and the end: int64 [after - first + 1]."""
        raw = os.pread(self._ends, 8 * (after - first + 1), 8 * first)
        return np.frombuffer(raw, np.int64)

    def texts(self, first: int, after: int) -> list[str]:
        """The phrases with the numbers [first, after)."""
        bounds = self.bounds(first, after)
        raw = os.pread(self._texts, int(bounds[-1] - bounds[0]), int(bounds[0]))
        at = (bounds - bounds[0]).tolist()
        return [
            raw[start:end].decode(UTF_8)
            for start, end in zip(at[:-1], at[1:], strict=True)
        ]

    def of_lengths(self, shortest: int, longest: int) -> tuple[int, int]:
        """The range of the numbers of phrases of these lengths in characters."""
        low = max(0, min(shortest, LONGEST))
        high = max(0, min(longest, LONGEST))
        return self._starts[low], self._starts[high + 1]


class PhraseDraws:
    """Random draws from an index, in which no phrase comes twice.

    Each phrase is read and checked at most once, however many are drawn.
    """

    def __init__(self, index: PhraseIndex, is_taken: Callable[[str], bool]) -> None:
        """is_taken: whether a phrase cannot be drawn."""
        self._index = index
        self._is_taken = is_taken
        # A phrase that has been drawn or is taken -> a later one that may be free.
        self._later: dict[int, int] = {}

    def draw(self, bounds: tuple[int, int], words: Iterable[int]) -> str | None:
        """A random phrase of a range of numbers; None if there is none left.

        words: random numbers below 2^32, one per try; then the phrases after the last
        one tried are tried in turn.
        """
        first, after = bounds
        number = first
        if first < after:
            for word in words:
                number = first + (word * (after - first) >> 32)
                if (text := self._take(number)) is not None:
                    return text
        for start in (number, first):
            while (number := self._first_free(start)) < after:
                if (text := self._take(number)) is not None:
                    return text
        return None

    def _take(self, number: int) -> str | None:
        if number in self._later:
            return None
        self._later[number] = number + 1
        text = self._index[number]
        return None if self._is_taken(text) else text

    def _first_free(self, number: int) -> int:
        """The first number from this one on that may be free."""
        passed = list[int]()
        while (later := self._later.get(number)) is not None:
            passed.append(number)
            number = later
        self._later.update(dict.fromkeys(passed, number))  # the way is short next time
        return number
