"""Words of text files counted by a vocabulary, and vocabularies written."""

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
    """Counts something of texts, such as `Census`."""

    def add(self, rows: Sequence[Row]) -> None: ...


Counting = TypeVar("Counting", bound=Counter)


def count(
    counter: Counting,
    files: Sequence[str],
    sample: frozenset[int] | None,
    *,
    title: str,
) -> Counting:
    """The counter with the lines of the files, or of those in the sample, counted.

    title: of the progress bar; sample: numbers of lines.

    Raises:
      UserError: with file:line: not UTF-8, a NUL byte; a file that is damaged.
    """
    rows = progress_bar(_rows(files), title, "lines")
    if sample is not None:
        rows = (row for number, row in enumerate(rows) if number in sample)
    for block in vocab_coverage.in_blocks(rows):
        counter.add(block)
    return counter


def sample(files: Sequence[str], most: int, seed: int) -> frozenset[int] | None:
    """The numbers of at most `most` lines, drawn at random; None: all lines."""
    total = sum(1 for _ in progress_bar(_rows(files), "count lines", "lines"))
    drawn = shuffles.sample_rows(total, most, seed)
    return None if len(drawn) == total else frozenset(drawn.tolist())


def _rows(files: Sequence[str]) -> Iterator[Row]:
    """The lines with text, and their locations: (file:line, text)."""
    for path in files:
        with text_files.unpacked(path) as (_, text):
            for number, line in text_lines.lines(path, text):
                if stripped := text_lines.decode(line, path, number).strip():
                    yield f"{path}:{number}", stripped


def write_vocabulary(source: str, target: str, new: Mapping[int, str]) -> int:
    """Writes a vocabulary with new tokens in place of rows, or behind the last one.

    All other lines stay as they are except for their ends. Returns the count of tokens.
    """
    content = pathlib.Path(source).read_bytes().replace(b"\r", b"")
    lines = dict(enumerate(content.splitlines()))
    lines |= {row: token.encode() for row, token in new.items()}
    rows = (lines[row] + b"\n" for row in sorted(lines))
    files.write_bytes(pathlib.Path(target), rows)
    return len(lines)
