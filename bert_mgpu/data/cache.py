"""The feature cache: tokenized rows in one file, named by what made them.

A cache file's name is a fingerprint of the data, the vocabulary, the settings
and the code version, so a file that is found is never stale. It is written under
a temporary name and renamed. Format: safetensors, which maps it into memory.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from bert_mgpu.core import files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.hashing import fingerprint
from bert_mgpu.core.rows import Features, Ragged

Tensors = dict[str, np.ndarray]
_OPTIONAL = ("keys", "owners")  # columns that not all sets have


def file_name(text: str) -> str:
    """What tells a person whose a file of the cache is: never a path, never too long.

    The fingerprint behind it tells files apart.
    """
    return re.sub(r"[^\w.-]", "-", text)[-40:]


def digest(tensors: Mapping[str, np.ndarray]) -> str:
    """safetensors has no checksum: this one finds what a bad disk changed."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        total.update(name.encode())
        total.update(np.ascontiguousarray(tensors[name]).data)
    return total.hexdigest()


def save(path: pathlib.Path, tensors: Tensors, notes: Mapping[str, Any]) -> None:
    """notes: JSON values."""
    metadata = {"notes": json.dumps(notes), "sha256": digest(tensors)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(path) as temporary:
            safetensors.numpy.save_file(tensors, temporary, metadata)
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(
            f"{path}: cannot write the feature cache: {error}; free some space or"
            " pass another --cache_dir"
        ) from None


def load(path: pathlib.Path) -> tuple[Tensors, dict[str, Any]] | None:
    """What a cache file holds; None where it is absent or damaged."""
    if not path.is_file():
        return None
    try:
        with safetensors.safe_open(path, "numpy") as file:
            metadata = file.metadata()
            notes = json.loads(metadata["notes"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
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


def to_tensors(features: Features) -> Tensors:
    """All of them but the notes."""
    tensors = {f"dense/{name}": value for name, value in features.dense.items()}
    tensors["lines"] = features.lines
    for name in _OPTIONAL:
        if (values := getattr(features, name)) is not None:
            tensors[name] = values
    for name, column in features.ragged.items():
        tensors[f"ragged/{name}"] = column.values
        tensors[f"offsets/{name}"] = column.offsets
    return tensors


def from_tensors(tensors: Tensors, notes: dict[str, Any]) -> Features:
    ragged, dense = {}, {}
    for name, value in tensors.items():
        kind, _, column = name.partition("/")
        if kind == "ragged":
            ragged[column] = Ragged(value, tensors[f"offsets/{column}"])
        elif kind == "dense":
            dense[column] = value
    optional: dict[str, Any] = {name: tensors.get(name) for name in _OPTIONAL}
    return Features(ragged, dense, tensors["lines"], notes=notes, **optional)


def cached(
    directory: pathlib.Path,
    name: str,
    parts: Mapping[str, Any],
    *,
    make: Callable[[], tuple[Tensors, dict[str, Any]]],
    writes: bool = True,
) -> tuple[Tensors, dict[str, Any]]:
    """Tensors and notes from the cache, else from `make`.

    `parts` are all that they depend on: data, settings, code. writes: keep them.
    """
    path = directory / f"{name}-{fingerprint(parts)}.safetensors"
    found = load(path)
    if found is None:
        found = make()
        if writes:
            save(path, *found)
    return found


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
