"""Files that a vocabulary meets: text to count, and vocabularies to write."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tqdm

from bert_mgpu.core import files, text_files
from bert_mgpu.data_prep import text_lines
from bert_mgpu.text import vocab_coverage
from bert_mgpu.text.vocab_coverage import Census, Row


def count(
    census: Census, files: Sequence[str], sample: frozenset[int] | None, *, what: str
) -> Census:
    """Counts the lines of the files, or those whose numbers are in the sample.

    Raises:
      UserError: with file:line: not UTF-8, a NUL byte; a file that is damaged.
    """
    rows = _progress(_rows(files), what)
    if sample is not None:
        rows = (row for number, row in enumerate(rows) if number in sample)
    for block in vocab_coverage.in_blocks(rows):
        census.add(block)
    return census


def sample(files: Sequence[str], most: int, seed: int) -> frozenset[int] | None:
    """Numbers of so many of their lines, drawn at random; None: all of them."""
    total = sum(1 for _ in _progress(_rows(files), "count lines"))
    kept = text_files.sample_rows(total, most, seed)
    return None if len(kept) == total else frozenset(kept.tolist())


def _rows(files: Sequence[str]) -> Iterator[Row]:
    """Lines with text, and where they stand."""
    for path in files:
        with text_lines.opened(path) as (_, text):
            for number, line in text_lines.lines(path, text):
                if stripped := text_lines.decode(line, path, number).strip():
                    yield f"{path}:{number}", stripped


def _progress(rows: Iterable[Row], what: str) -> Iterable[Row]:
    return tqdm.tqdm(
        rows, what, unit=" lines", disable=not sys.stderr.isatty(), leave=False
    )


def write_vocabulary(source: str, target: str, new: Mapping[int, str]) -> int:
    """Copies a vocabulary with tokens put in place of rows, or behind the last.

    All other lines stay what they are but for their ends. Returns the number of tokens.
    """
    content = pathlib.Path(source).read_bytes().replace(b"\r", b"")
    lines = dict(enumerate(content.splitlines()))
    lines |= {row: token.encode() for row, token in new.items()}
    rows = (lines[row] + b"\n" for row in sorted(lines))
    files.write_bytes(pathlib.Path(target), rows)
    return len(lines)
