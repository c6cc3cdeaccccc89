"""A model's prediction for a text, and lists of them, as notebooks show them."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

SHOWN, _LONGEST = 20, 80  # predictions of a list, characters of a text, in tables


class Prediction:
    """A prediction for one text or pair; its attributes depend on the type of task.

    `str(prediction)` is the answer alone; `record` is its entry in predictions.jsonl.
    """

    label: str  # of tasks with one label per row
    probability: float  # of that label, 0 to 1
    labels: list[str]  # of tasks with several labels: the predicted ones
    probabilities: dict[str, float]  # of every label
    value: float  # of regression tasks

    def __init__(
        self,
        fields: Mapping[str, Any],
        record: Mapping[str, Any],
        *,
        answer: str,
        texts: tuple[str, str | None],
    ):
        """fields: the attributes; answer: as shown to people; texts: the input."""
        self.__dict__.update(fields)
        self.record = {**record}
        self._fields, self._answer, self._texts = (*fields,), answer, texts

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"a prediction of this model has no {name!r}; it has"
            f" {', '.join(self._fields)}"
        )

    def __repr__(self) -> str:
        values = (f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"Prediction({', '.join(values)})"

    def __str__(self) -> str:
        return self._answer

    def _repr_html_(self) -> str:
        return PredictionList([self])._repr_html_()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prediction) and self.record == other.record

    __hash__ = None  # type: ignore[assignment]  # its dicts may change


class PredictionList(list[Prediction]):
    """The predictions of several texts, in their order."""

    def _repr_html_(self) -> str:
        """A table of the first predictions, for notebooks."""
        rows = [
            "<tr><td style='text-align:left'>"
            f"{html.escape(_shortened(prediction._texts))}</td>"
            f"<td>{html.escape(str(prediction))}</td>"
            f"<td>{_share(prediction)}</td></tr>"
            for prediction in self[:SHOWN]
        ]
        more = len(self) - len(rows)
        note = f"<p>and {more} more</p>" if more > 0 else ""
        head = "<tr><th>text</th><th>prediction</th><th>probability</th></tr>"
        return f"<table>{head}{''.join(rows)}</table>{note}"


def _shortened(texts: tuple[str, str | None]) -> str:
    text = "  |  ".join(part for part in texts if part is not None)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _share(prediction: Prediction) -> str:
    share = vars(prediction).get("probability")
    return "" if share is None else f"{share:.1%}"
