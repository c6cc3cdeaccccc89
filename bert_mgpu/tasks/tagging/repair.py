"""Copies of labelled files, with the repaired tags or spans in place of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from bert_mgpu.core.rows import Example
from bert_mgpu.core.text_files import read_lines
from bert_mgpu.data import json_lines
from bert_mgpu.tasks.files import Columns
from bert_mgpu.tasks.predict_format import encoding_of
from bert_mgpu.tasks.tagging import bio
from bert_mgpu.tasks.tagging.bio import Span

_BLANKS = re.compile("( +)")


def conll(
    path: Any, columns: Columns, examples: Sequence[Example], *, scheme: str | None
) -> Iterator[tuple[int, str]]:
    """Numbered lines of a CoNLL file, with repaired tags; scheme: its own, if known."""
    assert columns.table is not None and columns.label is not None
    column = columns.table.columns[columns.label]
    lines = [*read_lines(path, encoding_of(columns))]
    first = {example.line: example for example in examples}
    if scheme is None:
        word_lines = {
            number + index
            for number, example in first.items()
            for index in range(len(example.words or ()))
        }
        scheme = bio.scheme_of(
            _cells(line)[0::2][int(column)]
            for number, line in lines
            if number in word_lines
        )
    written: dict[int, str] = {}
    for number, example in first.items():
        if not example.label.repaired:
            continue  # a sound row stays as it is written, whatever the notation
        starts, ends = (
            {place[side]: index for index, place in enumerate(example.words or ())}
            for side in (0, 1)
        )
        spans = [
            Span(starts[s], ends[e] + 1, kind) for s, e, kind in example.label.spans
        ]
        own = bio.write_tags(spans, len(example.words or ()), scheme)
        written |= {number + index: tag for index, tag in enumerate(own)}
    for number, line in lines:
        if number in written:
            cells = _cells(line)
            at = range(0, len(cells), 2)[int(column)]
            cells[at] = written[number]
            line = "".join(cells)
        yield number, line


def json_objects(
    path: Any, columns: Columns, examples: Sequence[Example]
) -> Iterator[tuple[int, str]]:
    """Numbered lines of a JSON file; objects with repaired spans take one each."""
    assert columns.table is not None and columns.label is not None
    key = columns.table.columns[columns.label]
    first = {example.line: example for example in examples}
    lines = [*read_lines(path, encoding_of(columns))]
    written: dict[int, tuple[str, int]] = {}  # first line -> the text, the last line
    for number, text in json_lines.objects(iter(lines)):
        if (example := first.get(number)) and example.label.repaired:
            record = json.loads(text)
            record[key] = [list(span) for span in example.label.spans]
            last = number + text.count("\n")
            written[number] = json.dumps(record, ensure_ascii=False), last
    until = 0
    for number, line in lines:
        if number in written:
            text, until = written[number]
            last_line = lines[until - 1][1]  # lines are numbered from 1
            yield number, text + last_line[len(last_line.rstrip(json_lines.BEHIND)) :]
        elif number > until:
            yield number, line


def _cells(line: str) -> list[str]:
    """The cells of a line, at even indices, and their separators, at odd ones."""
    if "\t" not in line:
        return _BLANKS.split(line.rstrip(" "))
    parts = line.split("\t")
    return [part for cell in parts for part in (cell, "\t")][:-1]
