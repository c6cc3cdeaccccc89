"""Ads read from tables, in blocks, each of which is a file of its own.

Thus each process takes one block at a time, and memory does not grow with the text. Of
ads that occur several times, only the first one is used.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_mgpu.core.encodings import UTF_8
from bert_mgpu.core.errors import UserError, shortened
from bert_mgpu.data import tables
from bert_mgpu.data.columns import Column
from bert_mgpu.data.tables import TableFormat
from bert_mgpu.data_prep import duplicates

LONGEST_AD = 10_000  # characters: the rows of each segment hold the whole ad
_BLOCK = 1 << 20  # characters
_IN_MEMORY = 1 << 21  # hashes compared at once
_LINE_ENDS = re.compile(r"[\0\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


class AdColumns(NamedTuple):
    """The columns of a row that hold the parts of an ad."""

    ad: Column
    main: Column | None = None
    hint: Column | None = None


class Ad(NamedTuple):
    """An ad, without tabs, line breaks and NUL characters."""

    text: str
    main: str  # its main part; "" if it has none
    hint: str  # what it is about; "" if that is not given


class AdBlock(NamedTuple):
    """Some ads, one per line in a file of their own."""

    number: int
    path: pathlib.Path
    first: int  # number of the first ad, from 0
    ads: int


class AdStore(NamedTuple):
    """Facts about all ads that were read."""

    hashes: pathlib.Path  # file: uint64 [ads]
    kept: pathlib.Path  # .npy: bool [ads], whether it is the first with its text
    total: int
    distinct: int
    empty: int  # rows without an ad, beside blank lines

    def of_block(self, block: AdBlock) -> tuple[list[Ad], np.ndarray]:
        """The ads of a block that are not repeats, and their hashes, uint64 [n]."""
        here = slice(block.first, block.first + block.ads)
        kept = np.load(self.kept, mmap_mode="r", allow_pickle=False)[here]
        hashes = np.fromfile(self.hashes, np.uint64, block.ads, offset=8 * block.first)
        with open(block.path, encoding=UTF_8, newline="\n") as file:
            lines = (line.rstrip("\n").split("\t") for line in file)
            ads = [Ad(*cells) for cells, new in zip(lines, kept, strict=True) if new]
        return ads, hashes[kept]


def read(
    files: Sequence[str],
    columns: AdColumns,
    encoding: str,
    *,
    folder: pathlib.Path,
) -> tuple[AdStore, list[AdBlock]]:
    """Reads all ads of the files and writes them to the folder in blocks.

    Raises:
      UserError: for a fault of a file, with file:line; if there are no ads.
    """
    blocks: list[AdBlock] = []
    held: list[str] = []
    hashes, kept = folder / "hashes", folder / "kept.npy"
    size = count = empty = 0
    with open(hashes, "wb") as hash_file:

        def write() -> None:
            path = folder / f"{len(blocks)}.ads"
            with open(path, "w", encoding=UTF_8, newline="\n") as file:
                file.writelines(held)
            first = count - len(held)
            blocks.append(AdBlock(len(blocks), path, first, ads=len(held)))
            held.clear()

        for path in files:
            for ad in _ads(path, columns, encoding):
                if not ad.text:
                    empty += 1
                    continue
                held.append("\t".join(ad) + "\n")
                hash_file.write(duplicates.hashes([ad.text]))
                count += 1
                size += len(held[-1])
                if size >= _BLOCK:
                    write()
                    size = 0
        if held:
            write()
    if empty and not count:
        raise UserError(
            f"{files[0]}: the column of ads is empty in all {empty} rows: pass another"
            " --ad_column"
        )
    if not count:
        raise UserError(f"{files[0]}: no ad: the files of --input_file are blank")
    first_ones = _first_of_each(hashes, count)
    np.save(kept, first_ones)
    distinct = int(first_ones.sum())
    store = AdStore(hashes, kept, count, distinct=distinct, empty=empty)
    return store, blocks


def _ads(path: str, columns: AdColumns, encoding: str) -> Iterator[Ad]:
    named = any(isinstance(column, str) for column in columns)
    form = TableFormat(header=named, encoding=encoding)
    for line, cells in tables.rows(path, form, columns):
        if cells is None:
            continue
        ad = Ad(*(_text(cell, f"{path}:{line}") for cell in cells))
        if len(ad.text) > LONGEST_AD:
            raise UserError(
                f"{path}:{line}: an ad of {len(ad.text)} characters,"
                f" {shortened(ad.text, 20)!r}: pass at most {LONGEST_AD}: is"
                " --ad_column right?"
            )
        yield ad


def _text(cell: Any, location: str) -> str:
    if isinstance(cell, list):
        raise UserError(f"{location}: a list of words: pass a text")
    return _LINE_ENDS.sub(" ", cell or "").strip()


def _first_of_each(path: pathlib.Path, count: int) -> np.ndarray:
    """Whether each hash of a file is the first with its value: bool [count].

    To bound memory, parts of the range of hashes are compared one after the other.
    """
    hashes = np.memmap(path, np.uint64, "r", shape=(count,))
    parts = 1 + count // _IN_MEMORY
    first_ones = np.zeros(count, bool)
    for part in range(parts):
        numbers = []
        for start in range(0, count, _IN_MEMORY):
            high = hashes[start : start + _IN_MEMORY] >> np.uint64(32)
            is_in_part = high * np.uint64(parts) >> np.uint64(32) == part
            numbers.append(start + is_in_part.nonzero()[0])
        candidates = np.concatenate(numbers)
        _, firsts = np.unique(hashes[candidates], return_index=True)
        first_ones[candidates[firsts]] = True
    return first_ones
