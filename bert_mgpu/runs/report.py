"""report.html at the end of a run."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from bert_mgpu.core.log import say
from bert_mgpu.data import padding
from bert_mgpu.evaluation import report
from bert_mgpu.runs.run import Job
from bert_mgpu.tasks.classification import naive_bayes
from bert_mgpu.tasks.classification import report as task_report
from bert_mgpu.tasks.classification.dataset import Inputs
from bert_mgpu.tasks.classification.problem_type import Outputs
from bert_mgpu.tasks.classification.task import Classification

_PADDED_STEPS = 50  # that the shares of padding are told from


def write(
    job: Job,
    task: Classification,
    data: Inputs,
    evaluated: Mapping[str, Outputs],
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
    if job.world.group.rank > 0:
        return
    kind = task.kind
    scores = [
        f"{name} {kind.metric} {kind.score(one)[kind.metric]:.4f}"
        for name, one in evaluated.items()
    ]
    sections = []
    for name, one in evaluated.items():
        path = data.path(name)
        read = functools.partial(data.examples, name)
        sections += task_report.sections(kind, name, one, path, read)
    shares = {}
    if "train" in sets:
        train = sets["train"]
        tried = padding.orders_of(job.batching, train)
        shares = padding.shares(tried, train.lengths, job.batching, _PADDED_STEPS)
    facts = report.Facts(
        output_dir=job.output_dir,
        config=job.run,
        title=f"{task.name}: {', '.join(scores) or 'trained'}",
        metric=getattr(job.run, "best_metric", None) or kind.metric,
        floor=naive_bayes.NAME,
        devices=job.devices,
        batch=job.batch_in_words,
        sets=sets,
        padding=shares,
        warnings=warnings,
    )
    report.write(facts, sections)
