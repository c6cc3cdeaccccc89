"""Faults of model, training and distributed."""

from __future__ import annotations

from tests.support.mutants.mutant import Mutant

# fmt: off
MUTANTS: list[Mutant] = [
]
# fmt: on
