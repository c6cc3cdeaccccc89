"""Replaces typographic signs in a file's texts by signs that the vocabulary has.

Labels, ids and groups stay as they are, since task.json or other files may name them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bert_mgpu.core.encodings import UTF_8
from bert_mgpu.data import columns as column_lib
from bert_mgpu.data.columns import Column
from bert_mgpu.tasks.files import Columns, split_at_tabs

_BLANKS = " \t\r\n"


class FoundObject(NamedTuple):
    """A JSON object, and its position in a row."""

    record: dict[str, Any]
    start: int
    end: int


def object_in(row: str) -> FoundObject | None:
    """The JSON object at the start of a row; None without one, as for a list's ']'."""
    start = len(row) - len(row.lstrip(_BLANKS))
    try:
        record, end = json.JSONDecoder().raw_decode(row, start)
    except ValueError:
        return None
    return FoundObject(record, start, end) if isinstance(record, dict) else None


class PlainCharacters:
    """Rewrites the rows of a file, and counts the changed ones."""

    def __init__(
        self,
        plain: Mapping[str, str],
        columns: Columns,
        kind: str,
        *,
        with_label: bool,
        stripped: bool = False,
        codec: str = UTF_8,
    ):
        """plain: signs -> what replaces them; kind: the format of the file.

        stripped: whether lines are read without leading whitespace; codec: the file's,
        which may lack characters that are escaped in its JSON.
        """
        self.changed = 0
        self._plain, self._kind = str.maketrans({**plain}), kind
        self._stripped, self._codec = stripped, codec
        table = columns.table
        self._cut = split_at_tabs if table else columns.cells
        numbers = [
            columns.text_a,
            columns.text_b,
            columns.label if with_label else None,
        ]
        own = [number for number in numbers if number is not None]
        self._columns: list[Column | None] = [
            table.columns[number] if table else number for number in own
        ]
        self._has_header = table.form.header if table else columns.header

    def rows(self, rows: Iterator[str]) -> Iterator[str]:
        """Rewrites all rows of a file, its header included, each with its line end."""
        write = {"tsv": self._tsv, "csv": self._csv, "jsonl": self._jsonl}.get(
            self._kind
        )
        if not self._plain or write is None:
            yield from rows
            return
        for number, row in enumerate(rows):
            if number == 0 and self._has_header and self._kind != "jsonl":
                is_csv, line = self._kind == "csv", row.removesuffix("\n")
                cells = next(csv.reader([line])) if is_csv else line.split("\t")
                self._columns = [*column_lib.header_numbers("", cells, self._columns)]
                yield row
                continue
            written = write(row)
            self.changed += written is not None
            yield row if written is None else written

    def _cells(self, cells: list[str]) -> list[str] | None:
        """The cells of a row with plain signs; None if nothing changes."""
        mended = [*cells]
        for column in self._columns:
            if isinstance(column, int) and -len(cells) <= column < len(cells):
                mended[column] = cells[column].translate(self._plain)
        return None if mended == cells else mended

    def _tsv(self, row: str) -> str | None:
        line = row.removesuffix("\n")
        start = len(line) - len(line.lstrip()) if self._stripped else 0
        try:
            cells = self._cut(line[start:])
        except ValueError:  # a blank line
            return None
        if "\t".join(cells) != line[start:]:  # JSON lines of a built-in task
            return self._jsonl(row, texts=cells)
        mended = self._cells(cells)
        return None if mended is None else line[:start] + "\t".join(mended) + "\n"

    def _csv(self, row: str) -> str | None:
        """A row of CSV, quoted anew, since a replacement may be a quotation mark."""
        out = io.StringIO()
        for cells in csv.reader(io.StringIO(row, newline="")):
            mended = self._cells(cells)
            if mended is None:
                return None
            csv.writer(out, lineterminator="\n").writerow(mended)
        return out.getvalue()

    def _jsonl(self, row: str, texts: Sequence[str] = ()) -> str | None:
        """A row with a JSON object; what surrounds the object stays as it is.

        texts: the cells of a row, if its columns are numbers: the object's fields are
        then found by their values.
        """
        found = object_in(row)
        if found is None:
            return None
        record = found.record
        own = [texts[n] for n in self._columns if texts and isinstance(n, int)]
        mended = record | {
            name: self._value(value)
            for name, value in record.items()
            if name in self._columns or value in own
        }
        if mended == record:
            return None
        written = json.dumps(mended, ensure_ascii=False)
        try:
            written.encode(self._codec)
        except UnicodeEncodeError:
            written = json.dumps(mended)
        return row[: found.start] + written + row[found.end :]

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(one) for one in value]
        return value.translate(self._plain) if isinstance(value, str) else value
