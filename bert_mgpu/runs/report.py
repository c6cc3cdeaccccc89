"""report.html at the end of a run."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from bert_mgpu.core.log import say
from bert_mgpu.data import padding
from bert_mgpu.evaluation import report
from bert_mgpu.runs.run import Run
from bert_mgpu.tasks.base import Family, FinetuningTask
from bert_mgpu.tasks.dataset import TaskDataset

_PADDED_STEPS = 50  # that the shares of padding are told from


def write(
    run: Run,
    family: Family,
    task: FinetuningTask,
    *,
    data: TaskDataset,
    evaluated: Mapping[str, Any],
) -> None:
    """Writes the report in the first process.

    evaluated: what the model says of each set that was evaluated.
    """
    if not report.is_possible():
        say("no report: the package matplotlib is not installed")
        return
    # All processes read, or none.
    sets = {name: data.read(name)[0] for name in data.needed}
    warnings = data.warnings
    if run.topology.group.rank > 0:
        return
    metric = task.metric
    scores = [
        f"{name} {metric} {task.scores(one)[metric]:.4f}"
        for name, one in evaluated.items()
    ]
    sections = []
    for name, one in evaluated.items():
        path = data.path(name)
        read = functools.partial(data.examples, name)
        sections += task.sections(name, one, path, examples=read)
    shares = {}
    if "train" in sets:
        train = sets["train"]
        tried = padding.training_orders(run.batching, train)
        shares = padding.shares(tried, train.lengths, run.batching, steps=_PADDED_STEPS)
    facts = report.ReportFacts(
        output_dir=run.output_dir,
        config=run.config,
        title=f"{task.name}: {', '.join(scores) or 'trained'}",
        metric=getattr(run.config, "best_metric", None) or metric,
        shown=task.shown,
        floor=family.floor,
        devices=run.devices,
        batch=run.batch_in_words,
        sets=sets,
        padding=shares,
        warnings=warnings,
    )
    report.write(facts, sections)
