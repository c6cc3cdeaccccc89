"""The lines of pretraining texts, as bytes."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import IO

from bert_mgpu.core import encodings, text_files
from bert_mgpu.core.errors import UserError

_LONGEST = 1_000_000  # characters of a line
_LONGEST_BYTES = 4 * _LONGEST + 4  # of such a line in UTF-8, with its line end


def lines(path: str, file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yields pairs (number from 1, line with its end); the last line is given one."""
    for number, line in text_files.raw_lines(path, file, _LONGEST_BYTES):
        if number == 1:
            text_files.check_start(line, path)
            line = line.removeprefix(codecs.BOM_UTF8)
        if len(line) > _LONGEST:
            _check_length(line, f"{path}:{number}")
        yield number, line if line.endswith(b"\n") else line + b"\n"


def _check_length(line: bytes, location: str) -> None:
    if len(line.decode("utf-8", "replace").rstrip("\r\n")) > _LONGEST:
        raise UserError(
            f"{location}: more than {_LONGEST} characters: one sentence per line is"
            " wanted: split it, e.g. with sed 's/[.!?。！？]/&\\n/g'"
        )


def decode(raw: bytes, path: str, number: int) -> str:
    """The text of a line. UserError with file:line if it is not UTF-8 or has a NUL."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:  # raises the error that fits
        location = f"{path}:{number}"
        return encodings.decode(raw.rstrip(b"\n"), location, has_flag=False)
    return text
