"""A fine-tuning run from start to end: train, evaluate, predict, export."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.log import say
from bert_mgpu.distributed.topology import Topology
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
from bert_mgpu.runs.run import Run
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
    topology: Topology,
    *,
    towers: Towers | None = None,
) -> Finished | None:
    """Does what the flags ask for. Raises RunError where that ends early.

    towers: of another seed, to go on with. None: nothing was done but --plan.
    """
    config = identity.with_begun_settings(config, [output_dir], topology.group)
    # 1. The model without its weights, the task, its rows.
    model = stages.find_model(config, output_dir)
    files = registry.find_task_files(config)
    family = registry.family_of(files)
    for remark in registry.remarks(config, files):
        say(remark)
    files = family.resolve_labels(config, files, model, output_dir=output_dir)
    export.check(config, topology.group)
    cache = pathlib.Path(config.cache_dir or output_dir / "cache")
    data = TaskDataset(
        config, files, family, model=model, cache=cache, group=topology.group
    )
    task = family.task(config, model, files, data=data)
    # 2. The towers, and the weights on them.
    run = Run(config, model, task, data=data, topology=topology, output_dir=output_dir)
    say(init_distributed.describe_placement(topology))
    if config.do_train:
        for warning in data.warnings:
            say(f"  WARNING: {warning}")
    if config.plan:
        plan.show(run)
        return None
    evaluator = (
        stages.evaluator(run, family, task, data=data) if config.eval_steps else None
    )
    state, towers = train.train_or_load(run, evaluator, config.use_best, towers=towers)
    # 3. What comes of it.
    evaluated = {}
    if config.do_eval:
        for name in data.evaluated:
            title = "" if len(data.evaluated) == 1 else f"{name}: "
            evaluated[name] = stages.evaluate(
                run, towers, state.step, name=name, title=title
            )
    if config.do_predict and data.streams:
        predict_stream.predict(task, data, towers)
    elif config.do_predict:
        for name in data.predicted:
            stages.predict(run, task, data, towers=towers, name=name)
    stages.export(run, state.averaged, task.huggingface_problem_type)
    export.write(run, task, data, params=state.averaged, towers=towers)
    if config.report and (config.do_train or config.do_eval):
        report.write(run, family, task, data=data, evaluated=evaluated)
    return Finished(towers, task)
