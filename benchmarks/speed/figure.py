"""A figure: who takes turns, what is compared, and what must be reached."""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks.speed.ratios import Claim

Maker = tuple[str, dict[str, Any]]  # of contestants.MAKERS, and its options


class Figure(NamedTuple):
    what: str
    contestants: dict[str, Maker]  # take turns
    rows: dict[str, list[Claim]]  # of a row, one claim has to hold
    memory: dict[str, Maker] = {}  # of these only their memory is measured
    pooled: bool = False  # as runs are, see harness.measure_memory
