"""A fine-tuning run from start to end: train, evaluate, predict, export."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

from bert_mgpu.checkpoints import huggingface_write, pretrained
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError, listed
from bert_mgpu.core.log import say
from bert_mgpu.distributed.topology import World
from bert_mgpu.evaluation import evaluator as evaluator_lib
from bert_mgpu.evaluation import result_files
from bert_mgpu.evaluation.evaluator import Evaluator
from bert_mgpu.evaluation.forward import forward, rows_at_once
from bert_mgpu.runs import (
    export,
    identity,
    init_distributed,
    plan,
    predict_stream,
    report,
)
from bert_mgpu.runs import train as train_lib
from bert_mgpu.runs.run import Job
from bert_mgpu.tasks.classification import label_weights, naive_bayes, task_json
from bert_mgpu.tasks.classification.dataset import Inputs
from bert_mgpu.tasks.classification.labels import find_labels
from bert_mgpu.tasks.classification.problem_type import Kind, Loss, Outputs
from bert_mgpu.tasks.classification.problem_types import KINDS
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training.towers import Towers

PREDICTED = "predicted"  # the folder of several predicted files


def finetune(
    run: FinetuneConfig,
    output_dir: pathlib.Path,
    world: World,
    towers: Towers | None = None,
) -> Towers | None:
    """Does what the flags ask for. Raises RunError where that ends early.

    towers: of another seed, to go on with; -> those of this run.
    """
    run = identity.as_begun(run, [output_dir], world.group)
    # 1. The model without its weights, the task, its labels.
    model = pretrained.find_model(run, output_dir)
    for note in pretrained.notes(run, model):
        say(note)
    files = task_json.find(run)
    if overlooked := task_json.overlooked(run):
        say(overlooked)
    if run.truncation != "head" and files.columns.text_b is not None:
        say(f"--truncation={run.truncation}: pairs of texts lose their ends even so")
    labels = find_labels(run, files, model, output_dir)
    files = dataclasses.replace(files, labels=tuple(labels))
    kind = KINDS[files.kind]
    if not run.do_train and model.problem_type not in (None, kind.problem_type):
        raise UserError(
            f"--init_checkpoint={run.init_checkpoint} is of the type"
            f" {model.problem_type!r}, the task is {kind.name!r}: pass --task_type"
        )
    say(f"{len(labels)} labels: {listed(labels)}" if labels else f"type: {kind.name}")
    if world.group.rank == 0:  # which alone writes
        export.check(run)
    if run.export_hf and world.group.rank == 0:
        huggingface_write.check_replaceable(pathlib.Path(run.export_hf))
    cache = pathlib.Path(run.cache_dir or output_dir / "cache")
    data = Inputs(run, files, model, cache, world.group)
    task = Classification(
        *(files.name, model.config, labels, run.max_seq_length),
        classifier_dropout=run.classifier_dropout,
        recompute=run.recompute,
        kind=kind,
        loss=_loss(run, kind, labels, data),
        thresholds=label_weights.thresholds(run.threshold, kind, labels),
    )
    # 2. The towers, and the weights on them.
    job = Job(run, model, task, data, world, output_dir)
    say(init_distributed.placement(world))
    if run.do_train:
        for warning in data.warnings:
            say(f"  WARNING: {warning}")
    if run.plan:
        plan.show(job)
        return None
    evaluator = _evaluator(run, job, task, data) if run.eval_steps else None
    state, towers = train_lib.trained(job, evaluator, run.use_best, towers)
    # 3. What comes of it.
    evaluated = {}
    if run.do_eval:
        for name in data.evaluated:
            found = _evaluate(job, task, data, towers, state.step, name)
            if found is not None:
                evaluated[name] = found
    if run.do_predict and data.streams:
        predict_stream.predict(task, data, towers)
    elif run.do_predict:
        for name in data.predicted:
            _predict(job, task, data, towers, name)
    if run.export_hf and world.group.rank == 0:
        huggingface_write.export(
            run.export_hf,
            state.averaged,
            model.config,
            model.vocabulary,
            model.do_lower_case,
            labels or None,  # a value has none
            kind.problem_type,
        )
        say(f"wrote the model to {run.export_hf}, as transformers reads it")
    if run.export_saved_model or run.export_onnx:
        export.write(job, task, data, state.averaged, towers)
    if run.report and (run.do_train or run.do_eval):
        report.write(job, task, data, evaluated)
    return towers


def _loss(run: FinetuneConfig, kind: Kind, labels: list[str], data: Inputs) -> Loss:
    """How the losses of training rows are weighed."""
    balances = run.do_train and run.class_weights == label_weights.BALANCED
    truth = data.read("train")[0].dense["label_ids"] if balances else None
    weights = label_weights.weights(run.class_weights, kind, labels, truth)
    if run.focal_gamma and not kind.has_labels:
        raise UserError(
            f"--focal_gamma={run.focal_gamma:g}: the type {kind.name!r} has no labels"
        )
    if weights is not None:
        pairs = zip(labels, weights, strict=True)
        shown = listed([f"{label} {weight:.4g}" for label, weight in pairs])
        say(f"weights of labels in the loss: {shown}")
    return Loss(weights, run.focal_gamma)


def _evaluator(
    run: FinetuneConfig, job: Job, task: Classification, data: Inputs
) -> Evaluator:
    """What looks at the model on the way, told beside it what naive Bayes reaches."""
    loaded = {name: data.load(name) for name in data.evaluated}
    sets = {name: rows for name, (rows, _) in loaded.items()}
    known = task.metrics(sets[evaluator_lib.MAIN])
    metric = evaluator_lib.chosen(run.best_metric, task.kind.metric, known)
    train, _ = data.read("train")  # by all processes, as any reading
    if job.world.group.rank == 0:
        found = naive_bayes.scores(train, sets, task.labels, task.kind)
        for name, scores in found.items():
            say(f"{naive_bayes.NAME}  {name}: {result_files.evaluation_line(scores)}")
        result_files.write_baseline(job.output_dir, found)
    measured = {"set": loaded[evaluator_lib.MAIN][1], "metric": metric}
    measured |= {
        name: getattr(run, name) for name in ("max_eval_examples", "threshold")
    }
    return Evaluator(
        task,
        sets,
        config=run,
        group=job.world.group,
        output_dir=job.output_dir,
        metric=metric,
        measured=measured,
    )


def _evaluate(
    job: Job, task: Classification, data: Inputs, towers: Towers, step: int, name: str
) -> Outputs | None:
    """Writes the scores of a set; what the model says of its rows, in process 0."""
    run = job.run
    features, _ = data.load(name)
    outputs = forward(run, features, rows_at_once(run, towers), towers, "evaluate")
    if towers.group.rank > 0:
        return None
    found = task.found(outputs, features)
    scores = task.kind.score(found)
    # Google's four keys in its order, then all others.
    first: dict[str, Any] = {
        key: scores[key] for key in ("eval_accuracy", "eval_loss") if key in scores
    }
    first |= {"global_step": step, "loss": scores["eval_loss"]}
    other = None if name == evaluator_lib.MAIN else name
    result_files.write_evaluation(job.output_dir, first | scores, other)
    which = "" if len(data.evaluated) == 1 else f"{name}: "
    say(f"{which}{result_files.evaluation_line(scores)}")
    for text in task.kind.tables(found):
        say(text)
    return found


def _predict(
    job: Job, task: Classification, data: Inputs, towers: Towers, name: str
) -> None:
    """Of several files each has a folder of its own."""
    run, folder = job.run, job.output_dir
    if len(data.predicted) > 1:
        folder = folder / PREDICTED / data.path(name).name
    features, _ = data.load(name)
    batch = rows_at_once(run, towers, predicting=True)
    outputs = forward(run, features, batch, towers, "predict")
    if towers.group.rank > 0:
        return
    decisions = task.kind.decide(task.found(outputs, features))
    ids = data.ids(name)
    written = result_files.write_predictions(folder, decisions, features.lines, ids)
    say(f"predicted {len(features)} rows: {', '.join(written)} in {folder}")
