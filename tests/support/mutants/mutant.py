"""A small fault that some test must notice."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """A text of a file that is replaced, and the tests that must fail then."""

    name: str
    file: str  # below bert_mgpu/
    old: str  # stands there once
    new: str
    tests: str  # below tests/, with pytest's -k behind a blank, if any
