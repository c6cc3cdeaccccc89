"""TFRecord files of tf.train.Example, written and checked without TensorFlow.

Importing TensorFlow takes three seconds and 400 MB per process, and data preparation
has many processes. Both formats are simple. A file is a sequence of records:

    length    uint64, little endian
    checksum  of the length: masked CRC-32C, uint32
    data      `length` bytes
    checksum  of the data

(tensorflow/core/lib/io/record_writer.h). The data is a protocol buffer, here a map from
names to lists of integers or float32 (tensorflow/core/example/example.proto).
"""

from __future__ import annotations

import array
import functools
import os
import struct
from collections.abc import Mapping
from typing import BinaryIO, NamedTuple

import google_crc32c
import numpy as np

from bert_mgpu.core import text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Ragged

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
HEADER = _LENGTH.size + _CHECKSUM.size  # bytes before a record's data
FOOTER = _CHECKSUM.size  # bytes after it
_MASK = 0xA282EAD8  # so that a checksum of checksums is no special case
LARGEST = 1 << 24  # bytes of a record: a row of 512 tokens takes 20,000 at most
_GROUP = 7  # payload bits in a byte of a varint
# Field number << 3 | wire type 2 (a length follows), from example.proto.
_FEATURES, _ENTRY, _KEY, _FEATURE, _VALUES = (
    bytes([n << 3 | 2]) for n in (1, 1, 1, 2, 1)
)
_FLOATS, _INTS = (bytes([n << 3 | 2]) for n in (2, 3))


class FrameIndex(NamedTuple):
    """The positions of a file's good records, and the faults of the others."""

    offsets: np.ndarray  # int64 [records], of the data
    sizes: np.ndarray  # int64 [records], bytes of data
    bad: list[str]  # one line each: file, offset, why


def encode(features: Mapping[str, np.ndarray]) -> bytes:
    """A tf.train.Example: integers become an int64_list, floats a float_list."""
    columns = {name: Ragged(v, np.array([0, len(v)])) for name, v in features.items()}
    return encode_rows(columns)[0]


def encode_rows(columns: Mapping[str, Ragged]) -> list[bytes]:
    """A tf.train.Example for each row; all columns have the same number of rows.

    Features are sorted by name, so equal rows give equal bytes. NumPy encodes the
    numbers of all rows together, which is fast for some hundreds of rows at once.
    """
    encoded = []
    for name in sorted(columns):
        values, offsets = columns[name]
        if values.dtype.kind == "f":
            list_type, data, ends = _FLOATS, values.astype("<f4").tobytes(), offsets * 4
        else:
            list_type, (data, ends) = _INTS, _varints(values, offsets)
        bounds = ends.tolist()
        encoded.append(
            [
                _entry(name, list_type, end - start) + data[start:end]
                for start, end in zip(bounds, bounds[1:], strict=False)
            ]
        )
    rows = map(b"".join, zip(*encoded, strict=True))
    return [_FEATURES + _varint(len(row)) + row for row in rows]


@functools.lru_cache(maxsize=1 << 12)
def _entry(name: str, list_type: bytes, size: int) -> bytes:
    """The head of a map entry of Features, before `size` bytes of values."""
    head = _VALUES + _varint(size) if size else b""
    head = list_type + _varint(len(head) + size) + head
    head = _FEATURE + _varint(len(head) + size) + head
    key = name.encode()
    head = _KEY + _varint(len(key)) + key + head
    return _ENTRY + _varint(len(head) + size) + head


def _varint(number: int) -> bytes:
    """A number in groups of 7 bits, low ones first; bit 8 says whether more follow."""
    groups = bytearray()
    while number >> _GROUP:
        groups.append(number & 0x7F | 0x80)
        number >>= _GROUP
    return bytes([*groups, number])


