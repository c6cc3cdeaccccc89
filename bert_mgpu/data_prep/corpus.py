"""Raw text for pretraining: files -> blocks of documents -> sentences.

One sentence a line, blank lines between documents; a file's end ends a document too.
Whoever reads the files cuts them into blocks, each a file of its own, so that any
number of processes can take one each and none of them ever holds more: `blocks` holds
no text at all, `documents` one document.
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
from bert_mgpu.data_prep.text_lines import decode, lines, opened

WINDOW = (
    10_000  # documents of a block at least: a random next sentence is one of theirs
)
_LEAST = 4 << 20  # bytes of a block at least, so that short documents make no tiny ones
_MOST = 256 << 20  # bytes of a block at most, whatever the documents
# Every byte of a character that `str.strip` takes off.
_SPACES = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))
_SPACE_BYTES = bytes(sorted(set(_SPACES.encode("utf-8", "surrogatepass"))))


class Segment(NamedTuple):
    """Lines of one file that stand together in a block."""

    path: str
    first: int  # number of the first of these lines in the file, from 1
    size: int  # bytes


class Block(NamedTuple):
    """Some text, in a file of its own."""

    number: int
    text: pathlib.Path
    segments: tuple[Segment, ...]
    digest: str  # of the text and of where its files begin
    context: int  # so many documents at its start belong to the block before it
    is_cut: bool  # smaller than the window, or within a document, to bound its bytes
    position: int  # bytes of the input, as on the disk, that have been read
    size: int  # bytes of text; this and what follows are without the context
    lines: int
    documents: int
    empty: int  # documents without a sentence: blank lines beside another


class Document(NamedTuple):
    path: str
    lines: list[int]  # the number of each sentence's line, from 1
    sentences: list[str]  # stripped, not empty


@dataclasses.dataclass(frozen=True)
class Cut:
    """Where blocks end."""

    each_line: bool = False  # is a document
    window: int = WINDOW  # documents at least; 0: no document needs another
    least: int = _LEAST  # bytes
    most: int = _MOST


def find_files(names: str, root: str | None = None) -> list[str]:
    """Files of comma-separated names and globs, in this order, a glob's sorted.

    A relative name that is nothing as it stands is looked for below `root`.

    Raises:
      UserError: a name without a file.
    """
    found: list[str] = []
    for name in filter(None, map(str.strip, names.split(","))):
        below = os.path.join(root, name) if root else name  # an absolute name stays
        found += _matches(name) or _matches(below) or _other(below)
    if not found:
        raise UserError(f"--input_file={names}: pass the name of a text file")
    return found


def _matches(name: str) -> list[str]:
    return [path for path in files.expand(name) if os.path.isfile(path)]


def _other(name: str) -> list[str]:
    if glob.has_magic(name):
        raise UserError(f"--input_file: {name} matches no file")
    text_files.check_file(name, pipe=True)
    return [name]  # a pipe


def _is_blank(line: bytes) -> bool:
    return not line.strip(_SPACE_BYTES) and not line.decode("utf-8", "replace").strip()


class _Spool:
    """A block in the making: its text goes to its file as it comes."""

    def __init__(self, folder: pathlib.Path, number: int) -> None:
        self.number = number
        self.path = folder / f"{number}.text"
        self.size = self.lines = self.empty = 0
        self.documents = array.array("q")  # where each begins, in bytes
        self.in_document = False
        self._segments: list[tuple[str, int, int]] = []  # path, first line, begin
        self.hash = hashlib.sha256()
        self.file = open(self.path, "wb")  # noqa: SIM115

    def begin(self, path: str, line: int) -> None:
        """What follows is `path` from this line on."""
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
        """Of the text from byte `start` on; the number of its first line is lost."""
        ends = [begin for _, _, begin in self._segments[1:]] + [self.size]
        return [
            Segment(path, first if begin >= start else 0, end - max(begin, start))
            for (path, first, begin), end in zip(self._segments, ends, strict=True)
            if end > max(begin, start)
        ]

    def close(self, is_cut: bool, position: int) -> Block:
        self.file.close()
        digest = self.hash.copy()
        digest.update(repr([segment.size for segment in self.segments()]).encode())
        return Block(
            self.number,
            self.path,
            tuple(self.segments()),
            digest=digest.hexdigest(),
            context=0,
            is_cut=is_cut,
            position=position,
            size=self.size,
            lines=self.lines,
            documents=len(self.documents),
            empty=self.empty,
        )


def blocks(
    files: Sequence[str], folder: pathlib.Path, cut: Cut
) -> Generator[Block, None, None]:
    """Cuts the text of the files into blocks, whose texts are files in `folder`.

    The caller removes a block's text when it is done with it. Should fewer documents
    than the window be left at the end, the last ones of the block before come with them
    as `context`, so that random sentences always have a whole window to come from.

    Raises:
      UserError: a file that cannot be read or is damaged, a line that is too long.
    """
    before = 0  # bytes of the files that are done
    waiting: tuple[_Spool, Block] | None = None
    spool = _Spool(folder, 0)
    try:
        for path in files:
            with opened(path) as (packed, file):
                spool.begin(path, 1)
                for number, line in lines(path, file):
                    is_cut = spool.in_document or len(spool.documents) < cut.window
                    if spool.size >= (cut.most if is_cut else cut.least):
                        if waiting:
                            yield waiting[1]
                        position = before + _position(packed)
                        waiting = spool, spool.close(is_cut, position)
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
    """The block behind the last documents of the one before it, as far as they fit."""
    fitting = bisect.bisect_left(before.documents, before.size + spool.size - cut.most)
    wanted = cut.window - len(spool.documents)
    count = min(wanted, len(before.documents) - fitting)
    if count <= 0:
        return block
    start = before.documents[-count]
    joined = spool.path.with_suffix(".joined")
    with open(joined, "wb") as target:
        for path, place in ((before.path, start), (spool.path, 0)):
            with open(path, "rb") as source:
                source.seek(place)
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
      UserError: not UTF-8, or a NUL byte, with file:line.
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
