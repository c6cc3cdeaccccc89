"""Files that lie although their checksums are right."""

import json
import struct

import google_crc32c
import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import tensor_bundle_pb2

MAGIC = bytes.fromhex("57fb808b247547db")


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _block(entries, packed=0):
    """A block of an sstable and its checksum, every key written in full."""
    body, starts = b"", []
    for key, value in entries:
        starts.append(len(body))
        body += varint(0) + varint(len(key)) + varint(len(value)) + key + value
    starts = starts or [0]
    body += struct.pack(f"<{len(starts) + 1}I", *starts, len(starts))
    body += bytes([packed])
    crc = google_crc32c.value(body)
    return body + struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def table(entries, packed=0):
    """An sstable of one block."""
    block, empty = _block(entries, packed), _block([])

    def handle(offset, content):
        return varint(offset) + varint(len(content) - 5)

    last = _block([(b"\xff", handle(0, block))])
    place = len(block) + len(empty)
    footer = handle(len(block), empty) + handle(place, last)
    return block + empty + last + footer.ljust(40, b"\0") + MAGIC


def header(shards=1, **changed):
    value = tensor_bundle_pb2.BundleHeaderProto(num_shards=shards, **changed)
    value.version.producer = 1
    return b"", value.SerializeToString()


def entry(name, sizes, dtype=types_pb2.DT_FLOAT, content=b"", rank=True, parts=()):
    """parts: (start, length) of a slice, a list for each."""
    value = tensor_bundle_pb2.BundleEntryProto(dtype=dtype, size=len(content))
    for size in sizes:
        value.shape.dim.add(size=size)
    value.shape.unknown_rank = not rank
    for part in parts:
        one = value.slices.add()
        for start, length in part:
            one.extent.add(start=start, length=length)
    crc = google_crc32c.value(content)
    value.crc32c = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return name, value.SerializeToString()


def checkpoint(prefix, *entries, data=b"", packed=0):
    """Writes the files of a checkpoint with one file of values."""
    prefix.with_name(f"{prefix.name}.index").write_bytes(table(entries, packed))
    prefix.with_name(f"{prefix.name}.data-00000-of-00001").write_bytes(data)
    return prefix


def safetensors(header, data=b"", length=None):
    """A file of safetensors: header is text, or JSON values."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def floats(*shape):
    return np.ones(shape, np.float32).tobytes()
