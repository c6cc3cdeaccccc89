"""The records of predictions.jsonl, each made on demand.

Letters: R rows, L labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class LabelRecords(Sequence[dict[str, Any]]):
    """The chosen label or labels of each row, with the probability of every label.

    With hundreds of labels, the dictionaries of a whole set would take far more memory
    than its probabilities.
    """

    def __init__(
        self, chosen: Sequence[Any], probabilities: np.ndarray, labels: Sequence[str]
    ):
        """chosen: for R rows; probabilities: [R, L]."""
        self._chosen, self._probabilities, self._labels = chosen, probabilities, labels

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, row: Any) -> Any:
        rounded = [round(value, 6) for value in self._probabilities[row].tolist()]
        return {
            "label": self._chosen[row],
            "probabilities": dict(zip(self._labels, rounded, strict=True)),
        }
