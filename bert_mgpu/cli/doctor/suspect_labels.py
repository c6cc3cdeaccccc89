"""Labels that are likely wrong: a table and lines for the doctor's report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bert_mgpu.cli.doctor.task_sets import ReadSet
from bert_mgpu.core import intervals, terminal
from bert_mgpu.core.rows import Example
from bert_mgpu.evaluation import html
from bert_mgpu.tasks.base import Family
from bert_mgpu.tasks.data_checks import LabelIssue
from bert_mgpu.tasks.files import TaskFiles

_MOST_SHOWN, _MOST_PLACES = 20, 3
_HEAD = ("place", "label", "predicted", "prob.", "text")
_LETTERS = "wwwnt"  # of `html.table`


class SuspectLabels:
    """The labels of all sets that a quickly trained model doubts."""

    def __init__(self, sets: Sequence[ReadSet], family: Family, files: TaskFiles):
        """Raises UserError if labels of this type cannot be checked."""
        labelled = [read for read in sets if read.labelled]
        self._rows: list[tuple[ReadSet, Example]] = [
            (read, example) for read in labelled for example in read.examples
        ]
        self._all = family.doubts(files, [example for _, example in self._rows])
        known = self._all
        low, _ = intervals.wilson(round(known.right * known.rows), known.rows)
        self.learns = low > known.most_common  # not by luck

    @property
    def found(self) -> list[LabelIssue]:
        """Empty if the model is no better than always giving the most common label."""
        return self._all.found if self.learns else []

    def text(self, columns: int) -> str:
        """What was found, and the most doubtful labels as a table, for a terminal."""
        lines = terminal.wrap(self._said, columns)
        if self.found:
            lines += _aligned([_HEAD, *self.cells(_MOST_SHOWN)], columns)
        if (more := len(self.found) - _MOST_SHOWN) > 0:
            said = f"and {more} more; --html=NAME.html writes a page that has all"
            lines += terminal.wrap(said, columns)
        return "\n".join(lines)

    def page(self) -> str:
        """The same as HTML, with all doubtful labels and nothing cut."""
        note = html.note(self._said)
        if not self.found:
            return note
        return note + html.table([_HEAD, *self.cells(len(self.found))], _LETTERS)

    @property
    def _said(self) -> str:
        known = self._all
        if not known.rows:
            return (
                "cannot check labels: fewer than two labels have"
                f" {known.needed} different texts or more"
            )
        scores = f"{known.right:.1%} of {known.rows} rows"
        if not self.learns:
            ahead = known.right > known.most_common
            verb = "may by luck be better" if ahead else "is no better"
            return (
                f"cannot check labels: a quick model, right on {scores}, {verb} than"
                f" always giving the most common label ({known.most_common:.1%})"
            )
        if not self.found:
            return f"no label looks wrong to a quick model, which is right on {scores}"
        return (
            "labels that look wrong to a quick model trained without the row (right on"
            f" {scores}), the most doubtful first:"
        )

    def cells(self, most: int) -> Iterator[tuple[str, ...]]:
        """Rows of place, label, the model's label and its probability, and the text."""
        for doubt in self.found[:most]:
            read, example = self._rows[doubt.row]
            place = f"{read.path}:{example.line}"
            text = " | ".join(filter(None, (example.text_a, example.text_b)))
            yield place, doubt.label, doubt.suggested, f"{doubt.probability:.2f}", text

    def warnings(self) -> Iterator[str]:
        """One line for each file with doubted labels."""
        places: dict[str, list[str]] = {}
        for doubt in self.found:
            read, example = self._rows[doubt.row]
            places.setdefault(str(read.path), []).append(str(example.line))
        for path, lines in places.items():
            rest = len(lines) - _MOST_PLACES
            more = f" and {rest} more" if rest > 0 else ""
            count = sum(str(read.path) == path for read, _ in self._rows)
            yield (
                f"{path}:{', '.join(lines[:_MOST_PLACES])}{more}: {len(lines)}"
                f" row{'s' * (len(lines) > 1)} ({len(lines) / count:.1%}) whose label"
                " looks wrong to a quick model: read"
                f" {'the first ones' if len(lines) > 1 else 'it'}"
            )


def _aligned(rows: Sequence[Sequence[str]], columns: int) -> list[str]:
    """The rows as lines at most so wide: texts lose their end, other cells their start.

    Similar labels mostly begin alike.
    """
    rows = [[" ".join(cell.split()) for cell in row] for row in rows]
    most = (columns // 4, columns // 5, columns // 5, columns)
    fronts = [
        [terminal.cut_front(cell, n) for cell, n in zip(row[:-1], most, strict=True)]
        for row in rows
    ]
    widths = [max(map(terminal.width, column)) for column in zip(*fronts, strict=True)]
    left = columns - sum(widths) - len(widths)
    return [
        "".join(
            terminal.fit(cell, n) + " " for cell, n in zip(front, widths, strict=True)
        )
        + terminal.fit(row[-1], left).rstrip()
        for front, row in zip(fronts, rows, strict=True)
    ]
