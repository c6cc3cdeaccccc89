"""The features of the family's rows, with the groups in which they are ranked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from bert_mgpu.config.classification import UNKNOWN
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.rows import Example, Features
from bert_mgpu.tasks import data_checks, row_groups
from bert_mgpu.tasks.classification import groups, ranking, rows, slot_words
from bert_mgpu.tasks.classification.problem_types import PROBLEM_TYPES
from bert_mgpu.tasks.files import TaskFiles
from bert_mgpu.text.tokenization import Tokenizer

LOST_SLOTS = "lost_slots"  # a note: rows without their slot


def features(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    files: TaskFiles,
    *,
    config: FinetuneConfig,
) -> Features:
    """The features of these examples; see `ranking` for those in groups."""
    found = _without_groups(examples, tokenizer, files, config=config)
    keys = row_groups.keys(files, examples)
    if keys is None:
        return found
    unread, notes = ranking.with_groups(found, keys), found.notes
    if files.has_slots:
        lost = groups.lost_slots(found, examples, tokenizer)
        as_words = config.ad_slot == UNKNOWN
        notes = notes | {LOST_SLOTS: lost, data_checks.SLOTS_AS_WORDS: as_words}
    return dataclasses.replace(found, unread=unread, notes=notes)


def _without_groups(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    files: TaskFiles,
    *,
    config: FinetuneConfig,
) -> Features:
    if groups.by_words(config, files):
        return slot_words.featurise(
            examples,
            tokenizer,
            files.labels,
            max_seq_length=config.max_seq_length,
            how=config.truncation,
            head_tokens=config.head_tokens,
        )
    return rows.featurise(
        examples,
        tokenizer,
        files.labels,
        max_seq_length=config.max_seq_length,
        max_segments=config.max_segments,
        doc_stride=config.doc_stride,
        truncation=config.truncation,
        head_tokens=config.head_tokens,
        problem_type=PROBLEM_TYPES[files.task_type],
        second_ids=groups.second_ids(config, files, tokenizer),
    )
