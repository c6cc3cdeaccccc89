"""The evaluations that a run did while it trained, as its files have them."""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.training import recorder

MAIN = "dev"  # the set by which the best weights are chosen


class Evaluation(NamedTuple):
    """A score of the set MAIN."""

    step: int
    value: float


def read(output_dir: pathlib.Path) -> list[dict[str, Any]]:
    """The evaluations of a run in order, one for each step and set."""
    records = recorder.read_records(output_dir / run_files.EVALUATIONS)
    return [record for record in records if "set" in record]


def of_main(output_dir: pathlib.Path, metric: str) -> list[Evaluation]:
    """The scores of MAIN by a metric, in order, without those that are not defined."""
    return [
        Evaluation(row["step"], row[metric])
        for row in read(output_dir)
        if row["set"] == MAIN and row.get(metric) is not None
    ]


def best_of_main(
    output_dir: pathlib.Path, metric: str, *, lower_is_better: bool
) -> Evaluation | None:
    """The best score of MAIN by a metric; None if a run has none.

    That is the one of best/, if it was chosen by this metric: evaluations.jsonl may
    lack it after a rollback, and may hold scores of an earlier dev set.
    """
    known = of_main(output_dir, metric)
    if not known:
        return None
    try:
        kept = files.read_json(output_dir / run_files.BEST / run_files.BEST_EVALUATION)
        if kept["metric"] == metric:
            return Evaluation(int(kept["step"]), float(kept["value"]))
    except (UserError, ValueError, KeyError, TypeError, OverflowError):
        pass  # none, or not ours
    choose = min if lower_is_better else max
    return choose(known, key=lambda one: one.value)
