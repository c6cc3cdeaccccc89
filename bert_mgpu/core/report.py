"""The parts of report.html as plain values, which evaluation/ writes as HTML."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


class ReportTable(NamedTuple):
    """A table, below a note."""

    rows: Sequence[Sequence[object]]  # the first holds the names of the columns
    # A letter a column: n for numbers, t for long text; the others hold words.
    columns: str = ""
    note: str = ""


class ConfusionMatrix(NamedTuple):
    """Counts by true label (down) and predicted label."""

    counts: np.ndarray  # int64 [L, L]
    labels: Sequence[str]
    counted: str = "examples"


class ScoreCurves(NamedTuple):
    """Scores over a setting, drawn as a plot; each holds up to the next value."""

    name: str  # of the plot's file
    setting: str
    values: np.ndarray  # float64 [N], increasing
    scores: Mapping[str, np.ndarray]  # float64 [N] each
    chosen: float  # the value that the run has
    lowest: str  # what the first value, below all that matter, stands for


Block = str | ReportTable | ConfusionMatrix | ScoreCurves  # a text is a note


class Mistake(NamedTuple):
    """An example that the model got wrong."""

    number: int  # in its set
    cells: Sequence[object]  # of its row on the page, behind its line in the file
    truth: Any  # as JSON
    places: Collection[tuple[int, int]] = ()  # of the matrix, that count it


class Mistakes(NamedTuple):
    """What a model got wrong of a set."""

    columns: Sequence[str]  # the names of the cells
    letters: str  # see `ReportTable.columns`
    order: str  # what the first ones have: "the highest loss"
    worst_first: Sequence[Mistake]


class SetReport(NamedTuple):
    """What a family shows of a labelled set beside its scores."""

    blocks: Sequence[Block]
    mistakes: Mistakes | None = None  # None: nothing is said of them
