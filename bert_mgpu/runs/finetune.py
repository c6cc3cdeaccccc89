"""A fine-tuning run from start to finish: train, evaluate, predict, export."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import run_files
from bert_mgpu.core.log import fact
from bert_mgpu.distributed.topology import Topology
from bert_mgpu.runs import (
    assessment as assessment_lib,
)
from bert_mgpu.runs import (
    export,
    identity,
    mlflow_log,
    plan,
    predict_stream,
    report,
    run_json,
    stages,
    train,
)
from bert_mgpu.runs.run import FinetuningRun
from bert_mgpu.tasks import registry
from bert_mgpu.tasks.base import FinetuningTask
from bert_mgpu.tasks.dataset import TaskDataset
from bert_mgpu.training.towers import Towers


class Finished(NamedTuple):
    """The parts of a run that a run with another seed reuses."""

    towers: Towers
    task: FinetuningTask


def finetune(
    config: FinetuneConfig,
    output_dir: pathlib.Path,
    topology: Topology,
    *,
    towers: Towers | None = None,
) -> Finished | None:
    """Trains, evaluates, predicts and exports as the flags ask; None after --plan.

    towers: of a run with another seed, to be reused. Raises RunError if the run ends
    early.
    """
    config = identity.with_original_random_numbers(config, [output_dir], topology.group)
    # 1. The model without its weights, the data, the task.
    run = prepare(config, output_dir, topology)
    stages.describe(run, run.data.warnings if config.do_train else ())
    if config.plan:
        plan.show(run)
        return None
    with mlflow_log.following(run):
        return _work(run, towers)


def _work(run: FinetuningRun, towers: Towers | None) -> Finished:
    """Does what the flags ask for, after the parts of the run have been prepared."""
    config, data, task = run.config, run.data, run.task
    # 2. The weights: trained by this run, or loaded.
    evaluator = stages.evaluator(run)
    state, towers = train.train_or_load(run, evaluator, config.use_best, towers=towers)
    if run.topology.group.rank == 0:
        if config.do_train:
            run_json.keep_settings(
                config, task.score_settings, data.task, output_dir=run.output_dir
            )
        else:
            run_json.keep_task(data.task, run.output_dir)
    # 3. The uses of the model.
    scored, assessment = {}, assessment_lib.UNASSESSED
    if config.do_eval:
        scored = stages.evaluate(run, towers, state.step, names=data.evaluated)
        trained = train.planned(run) if config.do_train else None
        assessment = assessment_lib.assess(run, scored, trained)
    if config.do_predict and data.streams:
        predict_stream.predict(run, towers)
    elif config.do_predict:
        stages.predict(run, towers)
    if config.predict_text is not None:
        predict_stream.answer(run, towers)
    stages.export(run, state.averaged, task.huggingface_problem_type)
    export.write(run, state.averaged, towers)
    if config.do_train and not config.do_eval:
        planned = train.planned(run)
        assessment = assessment_lib.assess_training(run, planned, evaluator)
    report.write(run, scored, assessment)
    return Finished(towers, task)


def prepare(
    config: FinetuneConfig, output_dir: pathlib.Path, topology: Topology
) -> FinetuningRun:
    """The parts of a run, before its weights are trained or loaded."""
    model = stages.find_model(config, output_dir)
    files = registry.find_task_files(config)
    family = registry.family_of(files, config)
    for remark in registry.remarks(config, files):
        fact("task", remark)
    files = family.resolve_labels(config, files, model, output_dir=output_dir)
    export.check(
        topology.group.rank,
        family.exportable,
        export_saved_model=config.export_saved_model,
        export_tokenizer=config.export_tokenizer,
        export_onnx=config.export_onnx,
        export_hf=config.export_hf,
    )
    cache = stages.cache_folder(config.cache_dir, output_dir)
    data = TaskDataset(
        config, files, family, model=model, cache=cache, group=topology.group
    )
    for split in data.needed:
        run_files.check_input(output_dir, data.path(split))
    data.check_files()
    task = family.task(config, model, files, data=data)
    return FinetuningRun(
        config, model, task, data=data, topology=topology, output_dir=output_dir
    )
