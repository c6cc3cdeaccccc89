"""Texts as rows [CLS] a [SEP] or [CLS] a [SEP] b [SEP], with token types 0 and 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rows import Ragged
from bert_mgpu.text import truncation as truncation_lib
from bert_mgpu.text.segments import Segments
from bert_mgpu.text.tokenization import Tokenizer

Pair = tuple[str, str | None]  # a text, and the second one of a pair


class PairRows(NamedTuple):
    """The rows of texts or pairs."""

    columns: dict[str, Ragged]  # input_ids and segment_ids
    lengths: np.ndarray  # int64 [rows], tokens before truncation


def pair_rows(
    pairs: Sequence[Pair],
    tokenizer: Tokenizer,
    segments: Segments,
    *,
    truncation: str = "head",
    head_tokens: int = 0,
    second_ids: Callable[[Sequence[str]], Ragged] | None = None,
) -> PairRows:
    """The rows of texts and pairs; a second text of None or without tokens is left out.

    The latter is as in Google's code. segments: those of a single text; a pair has one.
    truncation, head_tokens: see `truncation.fit_row`. second_ids: gives the ids of the
    second texts, instead of the tokenizer.
    """
    texts_a = tokenizer.batch_ids([text for text, _ in pairs])
    read_second = second_ids or tokenizer.batch_ids
    texts_b = read_second([text or "" for _, text in pairs])
    rows, types, lengths = [], [], []
    for index in range(len(pairs)):
        a, b = texts_a.row(index).tolist(), texts_b.row(index).tolist()
        lengths.append(len(a) + len(b) + (3 if b else 2))  # with [CLS] and [SEP]
        a, b = truncation_lib.fit_row(
            a, b, segments.longest, how=truncation, head_tokens=head_tokens
        )
        row = segments.row(a, tokenizer.cls_id, tokenizer.sep_id)
        second = [*b, tokenizer.sep_id] if b else []
        rows.append(row + second)
        types.append([0] * len(row) + [1] * len(second))
    columns = {
        "input_ids": Ragged.from_rows(rows),
        "segment_ids": Ragged.from_rows(types),
    }
    return PairRows(columns, np.array(lengths, np.int64))
