"""The feature cache: tokenized rows in one file, named by what made them.

A cache file's name is a fingerprint of the data, the vocabulary, the settings
and the code version, so a file that is found is never stale. It is written under
a temporary name and renamed. Format: safetensors, which maps it into memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from bert_mgpu.errors import UserError
from bert_mgpu.task import Features, Ragged


def file_hash(path: str | pathlib.Path) -> str:
    """sha256 of a file's bytes. Raises UserError where it cannot be read."""
    try:
        with open(path, "rb") as file:
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
            return digest.hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot read it: {error.strerror}") from None


def fingerprint(parts: Mapping[str, Any]) -> str:
    """A short name of JSON values."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _digest(tensors: Mapping[str, np.ndarray]) -> str:
    """safetensors has no checksum: this one finds what a bad disk changed."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()


def save(path: pathlib.Path, features: Features) -> None:
    tensors = {f"dense/{name}": value for name, value in features.dense.items()}
    tensors["lines"] = features.lines
    for name, column in features.ragged.items():
        tensors[f"ragged/{name}"] = column.values
        tensors[f"offsets/{name}"] = column.offsets
    metadata = {"notes": json.dumps(features.notes), "sha256": _digest(tensors)}
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        safetensors.numpy.save_file(tensors, temporary, metadata)
        temporary.replace(path)
    except (OSError, safetensors.SafetensorError) as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise UserError(
            f"{path}: cannot write the feature cache: {error}; free some space or"
            " pass another --cache_dir"
        ) from None


def load(path: pathlib.Path) -> Features | None:
    """The features in a cache file; None where it is absent or damaged."""
    if not path.exists():
        return None
    try:
        with safetensors.safe_open(path, "numpy") as file:
            metadata = file.metadata()
            notes = json.loads(metadata["notes"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (
        OSError,
        safetensors.SafetensorError,
        ValueError,
        KeyError,
        TypeError,
    ):
        return None
    if _digest(tensors) != metadata["sha256"]:
        return None
    ragged, dense = {}, {}
    for name, value in tensors.items():
        kind, _, column = name.partition("/")
        if kind == "ragged":
            ragged[column] = Ragged(value, tensors[f"offsets/{column}"])
        elif kind == "dense":
            dense[column] = value
    return Features(ragged, dense, tensors["lines"], notes)


def cached(
    directory: pathlib.Path,
    name: str,
    parts: Mapping[str, Any],
    make: Callable[[], Features],
) -> tuple[Features, str]:
    """Features from the cache, else from `make`, and their fingerprint.

    `parts` are all that the features depend on: data, settings, code.
    """
    key = fingerprint(parts)
    path = directory / f"{name}-{key}.safetensors"
    features = load(path)
    if features is None:
        features = make()
        save(path, features)
    return features, key


def length_notes(lengths: np.ndarray, truncated: int) -> dict[str, Any]:
    """How long the rows are, before truncation: what a run says at its start."""
    shares = (50, 90, 95, 99, 100)
    values = np.percentile(lengths, shares).astype(int) if len(lengths) else []
    return {
        "rows": len(lengths),
        "truncated": truncated,
        "length_percentiles": {
            str(share): int(value) for share, value in zip(shares, values, strict=False)
        },
    }
