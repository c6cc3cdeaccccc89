"""Labels that are likely wrong: a table and lines for the doctor's report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bert_mgpu.cli.doctor.task_sets import ReadSet
from bert_mgpu.core import terminal
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.base import Family
from bert_mgpu.tasks.data_checks import LabelIssue
from bert_mgpu.tasks.files import TaskFiles

_MOST_SHOWN, _MOST_PLACES = 20, 3
_WIDTHS = (20, 13, 13, 5)  # terminal columns; the text gets the rest
_HEAD = ("place", "label", "predicted", "prob.", "text")


class SuspectLabels:
    """The labels of all sets that a quickly trained model doubts."""

    def __init__(self, sets: Sequence[ReadSet], family: Family, files: TaskFiles):
        """Raises UserError if labels of this type cannot be checked."""
        labelled = [read for read in sets if read.labelled]
        self._rows: list[tuple[ReadSet, Example]] = [
            (read, example) for read in labelled for example in read.examples
        ]
        self._all = family.doubts(files, [example for _, example in self._rows])
        self._learns = self._all.right > self._all.most_common

    @property
    def found(self) -> list[LabelIssue]:
        """Empty if the model is no better than always giving the most common label."""
        return self._all.found if self._learns else []

    @property
    def lines(self) -> list[str]:
        """A table of the most doubtful labels, 80 columns wide."""
        known = self._all
        scores = f"{known.right:.1%} of {known.rows} rows"
        if not self._learns:
            return terminal.wrap(
                f"cannot check labels: a quick model, right on {scores}, is no better"
                f" than always the most common label ({known.most_common:.1%})"
            )
        if not self.found:
            return terminal.wrap(
                f"no label looks wrong to a quick model, which is right on {scores}"
            )
        head = terminal.wrap(
            "labels that look wrong to a quick model trained without the row (right on"
            f" {scores}), the most doubtful first:"
        )
        return [*head, _line(_HEAD), *map(_line, self.cells(_MOST_SHOWN))]

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
                " looks wrong to a quick model: read the first ones"
            )


def _line(cells: Sequence[str]) -> str:
    place, *others, text = cells
    shown = [terminal.cut_front(place, _WIDTHS[0]), *others]
    pairs = zip(shown, _WIDTHS, strict=True)
    front = " ".join(terminal.fit(" ".join(cell.split()), n) for cell, n in pairs)
    left = terminal.WIDTH - terminal.width(front) - 1
    return f"{front} {terminal.fit(' '.join(text.split()), left)}".rstrip()
