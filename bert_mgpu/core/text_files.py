"""Lines of text files, packed or not."""

from __future__ import annotations

import contextlib
import difflib
import functools
import gzip
import lzma
import os
import pathlib
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from bert_mgpu.core import encodings
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.files import STANDARD_INPUT
from bert_mgpu.core.log import say

_MAX_NAMES_SHOWN = 5
Lines = Iterator[tuple[int, str]]  # of a file, with their numbers from 1
# Gets the number of a line that cannot be read, and the message, FILE:LINE first.
Faults = Callable[[int, str], None]


class RowFaults(ValueError):
    """The faults of a row: pairs (number of the word from 0, or None; message)."""

    def __init__(self, faults: Sequence[tuple[int | None, str]]):
        super().__init__(faults[0][1])
        self.faults = faults


def report_faults(
    path: str | os.PathLike[str],
    line: int,
    error: ValueError,
    *,
    faults: Faults | None,
    word_lines: bool = False,
) -> None:
    """Passes the faults of the row that begins at this line to `faults`.

    word_lines: each word has a line of its own. Raises UserError if `faults` is None.
    """
    each = error.faults if isinstance(error, RowFaults) else [(None, str(error))]
    for word, message in each:
        at = line + (word or 0) * word_lines
        if word is not None and not word_lines:
            message = f"word {word + 1}: {message}"
        fault = f"{path}:{at}: {message}"
        if faults is None:
            raise UserError(fault) from None
        faults(at, fault)


UNPACK = {".gz": gzip.open, ".xz": lzma.open}
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
_NAMED = "packed by {}: give the file a name that ends in .{}, or unpack it"
_ZIP = "a zip archive, such as a workbook of Excel: save it as CSV"
_UNKNOWN = "packed by {}: unpack it, or pack it by gzip or xz"
# The first bytes of files that are not text, and what to do with those.
_PACKED = (
    (re.compile(rb"\x1f\x8b"), _NAMED.format("gzip", "gz")),
    (re.compile(rb"\xfd7zXZ"), _NAMED.format("xz", "xz")),
    (re.compile(rb"BZh[1-9]1AY&SY"), _UNKNOWN.format("bzip2")),
    (re.compile(rb"\x28\xb5\x2f\xfd"), _UNKNOWN.format("zstd")),
    (re.compile(rb"PK\x03\x04"), _ZIP),
)
LONGEST_LINE = 1 << 24  # bytes; a packed file of 1 MB may hold a line of 1 GB


def check_file(path: str | os.PathLike[str], pipe: bool = False) -> None:
    """Raises UserError, with the nearest names, if there is no such file.

    pipe: whether it may be a pipe, which can be read only once.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        raise UserError(f"{path}: is a directory: pass a file")
    if path.is_file() or (pipe and path.exists()):
        return
    if path.exists():
        raise UserError(
            f"{path}: a pipe or a device, which cannot be read twice: write it to a"
            " file and pass that"
        )
    if not path.parent.is_dir():
        raise UserError(f"{path}: there is no directory {path.parent}")
    names = sorted(entry.name for entry in path.parent.iterdir())
    names = [name for name in names if not name.startswith(".")] or names
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(path.name.lower(), by_lower)
    shown = [by_lower[name] for name in near] or names[:_MAX_NAMES_SHOWN]
    holds = ", ".join(shown) or "nothing"
    more = ", ..." if len(shown) < len(names) else ""
    folder = "this folder" if path.parent == pathlib.Path() else path.parent
    raise UserError(f"{path}: no such file: {folder} holds {holds}{more}")


def detect_encoding(
    path: str | os.PathLike[str], encoding: str, longest: int = LONGEST_LINE
) -> str:
    """The one of ENCODINGS in which `read_lines` reads a file."""
    if encodings.is_open(encoding):
        with unpacked(path) as (_, file):
            lines = raw_lines(path, file, longest + 1)
            encoding = encodings.decided(encoding, (raw for _, raw in lines))
    return encodings.usual(encoding)


@functools.cache
def _name_encoding(path: str, encoding: str) -> None:
    """Logs a file's encoding, once for each file."""
    say(f"{path}: read as {encoding}; if it is another, pass --encoding")


