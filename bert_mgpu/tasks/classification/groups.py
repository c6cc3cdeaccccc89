"""The groups in which a task ranks its rows: slots of ads, or values of a column."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bert_mgpu.config.classification import MASKED, UNKNOWN, WORDS
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import POSITIONS, Example, Features, Ragged
from bert_mgpu.data.columns import Column
from bert_mgpu.tasks.files import TaskFiles
from bert_mgpu.text import ad_slots
from bert_mgpu.text.tokenization import Tokenizer

_LABELS = 2  # the second one marks the right rows


def lost_slots(
    features: Features, examples: Sequence[Example], tokenizer: Tokenizer
) -> int:
    """How many rows have no token of their ad's slot, which truncation cut off."""
    texts = {number: ad_slots.before(row.text_b) for number, row in enumerate(examples)}
    found = {number: text for number, text in texts.items() if text is not None}
    if POSITIONS in features.targets:  # of the slots' masks
        masks = features.targets[POSITIONS].lengths
        return sum(int(masks[number]) == 0 for number in found)
    counts = tokenizer.batch_ids([*found.values()]).lengths
    types = features.ragged["segment_ids"]
    kept = [int(types.row(number).sum()) - 1 for number in found]  # without [SEP]
    return int((counts >= np.array(kept, np.int64)).sum())


def by_words(config: FinetuneConfig, files: TaskFiles) -> bool:
    """Whether phrases are ranked by the words that the model expects in their slots."""
    return files.has_slots and config.ad_slot == WORDS


def second_ids(
    config: FinetuneConfig, files: TaskFiles, tokenizer: Tokenizer
) -> Callable[[Sequence[str]], Ragged] | None:
    """The function that tokenizes second texts for `pair_rows`; None: the usual one."""
    if not files.has_slots or config.ad_slot != MASKED:
        return None
    return functools.partial(ad_slots.masked_ids, tokenizer=tokenizer)


def check_flags(config: FinetuneConfig, files: TaskFiles) -> None:
    """Raises UserError if the flags about groups and slots do not fit the task."""
    count = len(files.labels)
    if files.columns.group is not None and count != _LABELS:
        raise UserError(
            f"--group_column={_column(files)}: groups are ranked by the second of two"
            f" labels, and {files.name} has {count}: leave it out, or give the rows two"
        )
    if config.ad_slot == UNKNOWN:
        return
    asked = f"--ad_slot={config.ad_slot}"
    if not files.has_slots and "ad_slot" in config.given:
        raise UserError(
            f"{asked}: {files.name} has no slots, only the task ad has: leave it out"
        )
    words = by_words(config, files)
    graph = "its graph does not look for slots"
    refused = [
        ("export_saved_model", files.has_slots, graph),
        ("export_onnx", words, graph),
        ("export_hf", words, "transformers has no model that ranks by words"),
        ("classifier_dropout", words, "there is no such layer, so it does nothing"),
    ]
    for name, is_refused, why in refused:
        if is_refused and name in config.given and getattr(config, name) is not None:
            raise UserError(f"--{name} with {asked}: {why}: leave one of them out")


def check_rows(files: TaskFiles, path: Any, examples: Sequence[Example]) -> None:
    """Raises UserError if every group of a labelled file has only one row."""
    own = [example.group for example in examples if example.group is not None]
    if 1 < len(own) == len({*own}):
        raise UserError(
            f"{path}: no two rows have the same {_column(files)!r} (--group_column):"
            " pass a column whose value is the same for the rows to rank against each"
            " other"
        )


def _column(files: TaskFiles) -> Column | None:
    table, group = files.columns.table, files.columns.group
    return None if table is None or group is None else table.columns[group]
