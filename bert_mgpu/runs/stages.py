"""The stages of a run, whatever it trains."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_mgpu.checkpoints import huggingface_write, pretrained
from bert_mgpu.checkpoints.pretrained import Model
from bert_mgpu.config.base import RunConfig
from bert_mgpu.core.log import say
from bert_mgpu.distributed.collective import Collective
from bert_mgpu.evaluation import evaluator as evaluations
from bert_mgpu.evaluation import result_files
from bert_mgpu.evaluation.evaluator import Evaluator
from bert_mgpu.evaluation.forward import forward, rows_at_once
from bert_mgpu.runs.run import Job
from bert_mgpu.tasks.base import Family, FinetuningTask
from bert_mgpu.tasks.dataset import TaskDataset
from bert_mgpu.training.towers import Towers

PREDICTED = "predicted"  # the folder of several predicted files


def find_model(
    config: RunConfig, output_dir: pathlib.Path, data: Mapping[str, Any] | None = None
) -> Model:
    """The model without its weights, told in the log. data: see `find_model` there."""
    model = pretrained.find_model(config, output_dir, data)
    for note in pretrained.notes(config, model):
        say(note)
    return model


def check_export(config: RunConfig, group: Collective) -> None:
    """Raises UserError where --export_hf names what is no export; process 0 writes."""
    if config.export_hf and group.rank == 0:
        huggingface_write.check_replaceable(pathlib.Path(config.export_hf))


def evaluate(job: Job, towers: Towers, step: int, name: str, title: str = "") -> Any:
    """Writes and tells the scores of a set, `title` before them.

    -> what the task finds in it; None in all processes but the first.
    """
    config = job.run
    rows, _ = job.data.load(name)
    outputs = forward(config, rows, rows_at_once(config, towers), towers, "evaluate")
    if towers.group.rank > 0:
        return None
    job.data.check(name, outputs)
    found = job.task.found(outputs, rows)
    scores = job.task.scores(found)
    results = job.task.results(scores, step)
    other = None if name == evaluations.MAIN else name
    result_files.write_evaluation(job.output_dir, results, other)
    first, *rest = job.task.summary(found, scores)
    for text in (f"{title}{first}", *rest):
        say(text)
    return found


def evaluator(
    job: Job, family: Family, task: FinetuningTask, data: TaskDataset
) -> Evaluator:
    """What looks at the model on the way, told beside it what the floor reaches."""
    config = data.run
    loaded = {name: data.load(name) for name in data.evaluated}
    sets = {name: rows for name, (rows, _) in loaded.items()}
    known = task.metrics(sets[evaluations.MAIN])
    metric = evaluations.chosen(config.best_metric, task.metric, known)
    trained, _ = data.read("train")  # by all processes, as any reading
    if job.world.group.rank == 0:
        found = family.baseline(trained, sets, task)
        for name, scores in found.items():
            say(f"{family.floor}  {name}: {task.line(scores)}")
        result_files.write_baseline(job.output_dir, found)
    measured = {"set": loaded[evaluations.MAIN][1], "metric": metric}
    measured |= {
        name: getattr(config, name) for name in ("max_eval_examples", "threshold")
    }
    return Evaluator(
        task,
        sets,
        config=config,
        group=job.world.group,
        output_dir=job.output_dir,
        metric=metric,
        measured=measured,
    )


def predict(
    job: Job, task: FinetuningTask, data: TaskDataset, towers: Towers, name: str
) -> None:
    """Of several files each has a folder of its own."""
    folder = job.output_dir
    if len(data.predicted) > 1:
        folder = folder / PREDICTED / data.path(name).name
    features, _ = data.load(name)
    batch = rows_at_once(job.run, towers, predicting=True)
    outputs = forward(job.run, features, batch, towers, "predict")
    if towers.group.rank > 0:
        return
    decisions = task.decide(task.found(outputs, features))
    ids = data.ids(name)
    written = result_files.write_predictions(folder, decisions, features.lines, ids)
    say(f"predicted {len(features)} rows: {', '.join(written)} in {folder}")


def export(
    job: Job, params: Mapping[str, np.ndarray], problem_type: str | None = None
) -> None:
    """Writes --export_hf in the first process."""
    config, model = job.run, job.model
    if not config.export_hf or job.world.group.rank > 0:
        return
    huggingface_write.export(
        config.export_hf,
        params,
        model.config,
        model.vocabulary,
        model.do_lower_case,
        job.task.labels or None,  # a value has none
        problem_type,
    )
    say(f"wrote the model to {config.export_hf}, as transformers reads it")
