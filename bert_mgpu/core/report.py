"""The parts of report.html as plain values, which evaluation/ writes as HTML."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

MOST_IN_MATRIX = 30  # labels; of more, the page lists what is confused most often


class ReportTable(NamedTuple):
    """A table, with a note above it."""

    rows: Sequence[Sequence[object]]  # the first row holds the column names
    # A letter for each column: n for numbers, t for long text, any other for words.
    columns: str = ""
    note: str = ""


class ConfusionMatrix(NamedTuple):
    """Counts by true label (down) and predicted label."""

    counts: Any  # int64 [L, L]: an array; SciPy's sparse one if it need not be shown
    labels: Sequence[str]
    counted: str = "examples"


class ScoreCurves(NamedTuple):
    """Scores by a setting's value, drawn as steps: each holds up to the next value."""

    name: str  # begins the name of the plot's file
    setting: str
    values: np.ndarray  # float64 [N], increasing
    scores: Mapping[str, np.ndarray]  # float64 [N] each
    chosen: float  # the value that the run uses
    lowest: str  # in words, what the first value does: "never answering"


Block = str | ReportTable | ConfusionMatrix | ScoreCurves  # a str is a note


class Mistake(NamedTuple):
    """An example that the model got wrong."""

    number: int  # of the example in its set, from 0
    cells: Iterable[object]  # of its row on the page, after its line number
    truth: Any  # a JSON value
    places: Collection[tuple[int, int]] = ()  # cells of the matrix that count it


class Mistakes(NamedTuple):
    """What a model got wrong in a set."""

    columns: Sequence[str]  # the names of the mistakes' cells
    letters: str  # see `ReportTable.columns`
    order: str  # what puts a mistake first: "the highest loss"
    worst_first: Sequence[Mistake]


class SetReport(NamedTuple):
    """What a task family shows about a labelled set besides its scores."""

    blocks: Sequence[Block]
    mistakes: Mistakes | None = None  # None: they are not listed
