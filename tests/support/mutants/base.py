"""Faults of core, config, text and cli."""

from __future__ import annotations

from tests.support.mutants.mutant import Mutant

# fmt: off
MUTANTS: list[Mutant] = [
]
# fmt: on
