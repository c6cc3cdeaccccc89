"""Signs of print in the texts of a file, written as the vocabulary has them.

Labels, ids and groups stay as they are, since task.json or other files may name them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

from bert_mgpu.data import columns as column_lib
from bert_mgpu.data.columns import Column
from bert_mgpu.tasks.files import Columns

_BLANKS = " \t\r\n"


class PlainSigns:
    """Rewrites rows of a file, and counts those that it changed."""

    def __init__(
        self, plain: Mapping[str, str], columns: Columns, kind: str, *, with_label: bool
    ):
        """plain: signs -> what replaces them; kind: the format of the file."""
        self.changed = 0
        self._plain, self._kind = str.maketrans({**plain}), kind
        table = columns.table
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
        """The rows of a file, each with its line end, from its first line on."""
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
        """The cells of a row with plain signs; None where they have them already."""
        mended = [*cells]
        for column in self._columns:
            if isinstance(column, int) and -len(cells) <= column < len(cells):
                mended[column] = cells[column].translate(self._plain)
        return None if mended == cells else mended

    def _tsv(self, row: str) -> str | None:
        mended = self._cells(row.removesuffix("\n").split("\t"))
        return None if mended is None else "\t".join(mended) + "\n"

    def _csv(self, row: str) -> str | None:
        """Its cells are quoted anew, since a quote may be among the signs."""
        out = io.StringIO()
        for cells in csv.reader(io.StringIO(row, newline="")):
            mended = self._cells(cells)
            if mended is None:
                return None
            csv.writer(out, lineterminator="\n").writerow(mended)
        return out.getvalue()

    def _jsonl(self, row: str) -> str | None:
        """An object, behind and before what else stands in its lines."""
        start = len(row) - len(row.lstrip(_BLANKS))
        try:
            record, end = json.JSONDecoder().raw_decode(row, start)
        except ValueError:  # the bracket of a list
            return None
        if not isinstance(record, dict):
            return None
        mended = record | {
            name: self._value(record[name])
            for name in self._columns
            if isinstance(name, str) and name in record
        }
        if mended == record:
            return None
        return row[:start] + json.dumps(mended, ensure_ascii=False) + row[end:]

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(one) for one in value]
        return value.translate(self._plain) if isinstance(value, str) else value
