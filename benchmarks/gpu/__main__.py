"""Measures a graphics card, row by row, in the time that there is.

    python -m benchmarks.gpu --minutes=N [--out=FILE] [--only=ROW,...] [--dry-run]

Rows come in order of worth and each is written to FILE when it is done, with a table
in FILE.md (its name with .md). A row starts if it is likely to end in time. The same
command goes on: with the rows that are missing, then with those that failed. --only
measures the rows that it names, anew.

--dry-run tries every row with tiny models on logical CPU devices.

Exit codes: 0 nothing failed; 1 a row failed or missed what is wanted; 2 wrong flags, no
card, or FILE holds rows of another machine. Rows that there was no time for, and rows
for cards or packages that are not there, are no failure.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.gpu import absent, process, report
from benchmarks.gpu.book import DONE, FAILED, NOT_RUN, Book, Record, Row, next_row
from benchmarks.gpu.rows import ROWS

OUT = process.ROOT / "benchmarks" / "results" / "gpu.json"
_SPARE = 3  # seconds to write what there is
_FACTS_LIMIT = 180


def lacking(row: Row, head: Record) -> str | None:
    """The reason why a row cannot be run here; None if it can."""
    if row.cards > head["cards"]:
        kind = "logical device" if head["dry run"] else "visible card"
        return f"{head['cards']} {kind}{'s' * (head['cards'] > 1)}"
    if head["dry run"] and row.like:
        return f"as {row.like}, in a dry run"
    if missing := absent.missing(row.needs):
        return f"{' and '.join(missing)} not installed"
    return None


def record_of(row: Row, ended: process.Ended, seconds: float) -> Record:
    """The record of a row whose process has ended."""
    took = {"seconds": round(seconds, 1)}
    answer = ended.answer
    if answer is None or ended.code != 0:
        return {"status": FAILED, "reason": ended.reason} | took
    if "not run" in answer:
        return {"status": NOT_RUN, "reason": answer["not run"]}
    return {"status": DONE} | took | answer


class _Run:
    def __init__(self, book: Book, minutes: float, rows: Sequence[Row]):
        self._book, self._rows = book, rows
        self._ends = time.monotonic() + 60 * minutes - _SPARE

    @property
    def left(self) -> float:
        return self._ends - time.monotonic()

    def look(self) -> str | None:
        """Fills in the book's head; returns the reason if nothing can be measured."""
        limit = min(_FACTS_LIMIT, self.left)
        ended = process.run("machine:facts", {}, limit, session=True)
        head = ended.answer
        if head is None:
            return f"TensorFlow does not start: {ended.reason}"
        if not head["cards"]:
            return "TensorFlow sees no GPU: see nvidia-smi, or pass --dry-run"
        if other := self._book.other_machine(head):
            return f"{self._book.path} is of another machine ({other}): pass --out"
        self._book.head = head
        self._book.write()
        return None

    def work(self) -> None:
        """Measures row after row, as long as one fits in the time left."""
        todo = []
        for row in self._rows:
            if why := lacking(row, self._book.head):
                self._book.add(row, {"status": NOT_RUN, "reason": why})
            else:
                todo.append(row)
        while fits := next_row(todo, self.left):
            todo.remove(fits)
            self._measure(fits)
        if todo:
            names = ", ".join(row.name for row in todo)
            least = min(row.seconds for row in todo) / 60
            _say(
                f"no time for {names}: run the same command again to resume"
                f" ({least:.1f} min)"
            )

    def _measure(self, row: Row) -> None:
        _say(f"{row.name}: {row.question}")
        began = time.monotonic()
        limit = min(row.limit, self.left)
        ended = process.run(row.work, row.options, limit, session=True)
        record = record_of(row, ended, time.monotonic() - began)
        self._book.add(row, record)
        self._write_table()
        verdict = {True: "; met", False: "; MISSED", None: ""}[record.get("met")]
        _say(f"  {report.measured(record)}{verdict} ({record.get('seconds', 0):.0f} s)")

    def _write_table(self) -> None:
        text = report.markdown(self._book, ROWS)
        self._book.path.with_suffix(".md").write_text(text)

    def end(self) -> int:
        """Prints the table and returns the exit code."""
        self._write_table()
        print("\n" + report.markdown(self._book, ROWS))
        there = self._book.rows.values()
        bad = [r for r in there if r["status"] == FAILED or r.get("met") is False]
        return 1 if bad else 0


def _say(text: str) -> None:
    print(text, flush=True)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--minutes", type=float, default=45)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--dry-run", action="store_true")
    # For the processes that this one starts.
    for name in ("work", "options", "answer"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    names = {row.name for row in ROWS}
    asked = given.only.split(",") if given.only else []
    if unknown := [name for name in asked if name not in names]:
        parser.error(
            f"no row {', '.join(unknown)}; there are {', '.join(sorted(names))}"
        )
    given.rows = [row for row in ROWS if row.name in asked]
    if given.dry_run and not given.out:
        parser.error("--dry-run needs an --out: gpu.json is of cards")
    return given


def main(words: Sequence[str] | None = None) -> int:
    given = _arguments(words)
    if given.work:
        options: dict[str, Any] = json.loads(given.options)
        process.serve(given.work, options, pathlib.Path(given.answer))
        return 0
    # A signal that ends this process also ends its rows.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if given.dry_run:
        os.environ[process.DRY] = "1"
    book = Book((given.out or OUT).absolute())
    run = _Run(book, given.minutes, given.rows or book.open(ROWS))
    if why := run.look():
        print(f"error: {why}", file=sys.stderr)
        return 2
    run.work()
    return run.end()


if __name__ == "__main__":
    sys.exit(main())
