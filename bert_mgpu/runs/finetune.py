"""A fine-tuning run from start to end: train, evaluate, predict, export."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.log import say
from bert_mgpu.distributed.topology import World
from bert_mgpu.runs import (
    export,
    identity,
    init_distributed,
    plan,
    predict_stream,
    report,
    stages,
    train,
)
from bert_mgpu.runs.run import Job
from bert_mgpu.tasks import registry
from bert_mgpu.tasks.base import FinetuningTask
from bert_mgpu.tasks.dataset import TaskDataset
from bert_mgpu.training.towers import Towers


class Finished(NamedTuple):
    """What a run leaves for that of another seed."""

    towers: Towers
    task: FinetuningTask


def finetune(
    config: FinetuneConfig,
    output_dir: pathlib.Path,
    world: World,
    towers: Towers | None = None,
) -> Finished | None:
    """Does what the flags ask for. Raises RunError where that ends early.

    towers: of another seed, to go on with. None: nothing was done but --plan.
    """
    config = identity.as_begun(config, [output_dir], world.group)
    # 1. The model without its weights, the task, its rows.
    model = stages.find_model(config, output_dir)
    files = registry.find(config)
    family = registry.family_of(files)
    for remark in registry.remarks(config, files):
        say(remark)
    files = family.settle(config, files, model, output_dir)
    export.check(config, world.group)
    cache = pathlib.Path(config.cache_dir or output_dir / "cache")
    data = TaskDataset(config, files, family, model, cache, world.group)
    task = family.task(config, model, files, data)
    # 2. The towers, and the weights on them.
    job = Job(config, model, task, data, world, output_dir)
    say(init_distributed.placement(world))
    if config.do_train:
        for warning in data.warnings:
            say(f"  WARNING: {warning}")
    if config.plan:
        plan.show(job)
        return None
    evaluator = stages.evaluator(job, family, task, data) if config.eval_steps else None
    state, towers = train.trained(job, evaluator, config.use_best, towers)
    # 3. What comes of it.
    evaluated = {}
    if config.do_eval:
        for name in data.evaluated:
            title = "" if len(data.evaluated) == 1 else f"{name}: "
            evaluated[name] = stages.evaluate(job, towers, state.step, name, title)
    if config.do_predict and data.streams:
        predict_stream.predict(task, data, towers)
    elif config.do_predict:
        for name in data.predicted:
            stages.predict(job, task, data, towers, name)
    stages.export(job, state.averaged, task.problem_type)
    export.write(job, task, data, state.averaged, towers)
    if config.report and (config.do_train or config.do_eval):
        report.write(job, family, task, data, evaluated)
    return Finished(towers, task)
