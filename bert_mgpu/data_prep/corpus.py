"""Raw text for pretraining, cut into blocks of documents of sentences.

One sentence per line, blank lines between documents; a file's end ends a document too.
The reader cuts the files into blocks, each a file of its own, so that every process
takes one block at a time: `blocks` keeps no text in memory, `documents` one document.
"""

from __future__ import annotations

import array
import bisect
import dataclasses
import glob
import hashlib
import os
import pathlib
import shutil
import sys
from collections.abc import Generator, Iterator, Sequence
from typing import IO, NamedTuple

from bert_mgpu.core import files, text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.text_files import unpacked
from bert_mgpu.data_prep.text_lines import decode, lines

# The fewest documents of a block: a random next sentence comes from one of them.
WINDOW = 10_000
_LEAST = 4 << 20  # the fewest bytes of a block, even if its documents are short
_MOST = 256 << 20  # the most bytes of a block, whatever its documents
_MOST_ALONE = 32 << 20  # the same if no document needs another
# The bytes of all characters that `str.strip` removes.
_SPACES = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))
_SPACE_BYTES = bytes(sorted(set(_SPACES.encode("utf-8", "surrogatepass"))))


class Segment(NamedTuple):
    """Consecutive lines of one file in a block."""

    path: str
    first: int  # number of the first of these lines in the file, from 1
    size: int  # bytes


class Block(NamedTuple):
    """Some text, in a file of its own."""

    number: int
    text: pathlib.Path
    segments: tuple[Segment, ...]
    digest: str  # hash of the text and of where its files begin
    context: int  # number of documents at its start, copied from the previous block
    is_short: bool  # it ends below the window, to bound its bytes
    position: int  # bytes of the input files, as on disk, read so far
    size: int  # bytes of text; from here on, the context is not counted
    lines: int
    documents: int
    empty: int  # documents without a sentence: extra blank lines


class Document(NamedTuple):
    """The sentences of a document and their line numbers."""

    path: str
    lines: list[int]  # the number of each sentence's line, from 1
    sentences: list[str]  # stripped, not empty


@dataclasses.dataclass(frozen=True)
class Cut:
    """The limits of blocks."""

    each_line: bool = False  # every line is a document
    window: int = WINDOW  # the fewest documents; 0: no document needs another
    least: int = _LEAST  # the fewest bytes
    most: int = _MOST

    @property
    def limit(self) -> int:
        """The most bytes of a block that is not complete yet."""
        return self.most if self.window else min(self.most, _MOST_ALONE)


def find_files(names: str, root: str | None = None, *, pipe: bool) -> list[str]:
    """The files of comma-separated names and globs, in order; a glob's files sorted.

    A relative name that matches nothing is looked for below `root`.
    pipe: whether a file may be a pipe, which can be read only once.

    Raises:
      UserError: if a name matches no file.
    """
    paths: list[str] = []
    for name in filter(None, map(str.strip, names.split(","))):
        below = os.path.join(root, name) if root else name  # an absolute name stays
        paths += _matches(name) or _matches(below) or _other(below, pipe)
    if not paths:
        raise UserError(f"--input_file={names}: pass the name of a text file")
    return paths


def _matches(name: str) -> list[str]:
    return [path for path in files.expand(name) if os.path.isfile(path)]


def _other(name: str, pipe: bool) -> list[str]:
    if glob.has_magic(name):
        raise UserError(f"--input_file: {name} matches no file")
    text_files.check_file(name, pipe)
    return [name]


def _is_blank(line: bytes) -> bool:
    return not line.strip(_SPACE_BYTES) and not line.decode("utf-8", "replace").strip()


