"""The flags of `bert_mgpu doctor data`: those of run_classifier_mgpu.py and a few more."""

from __future__ import annotations

import dataclasses

from bert_mgpu.config.base import FILES, INPUT, flag
from bert_mgpu.config.finetuning import FinetuneConfig


@dataclasses.dataclass(frozen=True)
class TaskDataConfig(FinetuneConfig):
    """All settings of `bert_mgpu doctor data`."""

    # fmt: off
    check_labels: bool = flag(False, INPUT, "for tasks with one label per row: cross-validate a quick model in five folds, and list the labels that are likely wrong")
    html: str | None = flag(None, FILES, "also write what is found as a page for a browser, to this file")
    repaired_dir: str | None = flag(None, FILES, "write corrected copies of the labelled files to this new folder: train without repeated rows and without rows that other files also have, plain signs in place of those that the vocabulary lacks, and, for type tags, tags repaired as --repair_bio says")
    # fmt: on
