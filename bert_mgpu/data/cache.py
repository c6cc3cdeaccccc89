"""The feature cache: tokenized rows in files named by a hash of all their inputs.

The hash covers the data, the vocabulary, the settings and the code, so a file that is
found is never stale. It is written under a temporary name and renamed. Format:
safetensors, which is mapped into memory.
"""

from __future__ import annotations

import hashlib
import json
import math
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from bert_mgpu.core import files, units
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.hashing import fingerprint
from bert_mgpu.core.log import fact
from bert_mgpu.core.rows import Features, Ragged, Spliced

Tensors = dict[str, np.ndarray]
_PART = 1 << 22  # values that are read at once
_LARGE, _BYTES_PER_SECOND = 10_000_000, 2e6  # bytes of a text file; a slow core's speed
_OPTIONAL = ("keys", "owners")  # columns that not all sets have
# The groups of columns with several values per row: their type, its field that locates
# the values of a row, and the name of that field in the file.
_GROUPS = {
    "ragged": (Ragged, "offsets", "offsets"),
    "unread": (Ragged, "offsets", "unread_offsets"),
    "targets": (Ragged, "offsets", "target_offsets"),
    "spliced": (Spliced, "slices", "slices"),
}


def file_name(text: str) -> str:
    """The human-readable part of a cache file's name: short, and without a path.

    The fingerprint that follows it tells the files apart.
    """
    return re.sub(r"[^\w.-]", "-", text)[-40:]


def digest(tensors: Mapping[str, np.ndarray]) -> str:
    """A checksum of tensors that reveals a damaged file: safetensors has none."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        total.update(name.encode())
        total.update(np.ascontiguousarray(tensors[name]).data)
    return total.hexdigest()


def save(path: pathlib.Path, tensors: Tensors, notes: Mapping[str, Any]) -> None:
    """Writes a cache file. notes: JSON values."""
    metadata = {"notes": json.dumps(notes), "sha256": digest(tensors)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(path) as temporary:
            temporary.touch()  # with the default permissions of a new file
            mode = temporary.stat().st_mode
            safetensors.numpy.save_file(tensors, temporary, metadata)
            # safetensors makes the file readable by its owner alone.
            temporary.chmod(mode)
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(
            f"{path}: cannot write the feature cache: {error}; free some space or"
            " pass another --cache_dir"
        ) from None


def load(path: pathlib.Path) -> tuple[Tensors, dict[str, Any]] | None:
    """The tensors and notes of a cache file; None if it is missing or damaged."""
    if not path.is_file():
        return None
    try:
        with safetensors.safe_open(path, "numpy") as file:
            metadata = file.metadata()
            notes = json.loads(metadata["notes"])
            tensors = {name: _tensor(file, name) for name in file.keys()}  # noqa: SIM118
            whole = digest(tensors) == metadata["sha256"]
    except (
        OSError,
        safetensors.SafetensorError,
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ):
        return None
    return (tensors, notes) if whole else None


def _tensor(file: Any, name: str) -> np.ndarray:
    """A tensor of an open file, read in parts.

    While safetensors reads one, no other thread runs: of a slow disk, a large one would
    keep the process silent for so long that the others take it for lost.
    """
    part = file.get_slice(name)
    shape = part.get_shape()
    if not shape or not all(shape):
        return np.asarray(file.get_tensor(name))
    step = max(1, _PART // math.prod(shape[1:]))
    values = np.empty(shape, part[:1].dtype)
    for start in range(0, shape[0], step):
        end = min(start + step, shape[0])  # safetensors refuses a later one
        values[start:end] = part[start:end]
    return values


def to_tensors(features: Features) -> Tensors:
    """The features as tensors: everything except their notes."""
    tensors = {f"dense/{name}": value for name, value in features.dense.items()}
    tensors["lines"] = features.lines
    for name in _OPTIONAL:
        if (values := getattr(features, name)) is not None:
            tensors[name] = values
    for group, (_, field, where) in _GROUPS.items():
        for name, column in getattr(features, group).items():
            tensors[f"{group}/{name}"] = column.values
            tensors[f"{where}/{name}"] = getattr(column, field)
    return tensors


def from_tensors(tensors: Tensors, notes: dict[str, Any]) -> Features:
    columns: dict[str, Any] = {group: {} for group in ("dense", *_GROUPS)}
    for name, value in tensors.items():
        group, _, column = name.partition("/")
        if group in _GROUPS:
            kind, _, where = _GROUPS[group]
            columns[group][column] = kind(value, tensors[f"{where}/{column}"])
        elif group == "dense":
            columns[group][column] = value
    columns |= {name: tensors.get(name) for name in _OPTIONAL}
    return Features(lines=tensors["lines"], notes=notes, **columns)


def cached(
    directory: pathlib.Path,
    name: str,
    parts: Mapping[str, Any],
    *,
    make: Callable[[], tuple[Tensors, dict[str, Any]]],
    writes: bool = True,
    source: pathlib.Path | None = None,
) -> tuple[Tensors, dict[str, Any]]:
    """The tensors and notes from the cache, or else from `make`.

    parts: all that they depend on: data, settings, code. writes: whether to store new
    ones. source: a text file; if it is large, the log says how long it may take.
    """
    path = directory / f"{name}-{fingerprint(parts)}.safetensors"
    if known := load(path):
        return known
    if source and (size := source.stat().st_size) >= _LARGE:
        seconds = units.duration_text(size / _BYTES_PER_SECOND)
        text = f"{source} ({units.size_text(size)}): some {seconds}, the first time"
        fact("tokenizing", text)
    tensors, notes = make()
    if writes:
        save(path, tensors, notes)
    return tensors, notes


def length_notes(lengths: np.ndarray, truncated: int) -> dict[str, Any]:
    """Percentiles of the row lengths before truncation, which a run logs.

    length_quantiles: the percentiles 0, 1, ... 100, which a report plots.
    """
    percents = (50, 90, 95, 99, 100)
    values = np.percentile(lengths, percents).astype(int) if len(lengths) else []
    quantiles = np.percentile(lengths, range(101)).astype(int) if len(lengths) else []
    return {
        "length_quantiles": [*map(int, quantiles)],
        "rows": len(lengths),
        "truncated": truncated,
        "length_percentiles": {
            str(percent): int(value)
            for percent, value in zip(percents, values, strict=False)
        },
    }
