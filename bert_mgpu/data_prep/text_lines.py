"""The lines of text files, also of compressed ones."""

from __future__ import annotations

import codecs
import contextlib
import functools
import gzip
import lzma
import pathlib
import zlib
from collections.abc import Iterator
from typing import IO, Any

from bert_mgpu.core import text_files
from bert_mgpu.core.errors import UserError

_LONGEST = 1_000_000  # characters of a line
_LONGEST_BYTES = 4 * _LONGEST + 4  # of such a line in UTF-8, with its end
_DECOMPRESS = {".gz": gzip.open, ".xz": lzma.open}
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


@contextlib.contextmanager
def opened(path: str) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The file as it is on the disk, for its position, and its text."""
    decompress: Any = _DECOMPRESS.get(pathlib.Path(path).suffix, contextlib.nullcontext)
    try:
        raw = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"{path}: cannot read it: {error.strerror}") from None
    with raw, decompress(raw) as file:
        yield raw, file


def lines(path: str, file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Pairs (number from 1, line with its end); the last line gets one."""
    number = 0
    try:
        for line in iter(functools.partial(file.readline, _LONGEST_BYTES), b""):
            number += 1
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if len(line) > _LONGEST:
                _check_length(line, f"{path}:{number}")
            yield number, line if line.endswith(b"\n") else line + b"\n"
    except _DAMAGED as error:
        raise UserError(
            f"{path}: damaged or cut after line {number} ({error}): copy it again"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot read it: {error.strerror}") from None


def _check_length(line: bytes, location: str) -> None:
    if len(line.decode("utf-8", "replace").rstrip("\r\n")) > _LONGEST:
        raise UserError(
            f"{location}: more than {_LONGEST} characters: one sentence per line is"
            " wanted: split it, e.g. with sed 's/[.!?。！？]/&\\n/g'"
        )


def decode(raw: bytes, path: str, number: int) -> str:
    """The text of a line. Raises UserError with file:line: not UTF-8, or a NUL byte."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:  # raises the error that fits
        return text_files.decode(raw.rstrip(b"\n"), f"{path}:{number}")
    return text
