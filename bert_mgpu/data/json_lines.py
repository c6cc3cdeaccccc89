"""The JSON objects of a file, one on each line, or pretty-printed over several."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator
from typing import Any

from bert_mgpu.core.errors import shortened
from bert_mgpu.core.text_files import Lines

_MOST_LINES = 100_000  # of an object
_BEHIND = " \t,"  # an object of a list
_SURROGATES = re.compile("[\ud800-\udfff]")  # json.loads joins those of a pair


def has_surrogate(text: str) -> bool:
    """Whether it holds half a character, which no file of UTF-8 can."""
    return not text.isascii() and _SURROGATES.search(text) is not None


def objects(lines: Lines) -> Iterator[tuple[int, str]]:
    """Pairs (first line, text) of the objects; a blank line is one, too.

    One that is pretty-printed begins with a line that has its brace alone, and ends
    with the next line that has the closing one at the same indent. So such objects may
    stand one after the other, or in a list whose brackets have lines of their own.
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
                yield number, line.rstrip(_BEHIND) if in_list else line
            continue
        parts.append(line)
        if line.rstrip(_BEHIND) == f"{indent}}}" or len(parts) >= _MOST_LINES:
            yield first, "\n".join(parts).rstrip(_BEHIND)
            parts = []
    if parts:
        yield first, "\n".join(parts)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without repeated keys, of which `json` would take the last one."""
    record = dict(pairs)
    if len(record) < len(pairs):
        counts = collections.Counter(key for key, _ in pairs)
        key = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {shortened(key)!r} appears {counts[key]} times")
    return record
