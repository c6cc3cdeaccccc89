"""The parts of a block of text: files with its rows as records, in random order.

A part is a file of runs (`shuffle.py`) and a file of facts beside it. Its name is a
hash of the text and of every setting, so the parts that a killed run has left are
never stale.

Letters: R rows, T tokens of a row, at most P masked tokens of a row.
"""

from __future__ import annotations

import collections
import json
import math
import pathlib
import random
import zipfile
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bert_mgpu.core import hashing
from bert_mgpu.core.rows import Ragged
from bert_mgpu.data import tfrecord
from bert_mgpu.data_prep import instances, shuffle
from bert_mgpu.data_prep.corpus import Block
from bert_mgpu.data_prep.instances import Batch
from bert_mgpu.data_prep.mask_rows import mask_rows
from bert_mgpu.data_prep.tokenized import Preparation, Text, tools
from bert_mgpu.text.masking import Masking

_ROWS = 512  # rows that are made at once
# Bytes of text, times its repeats, that become one part. Each part tokenizes its block
# again: four parts of a 20 MB block take a quarter more processor time than one.
_PART_BYTES = 128 << 20


class Share(NamedTuple):
    """A unit of work for one process: some of the repeats of a block."""

    block: Block
    number: int  # among the shares of this block, from 0
    shares: int

    @property
    def is_last(self) -> bool:
        return self.number == self.shares - 1


def split(block: Block, repeats: int) -> list[Share]:
    """The shares of a block: several if it is large, to keep all processes busy."""
    wanted = math.ceil(block.size * repeats / _PART_BYTES)
    count = min(repeats, max(1, wanted))
    return [Share(block, number, count) for number in range(count)]


class Part(NamedTuple):
    """Facts about a finished part; those of the text are in a block's first part."""

    runs: list[shuffle.ShuffledRun]
    counts: collections.Counter[str]
    longest: int  # characters of the longest line
    malformed: str | None  # file:line of the first malformed line
    line_hashes: np.ndarray  # uint64 [lines]
    document_hashes: np.ndarray  # uint64 [documents]


def _path(preparation: Preparation, share: Share) -> pathlib.Path:
    block = [share.block.number, share.block.digest, *share[1:]]
    name = {"settings": tools(preparation).key, "block": block}
    return preparation.folder / f"{hashing.fingerprint(name)}.rows"


def find(preparation: Preparation, share: Share) -> Part | None:
    """A part, or None if it has not been made or is damaged."""
    path = _path(preparation, share)
    try:
        with np.load(path.with_suffix(".npz"), allow_pickle=False) as file:
            facts = json.loads(str(file["facts"]))
            lines, documents = file["line_hashes"], file["document_hashes"]
        if path.stat().st_size != facts["bytes"]:
            return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    runs = [shuffle.ShuffledRun(path, *run) for run in facts["runs"]]
    counts = collections.Counter(facts["counts"])
    return Part(
        runs,
        counts,
        longest=facts["longest"],
        malformed=facts["malformed"],
        line_hashes=lines,
        document_hashes=documents,
    )


def make(preparation: Preparation, share: Share) -> None:
    """Makes a part, unless it exists.

    Raises:
      UserError: for a fault of the text, with file:line.
    """
    if find(preparation, share):
        return
    path = _path(preparation, share)
    temporary = path.with_suffix(".making")
    text = Text(preparation, share.block)
    if share.number:
        text.clear_counts()
    key = share.block.number, share.number
    rng = np.random.default_rng(np.random.SeedSequence(preparation.seed, spawn_key=key))
    runs = shuffle.write_runs(
        temporary, _frames(preparation, share, text, rng=rng), rng
    )
    temporary.replace(path)
    facts = {
        "runs": runs,
        "bytes": path.stat().st_size,
        "counts": text.counts,
        "longest": text.longest,
        "malformed": text.malformed,
    }
    with open(temporary, "wb") as file:
        np.savez(
            file,
            facts=np.array(json.dumps(facts)),
            line_hashes=np.frombuffer(text.line_hashes, np.uint64),
            document_hashes=np.frombuffer(text.document_hashes, np.uint64),
        )
    temporary.replace(path.with_suffix(".npz"))


def _frames(
    preparation: Preparation, share: Share, text: Text, *, rng: np.random.Generator
) -> Iterator[bytes]:
    """Yields the records of a part, framed as in a file, and counts them."""
    tokenizer, masking = tools(preparation).tokenizer, tools(preparation).masking
    draws = random.Random(f"{preparation.seed} {share.block.number} {share.number}")
    width, documents = preparation.max_seq_length, text.documents
    for _ in range(share.number, preparation.repeats, share.shares):
        plan = instances.plan(
            preparation.objective,
            documents,
            width,
            short_seq_prob=preparation.short_seq_prob,
            rng=draws,
        )
        text.counts["cut"] += plan.cut
        text.counts["lost"] += plan.lost
        if preparation.objective == "infill":
            text.counts["skipped"] += len(documents.documents) - 1 - len(plan.spans)
        for first in range(0, len(plan.spans), _ROWS):
            here = slice(first, first + _ROWS)
            batch = instances.assemble(
                documents,
                plan.spans[here],
                width,
                cls_id=tokenizer.cls_id,
                sep_id=tokenizer.sep_id,
            )
            labels = None if plan.labels is None else plan.labels[here]
            columns = _columns(batch, labels, masking, counts=text.counts, rng=rng)
            yield from map(tfrecord.frame, tfrecord.encode_rows(columns))


def _columns(
    batch: Batch,
    labels: np.ndarray | None,
    masking: Masking | None,
    *,
    counts: collections.Counter[str],
    rng: np.random.Generator,
) -> dict[str, Ragged]:
    """The features of rows: masked and padded like Google's, or the tokens alone."""
    rows, width = batch.input_ids.shape
    kept = np.ones(rows, bool)
    is_token = np.arange(width) < batch.lengths[:, None]  # [R, T]
    if masking:
        ids, positions, masked_ids, weights, kept = mask_rows(masking, batch, rng)
        columns = {
            "input_ids": _fixed(ids[kept]),
            "input_mask": _fixed(is_token[kept].astype(np.int32)),
            "segment_ids": _fixed(batch.segment_ids[kept]),
            "masked_lm_positions": _fixed(positions[kept]),
            "masked_lm_ids": _fixed(masked_ids[kept]),
            "masked_lm_weights": _fixed(weights[kept]),
        }
        counts["masked"] += int(weights.sum())
    else:
        columns = {
            "input_ids": _without_padding(batch.input_ids, is_token),
            "segment_ids": _without_padding(batch.segment_ids, is_token),
        }
        if batch.starts is not None:
            starts = batch.starts.astype(np.int32)
            columns["word_starts"] = _without_padding(starts, is_token)
    if labels is not None:
        columns["next_sentence_labels"] = _fixed(labels[kept, None])
        counts["label_1"] += int(labels[kept].sum())
    counts["rows"] += int(kept.sum())
    counts["places"] += int(batch.lengths[kept].sum())
    counts["skipped"] += int((~kept).sum())
    return columns


def _fixed(values: np.ndarray) -> Ragged:
    """Rows of equal lengths, from [R, n]."""
    rows, width = values.shape
    return Ragged(values.reshape(-1), np.arange(rows + 1) * width)


def _without_padding(values: np.ndarray, is_token: np.ndarray) -> Ragged:
    """Rows without their padding, from [R, T]."""
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(is_token.sum(axis=1), out=offsets[1:])
    return Ragged(values[is_token], offsets)
