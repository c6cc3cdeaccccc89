"""Checks of a TensorBundle's index, before TensorFlow reads it.

The index is an sstable of LevelDB: blocks of sorted keys, each with a CRC32C, and a
footer with the offsets of the last two of them. TensorFlow verifies the blocks that
it reads, but neither the footer nor the filter block, and it allocates memory for a
shape before it checks that there are as many values. Here every byte is checked, and
no tensor may be larger than the data files.
"""

from __future__ import annotations

import errno
import math
import os
import stat
import struct
from collections.abc import Iterator
from typing import Any

import google_crc32c

from bert_mgpu.core.errors import Unreadable, UserError, short_repr

# Both formats end in the magic number of an sstable; V1 is a single such file.
MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER = 48  # bytes: two handles, zeros, the magic number
_TRAILER = 5  # bytes after a block: its compression type and its checksum
_MOST_BYTES = 64 << 20  # of an index; that of BERT-large with moments has 0.1 MB
_LONGEST_NAME = 4096
_MOST_DIMENSIONS = 32  # of a numpy array
_ADVICE = "copy it again, or pass another checkpoint"
_MOST_SHARDS = 99_999  # their names have five digits


class _Damaged(Exception):
    """An index that is damaged; the argument is the reason."""


def check(prefix: str) -> None:
    """Raises UserError where the index is damaged, or the files hold less than it says.

    The values have checksums of their own, which TensorFlow verifies.
    """
    file = f"{prefix}.index"
    try:
        with open(file, "rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise _Damaged(f"more than {_MOST_BYTES:,} bytes")
        _check_entries(prefix, _entries(content))
    except _Damaged as error:
        raise UserError(f"{file}: damaged: {error}: {_ADVICE}") from None
    except (IndexError, OverflowError, struct.error):
        raise UserError(f"{file}: damaged: it is cut short: {_ADVICE}") from None


def _entries(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of all blocks, which must fill the file without gaps."""
    footer = content[-_FOOTER:]
    if len(footer) < _FOOTER or not footer.endswith(MAGIC):
        raise _Damaged("it does not end as an index does")
    filters, position = _handle(footer, 0)
    blocks, position = _handle(footer, position)
    if any(footer[position : -len(MAGIC)]):
        raise _Damaged("its footer has bytes that mean nothing")
    end = 0
    for _, value in _block(content, blocks):
        block, position = _handle(value, 0)
        if block[0] != end or position != len(value):
            raise _Damaged("its blocks do not follow each other")
        yield from _block(content, block)
        end = sum(block) + _TRAILER
    for block in (filters, blocks):
        if block[0] != end:
            raise _Damaged("its blocks do not follow each other")
        if block == filters and any(_block(content, block)):
            raise _Damaged("it has filters, which TensorFlow does not write")
        end = sum(block) + _TRAILER
    if end != len(content) - _FOOTER:
        raise _Damaged("its blocks do not fill the file")


def _varint(content: bytes, position: int) -> tuple[int, int]:
    """(number, position after it): seven bits per byte, in as few bytes as possible."""
    number = 0
    for shift in range(0, 64, 7):
        byte = content[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            if shift and not byte:
                raise _Damaged("a number in it is written too long")
            return number, position
    raise _Damaged("a number in it is too large")


def _handle(content: bytes, position: int) -> tuple[tuple[int, int], int]:
    """((offset, size) of a block, position after it)."""
    offset, position = _varint(content, position)
    size, position = _varint(content, position)
    return (offset, size), position


def _block(content: bytes, handle: tuple[int, int]) -> Iterator[tuple[bytes, bytes]]:
    offset, size = handle
    end = offset + size
    packed, crc = struct.unpack_from("<BI", content, end)
    checksum = google_crc32c.value(content[offset : end + 1])
    masked = ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
    if masked != crc:
        raise _Damaged(f"the checksum of the block at byte {offset} is wrong")
    if packed:
        raise _Damaged("it is packed, which TensorFlow does not write")
    block = content[offset:end]
    (restarts,) = struct.unpack("<I", block[-4:])
    last = len(block) - 4 * (restarts + 1)
    key, position = b"", 0
    while position < last:
        shared, position = _varint(block, position)
        added, position = _varint(block, position)
        length, position = _varint(block, position)
        if shared > len(key) or position + added + length > last:
            raise _Damaged("an entry in it is longer than its block")
        key = key[:shared] + block[position : position + added]
        if len(key) > _LONGEST_NAME:
            raise _Damaged(f"a name in it has more than {_LONGEST_NAME} bytes")
        position += added
        yield key, block[position : position + length]
        position += length


def _check_entries(prefix: str, entries: Iterator[tuple[bytes, bytes]]) -> None:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from tensorflow.core.protobuf import tensor_bundle_pb2

    key, value = next(entries, (b"no header", b""))
    try:
        header = tensor_bundle_pb2.BundleHeaderProto.FromString(value)
        if key or not 1 <= header.num_shards <= _MOST_SHARDS or header.endianness:
            raise _Damaged("its header is not that of a checkpoint")
        available = sum(
            _size(f"{prefix}.data-{shard:05}-of-{header.num_shards:05}")
            for shard in range(header.num_shards)
        )
        for key, value in entries:
            entry = tensor_bundle_pb2.BundleEntryProto.FromString(value)
            _check_entry(_name(key), entry, available)
    except DecodeError:
        raise _Damaged(f"{short_repr(key)} has no entry that can be read") from None


def _size(path: str) -> int:
    """The bytes of a data file. Raises UserError where it is missing or not regular.

    TensorFlow would wait for a pipe. Raises Unreadable where the file may be intact.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise UserError(f"{path}: damaged: {error.strerror}") from None
        raise Unreadable(path, error.strerror) from None
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{path}: damaged: not a regular file")
    return status.st_size


def _name(key: bytes) -> str:
    if key.startswith(b"\0"):  # a part of a partitioned variable
        return repr(key)
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise _Damaged(f"the name {short_repr(key)} is not UTF-8") from None


def _check_entry(name: str, entry: Any, available: int) -> None:
    """Raises _Damaged for an impossible shape or type.

    available: the bytes of all data files.
    """
    import tensorflow as tf

    shape = [dimension.size for dimension in entry.shape.dim]
    if entry.shape.unknown_rank or len(shape) > _MOST_DIMENSIONS or min([0, *shape]):
        raise _Damaged(
            f"{short_repr(name)} has an impossible shape: {short_repr(shape)}"
        )
    try:
        dtype = tf.as_dtype(entry.dtype)
    except TypeError:
        dtype = tf.variant
    if dtype in (tf.variant, tf.resource):
        raise _Damaged(
            f"{short_repr(name)} is of type {entry.dtype}, which no array has"
        )
    # A string takes at least the byte that holds its length.
    bytes_each = 1 if dtype == tf.string else dtype.size
    if math.prod(shape) * bytes_each > available:
        raise _Damaged(
            f"{short_repr(name)} has shape {shape}, more than the files hold"
        )
    for part in entry.slices:
        ends = [(span.start, span.start + span.length) for span in part.extent]
        within = all(0 <= a <= b <= n for (a, b), n in zip(ends, shape, strict=False))
        if len(ends) != len(shape) or not within:
            raise _Damaged(f"{short_repr(name)} has a part that lies outside it")
