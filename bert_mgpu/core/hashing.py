"""Hashes of files, of JSON values and of code."""

from __future__ import annotations

import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from bert_mgpu.core.errors import UserError

_PACKAGE = pathlib.Path(__file__).parents[1]


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


def check_unchanged(path: str | pathlib.Path, known: str) -> None:
    """Raises UserError unless a file's `file_hash` is the known one."""
    if file_hash(path) != known:
        raise UserError(
            f"{path}: changed while it was read: run the same command again"
        )


def fingerprint(parts: Mapping[str, Any]) -> str:
    """A short hash of JSON values."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def text_key(*texts: str | None) -> int:
    """A 64-bit hash of texts, regardless of leading and trailing whitespace."""
    text = json.dumps([(text or "").strip() for text in texts])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def hash_of_code(*parts: str) -> str:
    """A hash of the code of modules and packages in bert_mgpu: "core.rows", "data"."""
    files: list[pathlib.Path] = []
    for part in parts:
        path = _PACKAGE.joinpath(*part.split("."))
        files += (
            sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
        )
    return fingerprint({"code": [file_hash(file) for file in files]})
