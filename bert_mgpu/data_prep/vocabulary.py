"""The counting of words in text files, and the writing of vocabularies."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from bert_mgpu.core import files, text_files
from bert_mgpu.core.log import progress_bar
from bert_mgpu.core.rng import shuffles
from bert_mgpu.data_prep import text_lines
from bert_mgpu.text import vocab_coverage
from bert_mgpu.text.vocab_coverage import Row


class Counter(Protocol):
    """Something that counts texts, such as `Census`."""

    def add(self, rows: Sequence[Row]) -> None: ...


Counting = TypeVar("Counting", bound=Counter)


def count(
    counter: Counting,
    files: Sequence[str],
    sample: frozenset[int] | None,
    *,
    title: str,
) -> Counting:
    """Counts the lines of the files, or those in the sample; returns the counter.

    title: of the progress bar; sample: numbers of lines, None for all.

    Raises:
      UserError: for a damaged file; with file:line, if not UTF-8, or for a NUL byte.
    """
    rows = progress_bar(_rows(files), title, "lines")
    if sample is not None:
        rows = (row for number, row in enumerate(rows) if number in sample)
    for block in vocab_coverage.in_blocks(rows):
        counter.add(block)
    return counter


def sample(files: Sequence[str], most: int, seed: int) -> frozenset[int] | None:
    """The numbers of at most `most` lines, drawn at random; None if these are all."""
    total = sum(1 for _ in progress_bar(_rows(files), "count lines", "lines"))
    drawn = shuffles.sample_rows(total, most, seed)
    return None if len(drawn) == total else frozenset(drawn.tolist())


def _rows(files: Sequence[str]) -> Iterator[Row]:
    """Yields pairs (file:line, text) of the lines that are not blank."""
    for path in files:
        with text_files.unpacked(path) as (_, text):
            for number, line in text_lines.lines(path, text):
                if stripped := text_lines.decode(line, path, number).strip():
                    yield f"{path}:{number}", stripped


def write_vocabulary(source: str, target: str, new: Mapping[int, str]) -> int:
    """Writes a vocabulary with new tokens in place of some rows or after the last one.

    All other lines stay as they are, except their line ends. Returns the token count.
    """
    content = pathlib.Path(source).read_bytes().replace(b"\r", b"")
    lines = dict(enumerate(content.splitlines()))
    lines |= {row: token.encode() for row, token in new.items()}
    rows = (lines[row] + b"\n" for row in sorted(lines))
    files.write_bytes(pathlib.Path(target), rows)
    return len(lines)
