"""The stages of a run, whatever it trains."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_mgpu.checkpoints import huggingface_write, pretrained
from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.base import RunConfig
from bert_mgpu.core.log import say
from bert_mgpu.distributed.collective import Collective
from bert_mgpu.evaluation import evaluator as evaluations
from bert_mgpu.evaluation import result_files
from bert_mgpu.evaluation.evaluator import Evaluator
from bert_mgpu.evaluation.forward import forward, rows_at_once
from bert_mgpu.runs.run import Run
from bert_mgpu.tasks.base import Family, FinetuningTask
from bert_mgpu.tasks.dataset import TaskDataset
from bert_mgpu.training.towers import Towers

PREDICTED = "predicted"  # the folder of several predicted files


def find_model(
    config: RunConfig, output_dir: pathlib.Path, data: Mapping[str, Any] | None = None
) -> Pretrained:
    """The model without its weights, told in the log. data: see `find_model` there."""
    model = pretrained.find_model(config, output_dir, data)
    for note in pretrained.notes(config, model):
        say(note)
    return model


def check_export(config: RunConfig, group: Collective) -> None:
    """Raises UserError where --export_hf names what is no export; process 0 writes."""
    if config.export_hf and group.rank == 0:
        huggingface_write.check_replaceable(pathlib.Path(config.export_hf))


def evaluate(run: Run, towers: Towers, step: int, *, name: str, title: str = "") -> Any:
    """Writes and tells the scores of a set, `title` before them.

    -> what the task finds in it; None in all processes but the first.
    """
    config = run.config
    rows, _ = run.data.load(name)
    batch = rows_at_once(config, towers)
    outputs = run.task.infer(
        rows, lambda rows: forward(config, rows, batch, towers=towers, what="evaluate")
    )
    if towers.group.rank > 0:
        return None
    run.data.check(name, outputs)
    found = run.task.scored_rows(outputs, rows, lambda: run.data.examples(name))
    scores = run.task.scores(found)
    results = run.task.results(scores, step)
    other = None if name == evaluations.MAIN else name
    result_files.write_evaluation(run.output_dir, results, other)
    first, *rest = run.task.summary(found, scores)
    for text in (f"{title}{first}", *rest):
        say(text)
    return found


def evaluator(
    run: Run, family: Family, task: FinetuningTask, *, data: TaskDataset
) -> Evaluator:
    """What looks at the model on the way, told beside it what the floor reaches."""
    config = data.config
    loaded = {name: data.load(name) for name in data.evaluated}
    sets = {name: rows for name, (rows, _) in loaded.items()}
    known = task.metrics(sets[evaluations.MAIN])
    metric = evaluations.choose_metric(config.best_metric, task.metric, known)
    trained, _ = data.read("train")  # by all processes, as any reading
    if run.topology.group.rank == 0:
        found = family.baseline(trained, sets, task)
        for name, scores in found.items():
            say(f"{family.floor}  {name}: {task.line(scores)}")
        result_files.write_baseline(run.output_dir, found)
    measured = {"set": loaded[evaluations.MAIN][1], "metric": metric}
    measured |= {
        name: getattr(config, name) for name in ("max_eval_examples", "threshold")
    }
    return Evaluator(
        task,
        sets,
        examples=functools.cache(data.examples),
        config=config,
        group=run.topology.group,
        output_dir=run.output_dir,
        metric=metric,
        measured=measured,
    )


def predict(
    run: Run, task: FinetuningTask, data: TaskDataset, *, towers: Towers, name: str
) -> None:
    """Of several files each has a folder of its own."""
    folder = run.output_dir
    if len(data.predicted) > 1:
        folder = folder / PREDICTED / data.path(name).name
    features, _ = data.load(name)
    batch = rows_at_once(run.config, towers, predicting=True)
    outputs = task.infer(
        features,
        lambda rows: forward(run.config, rows, batch, towers=towers, what="predict"),
    )
    if towers.group.rank > 0:
        return
    found = task.scored_rows(outputs, features, lambda: data.examples(name))
    ids = data.ids(name)
    written = result_files.write_predictions(
        folder, task.decide(found), features, ids=ids
    )
    count = len(features.first_rows)
    say(f"predicted {count} rows: {', '.join(written)} in {folder}")


def export(
    run: Run, params: Mapping[str, np.ndarray], problem_type: str | None = None
) -> None:
    """Writes --export_hf in the first process."""
    config, model = run.config, run.model
    if not config.export_hf or run.topology.group.rank > 0:
        return
    huggingface_write.export(
        config.export_hf,
        params,
        model.bert_config,
        vocab_file=model.vocabulary,
        do_lower_case=model.do_lower_case,
        labels=run.task.labels or None,  # a value has none
        problem_type=problem_type,
    )
    say(f"wrote the model to {config.export_hf}, as transformers reads it")
