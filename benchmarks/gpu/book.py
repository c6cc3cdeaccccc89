"""What has been measured, and what is worth starting in the time that is left.

A book is a JSON file: {"head": facts of the machine, "rows": {name: record}}. It is
written whole after each row, so that a stop at any moment loses one row at most.
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
    """A question to the card."""

    name: str
    question: str
    work: str  # "module:function" of this package
    seconds: float  # that it takes on a large card, starting and compiling included
    options: Mapping[str, Any] = {}  # of the function
    wanted: str = ""  # in words; the function judges
    cards: int = 1
    needs: Sequence[str] = ()  # packages
    like: str = ""  # a row that shares its code: in a dry run that one is enough

    @property
    def limit(self) -> float:
        """Seconds after which it hangs: three times as long, as a small card may."""
        return 3 * self.seconds + 60


class Book:
    """The records of one machine's rows, in a file."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        there = json.loads(path.read_text()) if path.exists() else {}
        self.head: Record = there.get("head", {})
        self.rows: dict[str, Record] = there.get("rows", {})

    def other_machine(self, head: Record) -> str | None:
        """What differs from the machine of the rows that are there."""
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
        """None: the row is missing."""
        return self.rows.get(row.name, {}).get("status")

    def open(self, rows: Sequence[Row]) -> list[Row]:
        """What is to be done: what is missing, and then what failed.

        In order of worth. A row that hangs would else take the time of all behind it,
        again in every run.
        """
        left = [row for row in rows if self.status(row) in (None, NOT_RUN)]
        return left + [row for row in rows if self.status(row) == FAILED]


def next_row(rows: Sequence[Row], seconds: float) -> Row | None:
    """The first that is done in so many seconds."""
    return next((row for row in rows if row.seconds <= seconds), None)
