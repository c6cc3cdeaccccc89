"""What has been measured, and what to start in the time that is left.

A book is a JSON file: {"head": facts of the machine, "rows": {name: record}}. It is
rewritten after each row, so that a stop at any moment loses at most one row.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

DONE, FAILED, NOT_RUN = "done", "failed", "not run"
Record = dict[str, Any]


class Row(NamedTuple):
    """A question about the card, and the function that answers it."""

    name: str
    question: str
    work: str  # "module:function" of this package
    seconds: float  # its time on a large card, including start-up and compilation
    options: Mapping[str, Any] = {}  # keyword arguments of the function
    wanted: str = ""  # in words; the function decides whether it is met
    cards: int = 1
    needs: Sequence[str] = ()  # packages
    like: str = ""  # a row with the same code: a dry run tries only that one

    @property
    def limit(self) -> float:
        """Seconds after which the row counts as hanging; a small card may be slow."""
        return 3 * self.seconds + 60


class Book:
    """The records of one machine's rows, in a file."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        there = json.loads(path.read_text()) if path.exists() else {}
        self.head: Record = there.get("head", {})
        self.rows: dict[str, Record] = there.get("rows", {})

    def other_machine(self, head: Record) -> str | None:
        """What differs from the machine that measured the rows in the book."""
        for name in ("dry run", "card", "tensorflow") if self.rows else ():
            before, now = self.head.get(name), head.get(name)
            if before != now:
                return f"{name}: {before}, now {now}"
        return None

    def add(self, row: Row, record: Record) -> None:
        date = time.strftime("%Y-%m-%d %H:%M")
        told = {"question": row.question, "wanted": row.wanted, "date": date}
        self.rows[row.name] = told | record
        self.write()

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f"{self.path.name}.tmp")
        whole = {"head": self.head, "rows": self.rows}
        temporary.write_text(json.dumps(whole, indent=1) + "\n")
        temporary.replace(self.path)

    def status(self, row: Row) -> str | None:
        """The status of a row; None if it is missing."""
        return self.rows.get(row.name, {}).get("status")

    def open(self, rows: Sequence[Row]) -> list[Row]:
        """The rows to measure: those that are missing, then those that failed.

        Each in the given order. Failed rows come last because one that hangs would
        otherwise take the time of all rows after it, in every run.
        """
        left = [row for row in rows if self.status(row) in (None, NOT_RUN)]
        return left + [row for row in rows if self.status(row) == FAILED]


def next_row(rows: Sequence[Row], seconds: float) -> Row | None:
    """The first row that takes at most `seconds`."""
    return next((row for row in rows if row.seconds <= seconds), None)
