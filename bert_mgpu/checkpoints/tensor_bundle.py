"""The index of a TensorBundle, checked before TensorFlow reads it.

The index is an sstable, as LevelDB has them: blocks of sorted keys, each with a
CRC32C, and a footer that says where the last two of them are. TensorFlow verifies
the blocks that it reads, but neither the footer nor the block of filters, and it
makes room for a shape before it looks whether there are as many values. Here every
byte counts, and no tensor may be larger than the files.
"""

from __future__ import annotations

import math
import os
import stat
import struct
from collections.abc import Iterator
from typing import Any

import google_crc32c

from bert_mgpu.core.errors import UserError, short_repr

# Both formats end in the magic number of an sstable; V1 is a single such file.
MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER = 48  # bytes: two handles, zeros, the magic number
_TRAILER = 5  # bytes behind a block: how it is packed, and its checksum
_MOST_BYTES = 64 << 20  # of an index; that of BERT-large with moments has 0.1 MB
_LONGEST_NAME = 4096
_MOST_DIMENSIONS = 32  # of a numpy array
_ADVICE = "copy it anew, or pass another checkpoint"
_MOST_SHARDS = 99_999  # their names have five digits


class _Damaged(Exception):
    """Its argument says why."""


def check(prefix: str) -> None:
    """Raises UserError where the index is damaged, or says more than the files hold.

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
    except (IndexError, struct.error):
        raise UserError(f"{file}: damaged: it breaks off: {_ADVICE}") from None


def _entries(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of all blocks, which have to fill the file."""
    footer = content[-_FOOTER:]
    if len(footer) < _FOOTER or not footer.endswith(MAGIC):
        raise _Damaged("it does not end as an index does")
    filters, place = _handle(footer, 0)
    blocks, place = _handle(footer, place)
    if any(footer[place : -len(MAGIC)]):
        raise _Damaged("its footer has bytes that mean nothing")
    end = 0
    for _, value in _block(content, blocks):
        block, place = _handle(value, 0)
        if block[0] != end or place != len(value):
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


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """(number, place behind it), seven bits a byte, written as short as can be."""
    number = 0
    for shift in range(0, 64, 7):
        byte = content[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            if shift and not byte:
                raise _Damaged("a number in it is written too long")
            return number, place
    raise _Damaged("a number in it is too large")


def _handle(content: bytes, place: int) -> tuple[tuple[int, int], int]:
    """((offset, size) of a block, place behind it)."""
    offset, place = _varint(content, place)
    size, place = _varint(content, place)
    return (offset, size), place


def _block(content: bytes, handle: tuple[int, int]) -> Iterator[tuple[bytes, bytes]]:
    offset, size = handle
    end = offset + size
    packed, crc = struct.unpack_from("<BI", content, end)
    found = google_crc32c.value(content[offset : end + 1])
    masked = ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF
    if masked != crc:
        raise _Damaged(f"the checksum of the block at byte {offset} is wrong")
    if packed:
        raise _Damaged("it is packed, which TensorFlow does not write")
    block = content[offset:end]
    (restarts,) = struct.unpack("<I", block[-4:])
    last = len(block) - 4 * (restarts + 1)
    key, place = b"", 0
    while place < last:
        same, place = _varint(block, place)
        new, place = _varint(block, place)
        length, place = _varint(block, place)
        if same > len(key) or place + new + length > last:
            raise _Damaged("an entry in it is longer than its block")
        key = key[:same] + block[place : place + new]
        if len(key) > _LONGEST_NAME:
            raise _Damaged(f"a name in it has more than {_LONGEST_NAME} bytes")
        place += new
        yield key, block[place : place + length]
        place += length


def _check_entries(prefix: str, entries: Iterator[tuple[bytes, bytes]]) -> None:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from tensorflow.core.protobuf import tensor_bundle_pb2

    key, value = next(entries, (b"no header", b""))
    try:
        header = tensor_bundle_pb2.BundleHeaderProto.FromString(value)
        if key or not 1 <= header.num_shards <= _MOST_SHARDS or header.endianness:
            raise _Damaged("its header is not one of a checkpoint")
        room = sum(
            _size(f"{prefix}.data-{shard:05}-of-{header.num_shards:05}")
            for shard in range(header.num_shards)
        )
        for key, value in entries:
            entry = tensor_bundle_pb2.BundleEntryProto.FromString(value)
            _check_entry(_name(key), entry, room)
    except DecodeError:
        raise _Damaged(f"{short_repr(key)} has no entry that can be read") from None


def _size(path: str) -> int:
    """Bytes of a file of values, which must not be a pipe: TensorFlow would wait."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise UserError(f"{path}: damaged: {error.strerror}") from None
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


def _check_entry(name: str, entry: Any, room: int) -> None:
    """room: bytes of all values."""
    import tensorflow as tf

    sizes = [dimension.size for dimension in entry.shape.dim]
    if entry.shape.unknown_rank or len(sizes) > _MOST_DIMENSIONS or min([0, *sizes]):
        raise _Damaged(
            f"{short_repr(name)} has no shape that can be: {short_repr(sizes)}"
        )
    try:
        kind = tf.as_dtype(entry.dtype)
    except TypeError:
        kind = tf.variant
    if kind in (tf.variant, tf.resource):
        raise _Damaged(
            f"{short_repr(name)} is of type {entry.dtype}, which is no array's"
        )
    # A text takes a byte at least, which holds its length.
    bytes_each = 1 if kind == tf.string else kind.size
    if math.prod(sizes) * bytes_each > room:
        raise _Damaged(
            f"{short_repr(name)} has shape {sizes}, more than the files hold"
        )
    for part in entry.slices:
        ends = [(one.start, one.start + one.length) for one in part.extent]
        within = all(0 <= a <= b <= n for (a, b), n in zip(ends, sizes, strict=False))
        if len(ends) != len(sizes) or not within:
            raise _Damaged(f"{short_repr(name)} has a part outside of it")
