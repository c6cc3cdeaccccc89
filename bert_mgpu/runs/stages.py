"""The stages that all runs have, whatever they train."""

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
from bert_mgpu.evaluation import evaluator, result_files
from bert_mgpu.evaluation.forward import forward, rows_at_once
from bert_mgpu.runs.run import Job
from bert_mgpu.training.towers import Towers


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
    other = None if name == evaluator.MAIN else name
    result_files.write_evaluation(job.output_dir, results, other)
    first, *rest = job.task.summary(found, scores)
    for text in (f"{title}{first}", *rest):
        say(text)
    return found


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
