"""gpu.md: a book as one table for people to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.gpu.book import DONE, Book, Row

_COLUMNS = ("row", "question", "measured", "wanted", "met", "seconds")
_FACTS = (
    *("driver_version", "memory.total", "power.limit", "compute capability"),
    *("tensorflow", "cuda", "cudnn", "python", "cpu cores"),
)
_VERDICTS = {True: "yes", False: "**no**", None: ""}


def _line(cells: Sequence[str]) -> str:
    safe = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(safe)} |"


def measured(record: dict[str, Any] | None) -> str:
    """The result of a row, in a few words."""
    if record is None:
        return "-"
    if record["status"] == DONE:
        return record["told"]
    return f"{record['status']}: {record['reason']}"


def cells(row: Row, record: dict[str, Any] | None) -> list[str]:
    there = record or {}
    took = there.get("seconds")
    return [
        *(row.name, row.question, measured(record), row.wanted),
        _VERDICTS[there.get("met")],
        "" if took is None else f"{took:.0f}",
    ]


def place(head: dict[str, Any]) -> str:
    """The machine, in one paragraph."""
    count, card = head.get("cards", 0), head.get("card", "no card")
    words = [f"{count} x {card}"]
    words += ["a dry run on logical CPU devices"] * bool(head.get("dry run"))
    words += [f"{name} {head[name]}" for name in _FACTS if head.get(name)]
    return ", ".join(words)


def markdown(book: Book, rows: Sequence[Row]) -> str:
    table = [_line(_COLUMNS), _line(["---"] * len(_COLUMNS))]
    table += [_line(cells(row, book.rows.get(row.name))) for row in rows]
    return "\n".join([f"Measured on: {place(book.head)}.", "", *table, ""])
