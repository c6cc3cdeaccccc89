"""Whether a model is uncased: from the flag, its folder or the data made for it."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from typing import Any

from bert_mgpu.checkpoints.huggingface_read import do_lower_case
from bert_mgpu.checkpoints.run_folder import folder_of
from bert_mgpu.core.errors import UserError

# Google's published models are recognised by the names of their folders.
_GOOGLE_MODEL = re.compile(
    r"(?:wwm_)?((?:multi_)?cased|uncased|multilingual|chinese)_L-\d+_H-\d+_A-\d+"
)
_CASED = ("cased", "multi_cased")


def check_vocab(flag: bool, given: bool, vocab_file: str) -> None:
    """Raises UserError if a vocabulary's folder has another casing than the flag."""
    folder = pathlib.Path(vocab_file).resolve().parent
    settings = {"do_lower_case": do_lower_case(folder), "origin": str(folder)}
    resolve(
        flag,
        given or settings["do_lower_case"] is not None,
        settings,
        init_checkpoint=str(folder),
        data=None,
    )


def resolve(
    flag: bool,
    given: bool,
    folder_settings: Mapping[str, Any],
    *,
    init_checkpoint: str | None,
    data: Mapping[str, Any] | None,
) -> bool:
    """Whether the model is uncased.

    flag: the value of --do_lower_case; given: whether the command line sets it;
    folder_settings: the settings of the folder that holds the weights; data: see
    `pretrained.find_model`. Raises UserError if the flag or the data contradicts what
    the weights were trained with.
    """
    lower, origin = folder_settings.get("do_lower_case"), folder_settings.get("origin")
    binding = given
    if lower is None and init_checkpoint:
        origin = init_checkpoint
        if match := _GOOGLE_MODEL.fullmatch(folder_of(origin).resolve().name):
            lower = match[1] not in _CASED
            # Google's rule: where text is read, the default counts as given.
            binding = binding or data is None
    data_lower, data_file = (
        (data or {}).get(key) for key in ("do_lower_case", "origin")
    )
    if None not in (data_lower, lower) and data_lower != lower:
        raise UserError(
            f"{data_file}: made with --do_lower_case={str(data_lower).lower()}, but"
            f" {origin} is {'uncased' if lower else 'cased'}: make it again with"
            f" --do_lower_case={str(lower).lower()}"
        )
    if lower is None:
        lower, origin = data_lower, data_file
    if lower is None:
        return flag
    if binding and flag != lower:
        default = "" if given else " (the default)"
        raise UserError(
            f"--do_lower_case={str(flag).lower()}{default}, but"
            f" {origin} is {'uncased' if lower else 'cased'}: pass"
            f" --do_lower_case={str(lower).lower()}"
        )
    return lower
