"""The shuffling of more rows than fit into memory.

Rows are written in runs, one after the other in a file: each is as many rows as fit
into memory, shuffled. `merge` takes the next row from a run drawn in proportion to the
rows left in each, so every order of all rows is equally likely, whatever their runs.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from bert_mgpu.data.tfrecord import FOOTER, HEADER, data_size

_RUN = 32 << 20  # bytes
_BUFFERS = 16 << 20  # bytes of the buffers of all runs together
_LEAST_BUFFER = 8 << 10  # bytes of one buffer
_DRAWS = 1 << 13  # rows whose runs are drawn at once
_MOST_ROWS = 900_000_000  # the most from which numpy can draw


class ShuffledRun(NamedTuple):
    """Rows in random order, framed as in a TFRecord file."""

    path: pathlib.Path
    offset: int  # in bytes
    size: int
    rows: int


def write_runs(
    path: pathlib.Path,
    frames: Iterable[bytes],
    rng: np.random.Generator,
    *,
    most: int = _RUN,
) -> list[tuple[int, int, int]]:
    """Writes frames as runs of about `most` bytes -> (offset, size, rows) of each."""
    runs: list[tuple[int, int, int]] = []
    # One buffer for all runs: a growing one, or many objects, would fragment memory.
    held, ends = bytearray(most), [0]
    with open(path, "wb") as file:

        def write() -> None:
            runs.append((file.tell(), ends[-1], len(ends) - 1))
            order = rng.permutation(len(ends) - 1).tolist()
            with memoryview(held) as view:
                file.writelines(view[ends[row] : ends[row + 1]] for row in order)
            del ends[1:]

        for frame in frames:
            if ends[-1] + len(frame) > most and len(ends) > 1:
                write()
            end = ends[-1] + len(frame)
            held[ends[-1] : end] = frame
            ends.append(end)
        if len(ends) > 1:
            write()
        file.flush()
        os.fsync(file.fileno())
    return runs


class _Reader:
    """The frames of a run, in order.

    A file is open only while it is read, since there may be more runs than a process
    can have open files.
    """

    def __init__(self, run: ShuffledRun, buffer: int) -> None:
        self._path, self._at = run.path, run.offset
        self._end = run.offset + run.size
        self._buffer = buffer
        self._held, self._position = b"", 0  # bytes read ahead; next frame's start

    def take(self, count: int) -> list[bytes]:
        return [self._next() for _ in range(count)]

    def _next(self) -> bytes:
        if len(self._held) - self._position < HEADER:
            self._fill(HEADER)
        size = HEADER + data_size(self._held, self._position) + FOOTER
        if len(self._held) - self._position < size:
            self._fill(size)
        frame = self._held[self._position : self._position + size]
        self._position += size
        return frame

    def _fill(self, least: int) -> None:
        with open(self._path, "rb") as file:
            file.seek(self._at)
            more = file.read(min(max(self._buffer, least), self._end - self._at))
        self._at += len(more)
        self._held, self._position = self._held[self._position :] + more, 0


def merge(
    runs: Sequence[ShuffledRun],
    files: Sequence[BinaryIO],
    rng: np.random.Generator,
    *,
    advance: Callable[[int], None],
) -> list[int]:
    """Writes all rows in random order to the files in turn -> each file's row count.

    advance: called with the number of bytes that were written.
    """
    left = np.array([run.rows for run in runs], np.int64)
    buffer = max(_LEAST_BUFFER, _BUFFERS // max(1, len(runs)))
    readers = [_Reader(run, buffer) for run in runs]
    written = 0
    while total := int(left.sum()):
        # More rows than numpy can draw from are scaled down, which serves as well.
        scaled = left // (total // _MOST_ROWS + 1)
        drawn = rng.multivariate_hypergeometric(scaled, min(_DRAWS, int(scaled.sum())))
        left -= drawn
        frames = [
            iter(reader.take(count) if count else ())
            for reader, count in zip(readers, drawn.tolist(), strict=True)
        ]
        order = rng.permutation(np.repeat(np.arange(len(runs)), drawn))
        rows = [next(frames[run]) for run in order.tolist()]
        for number, file in enumerate(files):
            file.writelines(rows[(number - written) % len(files) :: len(files)])
        written += len(rows)
        advance(sum(map(len, rows)))
    return [len(range(number, written, len(files))) for number in range(len(files))]
