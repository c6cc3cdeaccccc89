"""Sections of report.html as plain values, which evaluation/report.py draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np


class ReportTable(NamedTuple):
    """A table, below a note."""

    rows: Sequence[Sequence[object]]  # the first holds the names of the columns
    # A letter a column: n for numbers, t for long text; the others hold words.
    columns: str = ""
    note: str = ""


class ConfusionMatrix(NamedTuple):
    """Counts by true label (down) and predicted label, drawn as a plot."""

    counts: np.ndarray  # int64 [L, L]
    labels: Sequence[str]
    name: str  # of the plot's file
    counted: str = "examples"


class ScoreCurves(NamedTuple):
    """Scores over a setting, drawn as a plot; each holds up to the next value."""

    name: str  # of the plot's file
    setting: str
    values: np.ndarray  # float64 [N], increasing
    scores: Mapping[str, np.ndarray]  # float64 [N] each
    chosen: float  # the value that the run has
    lowest: str  # what the first value, below all that matter, stands for


Block = str | ReportTable | ConfusionMatrix | ScoreCurves


class ReportSection(NamedTuple):
    """A heading and its blocks; a text is a note."""

    title: str
    blocks: Sequence[Block]
