"""report.html at the end of a run."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from bert_mgpu.core.log import say
from bert_mgpu.data import batching, pipeline
from bert_mgpu.evaluation import report
from bert_mgpu.runs.run import FinetuningRun

_PADDED_STEPS = 50  # from which the fractions of padding are computed


def write(
    run: FinetuningRun, scored: Mapping[str, Any], doubts: Sequence[str] = ()
) -> None:
    """Writes the report of a training or an evaluation, in the first process.

    scored: the scored rows of each set that was evaluated; doubts: whether the model
    has learnt anything.
    """
    config, task, data = run.config, run.task, run.data
    if not (config.report and (config.do_train or config.do_eval)):
        return
    if not report.is_possible():
        say("no report: the package matplotlib is not installed")
        return
    # All processes read: it is a collective operation.
    sets = {name: data.read(name)[0] for name in data.needed}
    warnings = data.warnings
    if run.topology.group.rank > 0:
        return
    metric = task.metric
    scores = [
        f"{name} {metric} {task.scores(rows)[metric]:.4f}"
        for name, rows in scored.items()
    ]
    sections = []
    for name, rows in scored.items():
        path = data.path(name)
        read = functools.partial(data.examples, name)
        sections += task.sections(name, rows, path, examples=read)
    fractions = {}
    if "train" in sets:
        train = sets["train"]
        orders = batching.training_orders(run.batching, train)
        fractions = pipeline.padding_fractions(
            orders, train.lengths, run.batching, steps=_PADDED_STEPS
        )
    facts = report.ReportFacts(
        output_dir=run.output_dir,
        config=config,
        title=f"{task.name}: {', '.join(scores) or 'trained'}",
        metric=config.best_metric or metric,
        shown=task.shown,
        baseline_name=data.family.baseline_name,
        devices=run.devices,
        batch=run.batch_in_words,
        sets=sets,
        padding=fractions,
        warnings=warnings,
        doubts=doubts,
    )
    report.write(facts, sections)
