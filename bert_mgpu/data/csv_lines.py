"""The lines of a CSV file, as input of `csv.reader`; a row may span several lines."""

from __future__ import annotations

import collections
import csv
from collections.abc import Iterator

from bert_mgpu.core.text_files import Lines

# Characters of a row, which may span lines; bounds a row with an unclosed quote.
LONGEST_ROW = 1 << 24
MOST_RETRIES = 20  # faulty rows of several lines, of which all but the first are reread


class CsvLines:
    """The lines of a CSV file; after a faulty row, its lines can be read again."""

    def __init__(self, lines: Lines, *, spans: bool = True):
        """spans: whether a row may span lines."""
        self._lines = lines
        self._spans = spans
        self._again: collections.deque[tuple[int, str]] = collections.deque()
        self._row: list[tuple[int, str]] = []  # the lines of the row so far
        self._held = 0  # the characters of these lines
        self._retries = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._row and not self._spans:
            raise csv.Error("a quote is not closed on its line")
        line = self._again.popleft() if self._again else next(self._lines)
        self._row.append(line)
        self._held += len(line[1]) + 1
        if self._held > LONGEST_ROW:
            raise csv.Error(f"a row of more than {LONGEST_ROW} characters")
        return f"{line[1]}\n"

    def begin_row(self) -> None:
        self._row, self._held = [], 0

    @property
    def number(self) -> int:
        """The number of the row's first line."""
        return self._row[0][0]

    def retry(self) -> bool:
        """Goes back to the second line of the row; False after too many retries.

        Each retry may read all lines to the end of the file. A row of one line costs
        nothing and does not count.
        """
        self._retries += len(self._row) > 1
        self._again.extendleft(reversed(self._row[1:]))
        return self._retries <= MOST_RETRIES
