"""The index of a file of pretraining records, and the parsing of records.

The index holds the position of each record and the length of its row. It is made by
reading the file once, which checks every checksum and every value, and is kept in the
cache folder.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.core import text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import POSITIONS, Features, Ragged
from bert_mgpu.data import cache as cache_lib
from bert_mgpu.data import tfrecord

NEXT = "next_sentence_labels"
WORDS, WEIGHTS = "word_starts", "masked_lm_weights"
_TARGETS = (POSITIONS, "masked_lm_ids", WEIGHTS)
# The features of google-research/bert's records.
_MASKED = ("input_ids", "input_mask", "segment_ids", *_TARGETS)
_UNMASKED = ("input_ids", "segment_ids")
_ALL = (*_MASKED, NEXT, WORDS)
_CHUNK = 1024  # records that are parsed together
_VERSION = 2  # of the index format
# TensorFlow's message may quote binary data, and then it cannot be decoded.
_NO_EXAMPLE = (tf.errors.InvalidArgumentError, UnicodeDecodeError)
# Of TensorFlow's messages about them: what says nothing to a user.
_NOISE = re.compile(r"\{\{.*?\}\} *|Name: [^,]*, *|Index: \d+\. *|, value: '.*|\[Op:.*")
_ABSENT = {
    False: "it has no {}: if its masks are to be drawn, pass --dynamic_masking=true",
    True: "it has no {}",
}
_UNEQUAL = "{}: its length differs from that of {}"


class RecordIndex(NamedTuple):
    """The positions and sizes of the records of a file: int64 [records] each."""

    offsets: np.ndarray
    sizes: np.ndarray  # bytes
    lengths: np.ndarray  # tokens of the row
    counts: np.ndarray  # masked tokens; 0 if masks are drawn later
    follows: np.ndarray  # 1 if it has next_sentence_labels
    pairs: np.ndarray  # 1 if it has a second text
    bad: list[str]  # records that were left out, one line each
    content: str  # a fingerprint of all records


@dataclasses.dataclass(frozen=True)
class RecordSchema:
    """The shape and the ranges of values that records must have."""

    max_seq_length: int
    max_predictions: int  # the most masked tokens of a row
    vocab_size: int
    segments: int  # type_vocab_size
    dynamic: bool  # the records have no masks: they are drawn later

    def faults(self, columns: Mapping[str, Ragged]) -> np.ndarray:
        """The fault of each row, "" where there is none: str [rows]."""
        lengths = columns["input_ids"].lengths
        faults = np.full(len(lengths), "", object)

        def note(bad: np.ndarray, text: str) -> None:
            faults[bad & (faults == "")] = text

        for name in _UNMASKED if self.dynamic else _MASKED:
            note(columns[name].lengths == 0, _ABSENT[self.dynamic].format(name))
        masked = columns[POSITIONS].lengths
        if self.dynamic:
            note(masked > 0, "it holds masks: leave --dynamic_masking out")
            note(
                lengths > self.max_seq_length,
                f"it has more tokens than --max_seq_length={self.max_seq_length}",
            )
        else:
            self._check_size(
                note, "max_seq_length", lengths, wanted=self.max_seq_length
            )
            most = self.max_predictions
            self._check_size(note, "max_predictions_per_seq", masked, wanted=most)
            note(
                columns["input_mask"].lengths != lengths,
                _UNEQUAL.format("input_mask", "input_ids"),
            )
            for name in _TARGETS[1:]:
                note(columns[name].lengths != masked, _UNEQUAL.format(name, POSITIONS))
        note(
            columns["segment_ids"].lengths != lengths,
            _UNEQUAL.format("segment_ids", "input_ids"),
        )
        for name, limit, limit_name in (
            ("input_ids", self.vocab_size, "vocab_size"),
            ("masked_lm_ids", self.vocab_size, "vocab_size"),
            ("segment_ids", self.segments, "type_vocab_size"),
            (POSITIONS, self.max_seq_length, "max_seq_length"),
            (NEXT, 2, "the number of labels"),
        ):
            values, offsets = columns[name]
            outside = (values < 0) | (values >= limit)
            sums = np.concatenate([[0], np.cumsum(outside)])
            bad = sums[offsets[1:]] > sums[offsets[:-1]]
            note(bad, f"{name} has values that are not below {limit_name} = {limit}")
        labels = columns[NEXT]
        note(labels.lengths > 1, f"it has several {NEXT}")
        if not self.dynamic and (faults == "").all():
            self._check_masks(columns, note)
        return faults

    def _check_masks(self, columns: Mapping[str, Ragged], note: Any) -> None:
        """Notes faulty masks, in columns of the right lengths."""
        mask = columns["input_mask"].values.reshape(-1, self.max_seq_length)
        real = (mask != 0).sum(1)
        prefix = mask == (np.arange(self.max_seq_length) < real[:, None])
        note(~prefix.all(1) | (real == 0), "input_mask: not ones and then zeros")
        shape = (-1, self.max_predictions)
        weights, positions = (
            columns[n].values.reshape(shape) for n in (WEIGHTS, POSITIONS)
        )
        note(~np.isin(weights, (0, 1)).all(1), f"{WEIGHTS}: not 0 or 1")
        outside = (weights > 0) & (positions >= real[:, None])
        note(outside.any(1), f"{POSITIONS} has positions after the last token")

    def _check_size(
        self, note: Any, flag: str, sizes: np.ndarray, *, wanted: int
    ) -> None:
        for other in np.unique(sizes[sizes != wanted]):
            note(
                sizes == other,
                f"made with --{flag}={other}, but the run has {wanted}: pass what the"
                " records were made with",
            )


def parse(serialized: Sequence[bytes]) -> dict[str, Ragged]:
    """The known features of tf.train.Examples; a missing one has no values."""
    spec = {
        name: tf.io.RaggedFeature(
            tf.float32 if name == WEIGHTS else tf.int64, row_splits_dtype=tf.int64
        )
        for name in _ALL
    }
    with tf.device("CPU:0"):
        parsed = tf.io.parse_example(tf.constant(serialized, tf.string), spec)
    return {
        name: Ragged(value.values.numpy(), value.row_splits.numpy())
        for name, value in parsed.items()
    }


def _kept(column: Ragged, keep: np.ndarray) -> Ragged:
    """The values where `keep`, bool [values], is true."""
    sums = np.concatenate([[0], np.cumsum(keep)])
    return Ragged(column.values[keep].astype(np.int32), sums[column.offsets])


def unpadded(columns: Mapping[str, Ragged], masked: bool, follows: bool) -> Features:
    """The rows of records, without padding; zero records give empty columns.

    masked: whether the records hold masks; follows: whether each record has
    next_sentence_labels, which the rows then get.
    """
    tokens = columns["input_ids"].values >= 0  # all
    targets = {}
    if masked:
        tokens = columns["input_mask"].values > 0
        used = columns[WEIGHTS].values > 0
        targets = {n: _kept(columns[n], used) for n in (POSITIONS, "masked_lm_ids")}
    ragged = {name: _kept(columns[name], tokens) for name in _UNMASKED}
    count = len(columns["input_ids"].offsets) - 1
    dense = {}
    if follows:
        dense[NEXT] = columns[NEXT].values.astype(np.int32)
    return Features(ragged, dense, np.arange(1, count + 1), targets=targets)


def index(
    path: str,
    schema: RecordSchema,
    skip_bad: bool,
    *,
    cache: pathlib.Path,
    writes: bool = True,
) -> RecordIndex:
    """The index of a file's records, from the cache if the file has not changed.

    writes: whether to keep a new index in the cache.

    Raises UserError with file and byte for the first bad record, except those that
    `skip_bad` leaves out (see `tfrecord.scan`).
    """
    text_files.check_file(path)
    status = os.stat(path)
    parts = {
        "path": os.path.abspath(path),
        "changed": [status.st_size, status.st_mtime_ns],
        "form": dataclasses.asdict(schema),
        "skip_bad": skip_bad,
        "version": _VERSION,
    }

    def make() -> tuple[cache_lib.Tensors, dict[str, Any]]:
        frames = tfrecord.scan(path, skip_bad)
        chunks = []
        with open(path, "rb") as file:
            for first in range(0, len(frames.offsets), _CHUNK):
                part = slice(first, first + _CHUNK)
                offsets = frames.offsets[part].tolist()
                sizes = frames.sizes[part].tolist()
                chunks.append(_examine(file, offsets, sizes, schema=schema))
        names = ("lengths", "counts", "follows", "pairs", "hashes")
        columns = [np.concatenate(column) for column in zip(*chunks, strict=True)]
        tensors = dict(zip(names, columns or [np.zeros(0, np.int64)] * 5, strict=True))
        digest = cache_lib.digest(tensors)
        sizes = frames.sizes.astype(np.int32)
        tensors |= {"offsets": frames.offsets, "sizes": sizes}
        return tensors, {"bad": frames.bad, "content": digest}

    name = cache_lib.file_name(f"{pathlib.Path(path).name}-index")
    tensors, notes = cache_lib.cached(cache, name, parts, make=make, writes=writes)
    known: dict[str, Any] = tensors | notes
    return RecordIndex(**{name: known[name] for name in RecordIndex._fields})


def _examine(
    file: BinaryIO, offsets: list[int], sizes: list[int], *, schema: RecordSchema
) -> tuple[np.ndarray, ...]:
    """The lengths, counts, follows, pairs and hashes of these records."""
    records = [
        tfrecord.read(file, offset, size)
        for offset, size in zip(offsets, sizes, strict=True)
    ]
    try:
        columns = parse(records)
    except _NO_EXAMPLE:
        for record, offset in zip(records, offsets, strict=True):
            try:
                parse([record])
            except _NO_EXAMPLE as error:
                why = getattr(error, "message", "not a tf.train.Example")
                why = _NOISE.sub("", why)
                why = why.partition("\n")[0].strip()
                raise UserError(
                    f"{file.name} at byte {offset}: not a pretraining record: {why}"
                ) from None
        raise
    faults = schema.faults(columns)
    for row in np.flatnonzero(faults != ""):
        raise UserError(f"{file.name} at byte {offsets[row]}: {faults[row]}")
    rows = unpadded(columns, not schema.dynamic, follows=False)
    hashes = np.array([zlib.crc32(record) for record in records], np.uint32)
    segments = rows.ragged["segment_ids"]
    sums = np.concatenate([[0], np.cumsum(segments.values)])[segments.offsets]
    flag = np.int8
    return (
        rows.lengths.astype(np.int32),
        rows.target_counts.astype(np.int32),
        (columns[NEXT].lengths > 0).astype(flag),
        (np.diff(sums) > 0).astype(flag),
        hashes,
    )
