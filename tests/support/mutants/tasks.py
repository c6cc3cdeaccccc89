"""Faults of tasks, data and data_prep."""

from __future__ import annotations

from tests.support.mutants.mutant import Mutant

# fmt: off
MUTANTS: list[Mutant] = [
]
# fmt: on
