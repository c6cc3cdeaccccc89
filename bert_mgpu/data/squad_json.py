"""The questions of JSON files in the formats of SQuAD and CMRC 2018.

SQuAD has data[i].paragraphs[j], each with a context and qas: id, question, answers and,
from version 2.0 on, is_impossible; transformers' run_qa.py has such questions as
data[i], each with its context. CMRC's own format is a list of contexts (context_text)
with qas (query_id, query_text), whose answers are texts without positions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from bert_mgpu.core.errors import short_repr
from bert_mgpu.data.json_lines import unique_keys

FORMAT = "squad"
COLUMNS = QUESTION, CONTEXT, ANSWERS, ID = ("question", "context", "answers", "id")
IMPOSSIBLE, PLACE = "is_impossible", "place"
LONGEST = 1 << 30  # bytes of a line: such files often have only one
_CONTEXTS, _IDS = (CONTEXT, "context_text"), (ID, "query_id")
_QUESTIONS = (QUESTION, "query_text")
# An id with its key: a number may occur anywhere in a file.
_ANY_ID = re.compile(
    rf'"(?:{"|".join(_IDS)})"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+(?![\w.]))'
)
_NESTED = re.compile(r'"(data|paragraphs|qas)"\s*:')
_SEVERAL = "Extra data"  # json's message if another value follows the first
_MOST_MISSES = 20  # ids that are not found, each searched for in the whole file

# The cells of a question, by COLUMNS: text, context, id ("" if it has none), and as
# answers an object with the file's answers, is_impossible, and the question's place,
# such as data[0].paragraphs[1].qas[2].
Cells = dict[str, Any]


def questions(text: str) -> Iterator[tuple[int, Cells | ValueError]] | None:
    """Pairs (line of the id, cells or fault) of a file's questions, in file order.

    None if the file has another format. Raises ValueError if it has this format but is
    not valid JSON.
    """
    if _NESTED.search(text) is None:
        return None
    try:
        value = json.loads(text, object_pairs_hook=unique_keys)
    except RecursionError:
        raise ValueError("nested too deep") from None
    except json.JSONDecodeError as error:
        if error.msg == _SEVERAL:
            return None
        raise
    if isinstance(value, dict) and "data" not in value:
        return None
    return _with_lines(value, text)


def _with_lines(value: Any, text: str) -> Iterator[tuple[int, Cells | ValueError]]:
    lines, seen = _Lines(text), dict[str, str]()
    for place, found in _walk(value):
        if isinstance(found, ValueError):
            yield lines.current, ValueError(f"{place}: {found}")
            continue
        name = found[ID]
        if name == "":
            yield lines.current, found
            continue
        line = lines.of(name)
        first = seen.setdefault(str(name), place)
        if first != place:
            fault = f"the id {short_repr(name)} is that of {first}, too"
            yield line, ValueError(f"{place}: {fault}")
        else:
            yield line, found


class _Lines:
    """Finds the lines of ids, which are asked for in file order."""

    def __init__(self, text: str):
        self._text, self._at = text, 0
        self._misses = _MOST_MISSES if "\n" not in text else 0
        self.current = 1

    def of(self, name: str | int) -> int:
        """The line of an id; that of the previous id if this one is not found."""
        if self._misses >= _MOST_MISSES:
            return self.current
        for match in _ANY_ID.finditer(self._text, self._at):
            if _is_value(match[1], name):
                self.current += self._text.count("\n", self._at, match.end())
                self._at = match.end()
                return self.current
        self._misses += 1
        return self.current


def _is_value(text: str, wanted: str | int) -> bool:
    """Whether a JSON text or integer is this value."""
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return type(value) is type(wanted) and value == wanted


_Found = Iterator[tuple[str, Cells | ValueError]]  # place, cells or fault


def _walk(value: Any) -> _Found:
    entries, at = (value["data"], "data") if isinstance(value, dict) else (value, "")
    for place, entry in _each(entries, at):
        if isinstance(entry, dict) and "paragraphs" in entry:
            for own, paragraph in _each(entry["paragraphs"], f"{place}.paragraphs"):
                yield from _paragraph(paragraph, own)
        elif isinstance(entry, dict) and {QUESTION, CONTEXT} <= entry.keys():
            yield _question(entry, entry, place)
        else:
            yield from _paragraph(entry, place)


def _each(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yields pairs (place, item) of a list; a ValueError if it is not a list."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield f"{place}[{index}]", item
    else:
        yield place, ValueError(f"{short_repr(value)}, where a list is needed")


def _paragraph(value: Any, place: str) -> _Found:
    try:
        _value(value, _CONTEXTS, str)
    except ValueError as error:
        yield place, error
        return
    for own, item in _each(value.get("qas"), f"{place}.qas"):
        yield _question(item, value, own)


def _question(item: Any, holder: Any, place: str) -> tuple[str, Cells | ValueError]:
    """The place of a question, and its cells with the context from its holder."""
    try:
        cells = {
            QUESTION: _value(item, _QUESTIONS, str),
            CONTEXT: _value(holder, _CONTEXTS, str),
            ID: _value(item, _IDS, (str, int)) if {*_IDS} & item.keys() else "",
        }
    except ValueError as error:
        return place, error
    given = {key: item[key] for key in (ANSWERS, IMPOSSIBLE) if key in item}
    return place, cells | {ANSWERS: given | {PLACE: place}}


def _value(holder: Any, keys: Sequence[str], types: Any) -> Any:
    """The value of the first key present; ValueError if none, or of a wrong type."""
    if isinstance(holder, ValueError):
        raise holder
    if not isinstance(holder, dict):
        raise ValueError(f"{short_repr(holder)}, where an object is needed")
    for key in keys:
        if key in holder:
            value = holder[key]
            if isinstance(value, types) and not isinstance(value, bool):
                return value
            raise ValueError(f"{key!r} is {short_repr(value)}: a text is needed")
    raise ValueError(f"there is no {keys[0]!r}")
