"""Tables that say how each parameter is treated, by patterns over its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

Value = TypeVar("Value")
Rules = Sequence[tuple[str, Value]]

# google-research/bert, optimization.py: exclude_from_weight_decay.
WEIGHT_DECAY: Rules[float] = (
    (r"LayerNorm|layer_norm|bias", 0.0),
    (r"", 0.01),
)


def resolve(rules: Rules[Value], names: Iterable[str]) -> dict[str, Value]:
    """The value of the first rule whose pattern occurs in the name, by name.

    Raises ValueError for a name that no rule covers: a table must be complete.
    """
    compiled = [(re.compile(pattern), value) for pattern, value in rules]
    values = {}
    for name in names:
        for pattern, value in compiled:
            if pattern.search(name):
                values[name] = value
                break
        else:
            raise ValueError(f"no rule covers the parameter {name}")
    return values
