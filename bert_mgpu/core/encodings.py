"""Encodings of text files: their names, which one a file is in, and decoding."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from bert_mgpu.core.errors import UserError

UTF_8 = "utf-8"
# Encodings in which no other character contains the byte of a line end. GB18030
# includes GBK and GB2312.
ENCODINGS = {
    UTF_8: UTF_8,
    **dict.fromkeys(("gb18030", "gbk", "gb2312"), "gb18030"),
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc-jp": "euc_jp",
    "euc-kr": "cp949",
    "latin-1": "latin-1",
    "windows-1252": "cp1252",
}
_OR_UTF_8 = " or utf-8"
_TWO_BYTES = "\u07ff"  # the last character that UTF-8 writes in two bytes
_ONE_BYTE = "latin-1", "windows-1252"  # where UTF-8 reads as "Ã©", which no text has
_MARKS = {UTF_8: codecs.BOM_UTF8, "gb18030": "\ufeff".encode("gb18030")}
UTF_16_MARKS = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE


def or_utf_8(encoding: str) -> str:
    """The name of a choice: UTF-8 if a file's first lines show it, else `encoding`."""
    return encoding if encoding == UTF_8 else f"{encoding}{_OR_UTF_8}"


def _is_utf_8(raw: bytes, expected: str) -> bool | None:
    """Whether a line is UTF-8; None where it may be in the expected encoding as well.

    Some pairs of bytes are valid in both UTF-8 and GBK; with three this is rare.
    """
    if raw.isascii():
        return None
    try:
        return max(raw.decode()) > _TWO_BYTES or expected in _ONE_BYTE or None
    except UnicodeDecodeError:
        return False


def decided(encoding: str, lines: Iterable[bytes]) -> str:
    """The encoding that the first telling line is in; `encoding` if there is none."""
    own = usual(encoding)
    for raw in lines:
        if (is_utf_8 := _is_utf_8(raw, own)) is not None:
            return UTF_8 if is_utf_8 else own
    return encoding


def is_open(encoding: str) -> bool:
    """Whether the encoding is a choice of `or_utf_8`."""
    return encoding.endswith(_OR_UTF_8)


def usual(encoding: str) -> str:
    """The encoding of files that no line shows to be UTF-8."""
    return encoding.removesuffix(_OR_UTF_8)


def without_mark(raw: bytes, encoding: str) -> bytes:
    """The first line of a file without its byte order mark."""
    return raw.removeprefix(_MARKS.get(_codec(encoding), b""))


def _codec(encoding: str) -> str:
    """Python's name of an encoding, which may have the suffix of `or_utf_8`."""
    return ENCODINGS[usual(encoding)]


def decode(
    raw: bytes, location: str, encoding: str = UTF_8, *, has_flag: bool = True
) -> str:
    """The text of a line. Raises UserError, whose message begins with `location`.

    has_flag: whether the command has --encoding.
    """
    codec = _codec(encoding)
    try:
        text = raw.decode(codec)
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode(codec, "replace")) + 1
        fault = f"byte 0x{raw[error.start]:02x} at column {column}"
        if encoding != UTF_8:
            own = "utf-8" if _is_utf_8(raw, encoding) else "CODE, the file's own"
            raise UserError(
                f"{location}: not {encoding} ({fault}): pass --encoding={own}"
            ) from None
        is_utf_16 = raw.startswith(UTF_16_MARKS)
        name = "UTF-16" if is_utf_16 else "GB18030"
        raise UserError(
            f"{location}: not UTF-8 ({fault}): convert it, e.g."
            f" iconv -f {name} -t UTF-8"
            + ", or, for a task of your own, pass --encoding=gb18030"
            * (has_flag and not is_utf_16)
        ) from None
    if "\0" in text:
        raise UserError(
            f"{location}: NUL byte at column {text.index(chr(0)) + 1}: not a UTF-8"
            " text file; if it is UTF-16, convert it with iconv -t UTF-8"
        )
    return text
