"""Writes report.html at the end of a run."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from bert_mgpu.core.log import say
from bert_mgpu.core.task import Trust
from bert_mgpu.data import batching, pipeline
from bert_mgpu.evaluation import report
from bert_mgpu.evaluation.set_report import EvaluatedSet
from bert_mgpu.evaluation.verdict import ReportFacts
from bert_mgpu.runs import assessment as assessment_lib
from bert_mgpu.runs.run import FinetuningRun

_PADDED_STEPS = 50  # steps from which the fractions of padding are computed


def write(
    run: FinetuningRun, scored: Mapping[str, Any], assessment: assessment_lib.Assessment
) -> None:
    """Writes the report of a training or an evaluation, in the first process.

    scored: the scored rows of each evaluated set; assessment: what was logged about
    them.
    """
    config, task, data = run.config, run.task, run.data
    if not (config.report and (config.do_train or config.do_eval)):
        return
    # All processes read, even if a package is missing: it is a collective operation.
    sets = {name: data.read(name)[0] for name in data.needed}
    warnings = data.warnings
    if run.topology.group.rank > 0:
        return
    if not report.is_possible():
        say("no report: the package matplotlib is not installed")
        return
    evaluated = [
        _evaluated(
            run, name, rows, trust=assessment.trust[name], baseline=assessment.baseline
        )
        for name, rows in scored.items()
    ]
    fractions = {}
    if "train" in sets:
        train = sets["train"]
        orders = batching.training_orders(run.batching, train)
        fractions = pipeline.padding_fractions(
            orders, train.lengths, run.batching, steps=_PADDED_STEPS
        )
    metric = config.best_metric or task.metric
    facts = ReportFacts(
        output_dir=run.output_dir,
        config=config,
        task=task.name,
        metric=metric,
        lower_is_better=task.lower_is_better,
        shown=task.shown,
        baseline_name=data.family.baseline_name,
        model=f"{run.model.bert_config.size_in_words}, {config.length_in_words} tokens",
        devices=run.devices,
        batch=run.batch_in_words,
        sets=sets,
        padding=fractions,
        warnings=warnings,
        doubts=assessment.doubts,
        unevaluated=assessment.instead,
    )
    report.write(facts, evaluated)


def _evaluated(
    run: FinetuningRun,
    name: str,
    scored: Any,
    *,
    trust: Trust,
    baseline: Mapping[str, Mapping[str, float]],
) -> EvaluatedSet:
    read = functools.cache(functools.partial(run.data.examples, name))
    shown = run.task.report(scored, read)
    records = run.task.decide(scored).records
    return EvaluatedSet(
        name,
        run.data.path(name),
        total=len(records),
        examples=read() if shown.mistakes and shown.mistakes.worst_first else [],
        scores=run.task.scores(scored),
        trust=trust,
        baseline=baseline.get(name, {}),
        shown=shown,
        records=records,
    )
