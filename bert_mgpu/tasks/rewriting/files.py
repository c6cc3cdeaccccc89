"""The keys of task.json for the type "rewrite"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bert_mgpu.config.rewriting import SLOT_MARKER
from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks.files import MARKER, TaskFiles

TYPE = "rewrite"
TARGET = "target"  # the column of the label, which is a text
MODEL_KEYS = (MARKER,)
KEYS = (TARGET, *MODEL_KEYS)


def marker_of(files: TaskFiles) -> str:
    """What marks the places of a text where something is to be written."""
    return str(files.options.get(MARKER, SLOT_MARKER))


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of task.json, with the column "target" as that of the label."""
    own = dict(values)
    if TARGET in own:
        if own.get("label", own[TARGET]) != own[TARGET]:
            raise UserError(
                f"{TARGET!r} is {own[TARGET]!r}, but 'label' is {own['label']!r}: both"
                " name the column of the rewritten text: leave 'label' out"
            )
        own["label"] = own.pop(TARGET)
    if "label" in own and own["label"] in (own.get("text_a"), own.get("text_b")):
        raise UserError(
            f"{TARGET!r} is the column {own['label']!r}, which is also an input text:"
            " pass the column of the rewritten text"
        )
    return own
