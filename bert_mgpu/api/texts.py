"""Checks the texts that Python code passes to a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bert_mgpu.core.errors import UserError, short_repr

# A text, a pair, or a mapping with "text_a" and, for a pair, "text_b".
Text = str | tuple[str, str] | Sequence[str] | Mapping[str, str]


def texts_of(text: Any, number: int) -> tuple[str, str | None]:
    """The one or two texts of an example. Raises UserError for anything else."""
    parts = text
    if isinstance(text, Mapping):
        if not {*text} <= {"text_a", "text_b"} or "text_a" not in text:
            raise UserError(
                f"texts[{number}]: {short_repr(text)}: its keys must be 'text_a' and,"
                " of a pair, 'text_b'"
            )
        parts = [text["text_a"], *([text["text_b"]] if "text_b" in text else [])]
    elif isinstance(text, str):
        parts = [text]
    is_list = isinstance(parts, Sequence) and 1 <= len(parts) <= 2
    if not is_list or not all(isinstance(part, str) for part in parts):
        raise UserError(
            f"texts[{number}]: {short_repr(text)}: pass a string, or a pair of strings"
        )
    try:
        "".join(parts).encode()
    except UnicodeEncodeError:
        raise UserError(
            f"texts[{number}]: an unpaired surrogate (half a character): leave it out"
        ) from None
    return parts[0], parts[1] if len(parts) == 2 else None