def read_lines(
    path: str | os.PathLike[str],
    encoding: str = encodings.UTF_8,
    faults: Faults | None = None,
    *,
    longest: int = LONGEST_LINE,
) -> Iterator[tuple[int, str]]:
    r"""Yields (line number from 1, text) of a text file, one line in memory at a time.

    Lines end at `\n` alone: U+2028, U+0085, a lone `\r` and the like, at which
    `str.splitlines` also cuts, are characters of the text. The line end (`\n` or
    `\r\n`) and a byte order mark at the start of the file are left out. A `.gz` or
    `.xz` file is unpacked; STANDARD_INPUT is read as its lines arrive.

    encoding: one of ENCODINGS, or a name from `encodings.or_utf_8`. faults: gets each
    line that cannot be decoded; the line is then left out, and no error is raised.

    Raises UserError: no such file; or, with file:line: not in this encoding, a NUL
    byte, or more than `longest` bytes.
    """
    if path != STANDARD_INPUT:
        check_file(path)
    with unpacked(path) as (_, file):
        for number, raw in raw_lines(path, file, longest + 1):
            if len(raw) > longest:
                raise UserError(
                    f"{path}:{number}: more than {longest} bytes: not a line of"
                    " text: check the file, and where its lines end"
                )
            if encodings.is_open(encoding) and not raw.isascii():
                if path == STANDARD_INPUT:  # its later lines have not come
                    encoding = encodings.decided(encoding, [raw])
                else:
                    encoding = detect_encoding(path, encoding, longest)
                if not encodings.is_open(encoding):
                    _name_encoding(str(path), encoding)
            if number == 1:
                check_start(raw, path)
                raw = encodings.without_mark(raw, encoding)
            raw = raw.removesuffix(b"\n").removesuffix(b"\r")
            try:
                text = encodings.decode(raw, f"{path}:{number}", encoding)
            except UserError as error:
                if faults is None:
                    raise
                faults(number, str(error))
            else:
                yield number, text


@contextlib.contextmanager
def unpacked(
    path: str | os.PathLike[str],
) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Opens a file. Yields it as it is on disk, for its position, and unpacked.

    path: may be STANDARD_INPUT. Raises UserError if it cannot be opened.
    """
    unpack: Any = UNPACK.get(pathlib.Path(path).suffix, contextlib.nullcontext)
    try:
        # Not sys.stdin: a thread waiting for it holds its lock, and exit would abort.
        source = os.dup(0) if path == STANDARD_INPUT else path
        packed = open(source, "rb")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"{path}: cannot read it: {error.strerror}") from None
    with packed, unpack(packed) as file:
        yield packed, file


def raw_lines(
    path: str | os.PathLike[str], file: IO[bytes], most: int
) -> Iterator[tuple[int, bytes]]:
    """Yields (number from 1, line with its end); lines over `most` bytes are in pieces.

    So no more is ever held in memory, whatever the file unpacks to. Raises UserError
    if it is damaged or cannot be read.
    """
    number = 0
    try:
        pieces = iter(functools.partial(file.readline, most), b"")
        for number, raw in enumerate(pieces, 1):
            yield number, raw
    except _DAMAGED as error:
        raise UserError(
            f"{path}: damaged or cut after line {number} ({error}): copy or compress"
            " it again"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot read it: {error.strerror}") from None


def check_start(raw: bytes, path: str | os.PathLike[str]) -> None:
    """Raises UserError for packed files, UTF-16, and lines that end in CR alone.

    Later checks would name a wrong cause, or none. raw: the first line with its end.
    """
    for start, advice in _PACKED:
        if start.match(raw):
            raise UserError(f"{path}:1: {advice}")
    if raw.startswith(encodings.UTF_16_MARKS):
        raise UserError(
            f"{path}:1: not UTF-8 but UTF-16: convert it, e.g. iconv -f UTF-16 -t UTF-8"
        )
    if not raw.endswith(b"\n") and b"\r" in raw.rstrip(b"\r"):
        raise UserError(
            f"{path}:1: its lines end in CR alone, as on old Macs: convert it, e.g."
            " tr '\\r' '\\n'"
        )
