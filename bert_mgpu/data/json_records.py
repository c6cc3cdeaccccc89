"""The cells of a JSON object, by the names of its keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from bert_mgpu.data import columns, json_lines, squad_json
from bert_mgpu.data.columns import Column

_ONE_LINE = "write each object on a line of its own"


def cells(
    line: str, names: Sequence[str | None], may_lack: Column | None = None
) -> list[Any] | ValueError:
    """The cells of an object's text; what is wrong if it is none.

    may_lack: a column whose cell is empty if the object lacks it.
    """
    if line.strip(" \t,") in {*"{}[]"}:
        return ValueError(f"not a JSON object: {line.strip()!r}: {_ONE_LINE}")
    try:
        record = json.loads(line, object_pairs_hook=json_lines.unique_keys)
    except (ValueError, RecursionError) as error:
        return ValueError(f"not a JSON object: {error}")
    if not isinstance(record, dict):
        one = f": {_ONE_LINE}" * line.startswith("[")
        return ValueError(f"not a JSON object: {line[:40]!r}{one}")
    for name in names:
        if name is not None and name not in record and name != may_lack:
            why = columns.absent(name, [*record])
            if name == squad_json.ID and squad_json.ANSWERS in names:
                why += ": give each question one of its own, such as its number"
            return ValueError(why)
    return [None if name is None else record.get(name, "") for name in names]
