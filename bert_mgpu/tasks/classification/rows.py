"""Texts and pairs as the rows that a classifier reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bert_mgpu.core import hashing
from bert_mgpu.core.rows import Example, Features, Ragged
from bert_mgpu.data import cache
from bert_mgpu.tasks.classification.problem_type import ProblemType
from bert_mgpu.tasks.classification.problem_types import SINGLE
from bert_mgpu.text.pair_rows import PairRows, pair_rows
from bert_mgpu.text.segments import Segments
from bert_mgpu.text.tokenization import Tokenizer


def featurise(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    labels: Sequence[str],
    *,
    max_seq_length: int,
    truncation: str,
    head_tokens: int,
    max_segments: int = 1,
    doc_stride: int | None = None,
    problem_type: ProblemType = SINGLE,
    second_ids: Callable[[Sequence[str]], Ragged] | None = None,
) -> Features:
    """Rows [CLS] a [SEP] or [CLS] a [SEP] b [SEP], with token types 0 and 1.

    max_segments, doc_stride: for single texts, see `Segments`. second_ids: see
    `pair_rows`.
    """
    segments = Segments(max_seq_length, max_segments, doc_stride)
    no_choice = truncation != "head" or any(each.text_b for each in examples)
    rows = pair_rows(
        [(example.text_a, example.text_b) for example in examples],
        tokenizer,
        segments,
        truncation=truncation,
        head_tokens=head_tokens,
        second_ids=second_ids,
    )
    features = labelled(
        rows, examples, labels, longest=segments.longest, problem_type=problem_type
    )
    if no_choice:  # another --truncation is in use, or of no use
        features.notes["truncation"] = False
    return features


def labelled(
    rows: PairRows,
    examples: Sequence[Example],
    labels: Sequence[str],
    *,
    longest: int,
    problem_type: ProblemType = SINGLE,
) -> Features:
    """The features of these rows, with labels.

    Notes hold the lengths before truncation; longest: of a row that is not cut. Rows
    without a label get label_ids that nothing reads.
    """
    return Features(
        rows.columns,
        {"label_ids": problem_type.encode([each.label for each in examples], labels)},
        np.array([example.line for example in examples], np.int64),
        notes=cache.length_notes(rows.lengths, int((rows.lengths > longest).sum())),
        keys=np.array(
            [hashing.text_key(each.text_a, each.text_b) for each in examples], np.uint64
        ),
    )
