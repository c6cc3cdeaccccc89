"""The JSON objects of a file, one per line or pretty-printed over several lines."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator
from typing import Any

from bert_mgpu.core.errors import shortened
from bert_mgpu.core.text_files import Lines

_MOST_LINES = 100_000  # lines of an object
BEHIND = " \t,"  # what may follow an object in a list
_SURROGATES = re.compile("[\ud800-\udfff]")  # unpaired: json.loads joins pairs


def has_surrogate(text: str) -> bool:
    """Whether a text contains an unpaired surrogate, which UTF-8 cannot encode."""
    return not text.isascii() and _SURROGATES.search(text) is not None


def objects(lines: Lines) -> Iterator[tuple[int, str]]:
    """Yields pairs (first line, text) of the objects; a blank line counts as one.

    A pretty-printed object begins with a line that holds only its opening brace, and
    ends with the next line that has the closing brace at the same indentation. Such
    objects may follow one another, or form a list with its brackets on their own lines.
    """
    first, indent, parts, in_list = 0, "", list[str](), False
    for number, line in lines:
        bare = line.strip()
        if not parts:
            if bare == "{":
                first, indent, parts = number, line[: line.index("{")], [line]
            elif bare in ("[", "]"):
                in_list = bare == "["
            else:
                yield number, line.rstrip(BEHIND) if in_list else line
            continue
        parts.append(line)
        if line.rstrip(BEHIND) == f"{indent}}}" or len(parts) >= _MOST_LINES:
            yield first, "\n".join(parts).rstrip(BEHIND)
            parts = []
    if parts:
        yield first, "\n".join(parts)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; ValueError if a key repeats, where `json` would keep the last."""
    record = dict(pairs)
    if len(record) < len(pairs):
        counts = collections.Counter(key for key, _ in pairs)
        key = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {shortened(key)!r} appears {counts[key]} times")
    return record
