"""The sections of report.html on a set of rewritten texts."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from bert_mgpu.core.report import ReportSection, ReportTable
from bert_mgpu.tasks.rewriting import metrics
from bert_mgpu.tasks.rewriting.rewritten import RewrittenSet


def scores(scored: RewrittenSet) -> dict[str, float]:
    sources = [example.text_a for example in scored.examples]
    return metrics.scores(sources, scored.texts, scored.truth)


def sections(
    name: str, scored: RewrittenSet, scores: Mapping[str, Any], *, path: pathlib.Path
) -> list[ReportSection]:
    """The sections of a labelled set."""
    rows = [("score", "value"), *((key, f"{v:.4f}") for key, v in scores.items())]
    return [ReportSection(name, [str(path), ReportTable(rows, "wn")])]