class _Spool:
    """A block under construction, whose text is written to its file line by line."""

    def __init__(self, folder: pathlib.Path, number: int) -> None:
        self.number = number
        self.path = folder / f"{number}.text"
        self.size = self.lines = self.empty = 0
        self.documents = array.array("q")  # where each begins, in bytes of the text
        self.in_document = False
        self._segments: list[tuple[str, int, int]] = []  # path, first line, begin
        self.hash = hashlib.sha256()
        self.file = open(self.path, "wb")  # noqa: SIM115

    def begin(self, path: str, line: int) -> None:
        """Starts a segment: the next lines are those of `path` from this one on."""
        self._segments.append((path, line, self.size))

    def add(self, line: bytes, each_line: bool) -> None:
        if _is_blank(line):
            self.empty += not self.in_document and not each_line
            self.in_document = False
        elif each_line or not self.in_document:
            self.documents.append(self.size)
            self.in_document = not each_line
        self.file.write(line)
        self.hash.update(line)
        self.size += len(line)
        self.lines += 1

    def segments(self, start: int = 0) -> list[Segment]:
        """The segments from byte `start` on; one that is cut there has line 0."""
        ends = [begin for _, _, begin in self._segments[1:]] + [self.size]
        return [
            Segment(path, first if begin >= start else 0, end - max(begin, start))
            for (path, first, begin), end in zip(self._segments, ends, strict=True)
            if end > max(begin, start)
        ]

    def close(self, is_short: bool, position: int) -> Block:
        self.file.close()
        digest = self.hash.copy()
        digest.update(repr([segment.size for segment in self.segments()]).encode())
        return Block(
            self.number,
            self.path,
            tuple(self.segments()),
            digest=digest.hexdigest(),
            context=0,
            is_short=is_short,
            position=position,
            size=self.size,
            lines=self.lines,
            documents=len(self.documents),
            empty=self.empty,
        )


def blocks(
    files: Sequence[str], folder: pathlib.Path, cut: Cut
) -> Generator[Block, None, None]:
    """Yields the text of the files as blocks, whose texts are files in `folder`.

    The caller removes a block's text when it is done with it. If fewer documents than
    the window are left at the end, they come with the last ones of the previous block
    as `context`, so that random sentences always come from a whole window.

    Raises:
      UserError: for an unreadable or damaged file, or a line that is too long.
    """
    before = 0  # bytes of the files that have been read
    waiting: tuple[_Spool, Block] | None = None
    spool = _Spool(folder, 0)
    try:
        for path in files:
            with unpacked(path) as (packed, file):
                spool.begin(path, 1)
                for number, line in lines(path, file):
                    is_short = len(spool.documents) < cut.window
                    most = cut.limit if spool.in_document or is_short else cut.least
                    if spool.size >= most:
                        if waiting:
                            yield waiting[1]
                        position = before + _position(packed)
                        waiting = spool, spool.close(is_short, position)
                        spool = _Spool(folder, spool.number + 1)
                        spool.begin(path, number)
                    spool.add(line, cut.each_line)
                before += _position(packed)
                spool.in_document = False
        last = spool.close(False, before)
        if waiting:
            if 0 < len(spool.documents) < cut.window:
                last = _with_context(waiting[0], spool, last, cut=cut)
            yield waiting[1]
        if last.size:
            yield last
    finally:
        spool.file.close()


def _position(packed: IO[bytes]) -> int:
    return packed.tell() if packed.seekable() else 0


def _with_context(before: _Spool, spool: _Spool, block: Block, *, cut: Cut) -> Block:
    """The block, preceded by as many last documents of `before` as fit."""
    fitting = bisect.bisect_left(before.documents, before.size + spool.size - cut.most)
    wanted = cut.window - len(spool.documents)
    count = min(wanted, len(before.documents) - fitting)
    if count <= 0:
        return block
    start = before.documents[-count]
    joined = spool.path.with_suffix(".joined")
    with open(joined, "wb") as target:
        for path, offset in ((before.path, start), (spool.path, 0)):
            with open(path, "rb") as source:
                source.seek(offset)
                shutil.copyfileobj(source, target)
    joined.replace(spool.path)
    digest = hashlib.sha256(
        f"{before.hash.hexdigest()} {count} {block.digest}".encode()
    )
    return block._replace(
        segments=(*before.segments(start), *block.segments),
        digest=digest.hexdigest(),
        context=count,
    )


def documents(block: Block, each_line: bool = False) -> Iterator[Document]:
    """The documents of a block, those of its context first.

    Raises:
      UserError: for text that is not UTF-8, or a NUL byte, with file:line.
    """
    with open(block.text, "rb") as file:
        for path, first, size in block.segments:
            lines, sentences = list[int](), list[str]()
            number, end = first, file.tell() + size
            at = file.tell()
            while at < end:
                raw = file.readline()
                at += len(raw)
                sentence = decode(raw, path, number).strip()
                if sentence:
                    lines.append(number)
                    sentences.append(sentence)
                if sentences and (each_line or not sentence):
                    yield Document(path, lines, sentences)
                    lines, sentences = [], []
                number += 1
            if sentences:
                yield Document(path, lines, sentences)
