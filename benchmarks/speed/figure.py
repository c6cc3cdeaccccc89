"""A figure: its contestants, what is compared, and what must be reached."""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks.speed.ratios import Claim

Maker = tuple[str, dict[str, Any]]  # a name in contestants.MAKERS, and its options


class Figure(NamedTuple):
    what: str
    contestants: dict[str, Maker]  # take turns
    rows: dict[str, list[Claim]]  # a row is met if one of its claims holds
    memory: dict[str, Maker] = {}  # contestants whose memory alone is measured
    pooled: bool = False  # see harness.measure_memory
