"""Names of rows that have no id: "dev-4" is the row on line 5 of an evaluated file."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from bert_mgpu.core.rows import Example

_PREDICTED = "test"  # as in predictions.jsonl: see `evaluation.result_files`


def named(examples: Sequence[Example], split: str | None = None) -> list[Example]:
    """The examples of a file; those whose guid is "" get a name that no other one has.

    It ends in their line, counted from 0. Where rows share a line, as the questions of
    nested JSON do, it ends in their number among the examples instead.

    split: of a file that is read with its labels; None: it is predicted.
    """
    prefix = _PREDICTED if split is None else split
    given = {str(one.guid) for one in examples}
    if "" not in given:
        return [*examples]
    by_line = len({one.line for one in examples}) == len(examples)
    found = []
    for number, one in enumerate(examples):
        if one.guid == "":
            name = f"{prefix}-{one.line - 1 if by_line else number}"
            while name in given:
                name += "_"
            one = dataclasses.replace(one, guid=name)
        found.append(one)
    return found
