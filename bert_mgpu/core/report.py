"""Sections of report.html as plain values, which evaluation/report.py draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class ReportTable(NamedTuple):
    """A table, below a note."""

    rows: Sequence[Sequence[object]]  # the first holds the names of the columns
    # A letter a column: n for a number, t for long text; columns beyond are words.
    columns: str = ""
    note: str = ""


class ConfusionMatrix(NamedTuple):
    """Rows of each true label (down) and predicted one, as a picture."""

    counts: np.ndarray  # int64 [L, L]
    labels: Sequence[str]
    name: str  # of the picture's file


class ReportSection(NamedTuple):
    """A heading with what stands below it; a text is a note."""

    title: str
    blocks: Sequence[str | ReportTable | ConfusionMatrix]