def _varints(values: np.ndarray, offsets: np.ndarray) -> tuple[bytes, np.ndarray]:
    """All values as varints, and the bounds of each row in those bytes.

    A negative number takes ten bytes, as the 64-bit number with the same bits.
    """
    bits = values.astype(np.int64).view(np.uint64)
    largest = int(bits.max(initial=0))
    if largest < 1 << _GROUP:
        return bits.astype(np.uint8).tobytes(), offsets
    if largest < 1 << 32:
        bits = bits.astype(np.uint32)  # half the memory to move
    longest = -(-largest.bit_length() // _GROUP)
    groups = np.empty((len(bits), longest), np.uint8)
    kept = np.ones((len(bits), longest), bool)  # the first group even of a zero
    sizes = np.ones(len(bits), np.uint8)
    for group in range(longest):  # numpy is slow along so short an axis
        rest = bits >> bits.dtype.type(group * _GROUP)
        groups[:, group] = rest & 0x7F
        if group:
            more = rest != 0
            kept[:, group] = more
            groups[:, group - 1] |= more * np.uint8(0x80)
            sizes += more
    ends = np.zeros(len(bits) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:], dtype=np.int64)
    return groups[kept].tobytes(), ends[offsets]


def _checksum(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return _CHECKSUM.pack(((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF)


def frame(record: bytes) -> bytes:
    """The bytes of a record in a file, with its length and checksums."""
    length = _LENGTH.pack(len(record))
    return b"".join((length, _checksum(length), record, _checksum(record)))


def data_size(header: bytes | memoryview, at: int = 0) -> int:
    """The size of the data whose frame begins at `at`; the header is not checked."""
    return _LENGTH.unpack_from(header, at)[0]


def scan(path: str | os.PathLike[str], skip_bad: bool = False) -> FrameIndex:
    """Reads a file once and checks every checksum.

    With `skip_bad`, a record whose data is damaged is left out. If a length is damaged
    or the file is truncated, nothing says where the next record begins, and reading
    ends there. Both are listed in `bad`.

    Raises:
      UserError: if there is no such file; without `skip_bad`, for the first bad record.
    """
    text_files.check_file(path)
    offsets, sizes, bad = array.array("q"), array.array("q"), list[str]()
    try:
        with open(path, "rb") as file:
            total = os.fstat(file.fileno()).st_size
            at = 0
            while at < total:
                size, why = _next(file, total - at)
                if why:
                    bad.append(f"{path} at byte {at}: {why}")
                    if not skip_bad:
                        raise UserError(
                            f"{bad[0]}: make the file again, or pass"
                            " --skip_bad_records=true to skip damaged records"
                        )
                else:
                    offsets.append(at + HEADER)
                    sizes.append(size)
                at += HEADER + size + FOOTER
    except OSError as error:
        raise UserError(f"{path}: cannot read it: {error.strerror}") from None
    return FrameIndex(np.array(offsets, np.int64), np.array(sizes, np.int64), bad)


def _next(file: BinaryIO, left: int) -> tuple[int, str]:
    """The size of the next record's data in bytes, and what is wrong with it, or "".

    If the file cannot be read any further, the size is that of all that is left.
    """
    lost = f"the last {left} bytes of the file are lost"
    header = file.read(HEADER)
    if len(header) < HEADER:
        return left, f"truncated in a record header, {lost}"
    length, checksum = header[: _LENGTH.size], header[_LENGTH.size :]
    if _checksum(length) != checksum:
        return left, f"not a TFRecord file, or a damaged record length, {lost}"
    size = data_size(header)
    if size + HEADER + FOOTER > left:
        return left, f"truncated in a record of {size} bytes, {lost}"
    if size > LARGEST:
        file.seek(size + FOOTER, os.SEEK_CUR)
        return size, f"a record of {size} bytes, more than {LARGEST}: no row of tokens"
    if _checksum(file.read(size)) != file.read(FOOTER):
        return size, f"damaged record of {size} bytes: its checksum differs"
    return size, ""


def read(file: BinaryIO, offset: int, size: int) -> bytes:
    """The data of a record that `scan` found. Raises UserError if it has changed."""
    file.seek(offset)
    data = file.read(size + FOOTER)
    if _checksum(data[:size]) != data[size:]:
        raise UserError(
            f"{file.name} at byte {offset}: the record of {size} bytes has changed"
            " since the file was indexed: delete its index in the cache and start again"
        )
    return data[:size]
