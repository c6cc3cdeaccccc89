"""The flags that only question answering has: those of Google's run_squad.py."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from bert_mgpu.config.base import FILES, INPUT, MODEL, TEST, FlagTable, flag


class Choice(NamedTuple):
    """How answers to questions are chosen: the flags of the same names."""

    n_best_size: int
    max_answer_length: int
    version_2_with_negative: bool
    null_score_diff_threshold: float


class WindowCut(NamedTuple):
    """How questions and contexts are cut: the flags of the same names.

    The defaults are those of run_squad.py.
    """

    doc_stride: int = 128
    max_query_length: int = 64


CUT = WindowCut()


@dataclasses.dataclass(frozen=True)
class SpanQaFlags(FlagTable):
    """The flags of the task type qa, whose answers are spans of a context."""

    # fmt: off
    version_2_with_negative: bool | None = flag(None, INPUT, "type qa: some questions have no answer in their context, as in SQuAD 2.0 [only where the task says so]", identity=True)
    max_query_length: int = flag(64, MODEL, "type qa: maximum number of tokens of a question; the rest is left out", identity=True, remembered=True, minimum=1)
    max_answer_length: int = flag(30, TEST, "type qa: maximum number of tokens of a predicted answer", kept_with_task=True, minimum=1)
    n_best_size: int = flag(20, TEST, "type qa: answers of each question in nbest_predictions.json; also how many starts and ends are tried in each window", kept_with_task=True, minimum=1, maximum=1000)
    null_score_diff_threshold: float = flag(0.0, TEST, "type qa, with version_2_with_negative: predict no answer where its score exceeds that of the best answer by more than this", kept_with_task=True)
    verbose_logging: bool = flag(False, FILES, "type qa: log every answer that is not at its place, not only the first 20")
    # fmt: on
