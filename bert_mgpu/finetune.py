"""A fine-tuning run from start to end: train, evaluate, predict, export."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

from bert_mgpu import (
    evaluating,
    opening,
    planning,
    remembered,
    reporting,
    results,
    serving,
    sources,
    streaming,
    training,
)
from bert_mgpu.errors import UserError, listed
from bert_mgpu.evaluating import Evaluator
from bert_mgpu.files import make_folder, write_text
from bert_mgpu.inference import forward, rows_at_once
from bert_mgpu.inputs import Inputs
from bert_mgpu.interop import huggingface_export
from bert_mgpu.job import Job
from bert_mgpu.labels import find_labels
from bert_mgpu.opening import World
from bert_mgpu.run_config import FinetuneConfig
from bert_mgpu.tasks import baseline, custom, label_values, reading
from bert_mgpu.tasks.classification import Classification
from bert_mgpu.tasks.kind import Kind, Loss, Outputs
from bert_mgpu.tasks.kinds import KINDS
from bert_mgpu.train.recorder import say
from bert_mgpu.train.towers import Towers

PREDICTED = "predicted"  # the folder of several predicted files


def finetune(run: FinetuneConfig, output_dir: pathlib.Path, world: World) -> None:
    """Does what the flags ask for. Raises RunError where that ends early."""
    if run.seeds > 1:
        _seeds(run, output_dir, world)
    else:
        _finetune(run, output_dir, world)


def _finetune(
    run: FinetuneConfig,
    output_dir: pathlib.Path,
    world: World,
    towers: Towers | None = None,
) -> Towers | None:
    """towers: of another seed, to go on with; -> those of this run."""
    run = remembered.as_begun(run, [output_dir], world.group)
    # 1. The model without its weights, the task, its labels.
    model = sources.find_model(run, output_dir)
    for note in sources.notes(run, model):
        say(note)
    files = custom.find(run)
    if overlooked := custom.overlooked(run):
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
        serving.check(run)
    if run.export_hf and world.group.rank == 0:
        huggingface_export.check_replaceable(pathlib.Path(run.export_hf))
    cache = pathlib.Path(run.cache_dir or output_dir / "cache")
    data = Inputs(run, files, model, cache, world.group)
    task = Classification(
        *(files.name, model.config, labels, run.max_seq_length),
        classifier_dropout=run.classifier_dropout,
        recompute=run.recompute,
        kind=kind,
        loss=_loss(run, kind, labels, data),
        thresholds=label_values.thresholds(run.threshold, kind, labels),
    )
    # 2. The towers, and the weights on them.
    job = Job(run, model, task, data, world, output_dir)
    say(opening.placement(world))
    if run.do_train:
        for warning in data.warnings:
            say(f"  WARNING: {warning}")
    if run.plan:
        planning.show(job)
        return None
    evaluator = _evaluator(run, job, task, data) if run.eval_steps else None
    state, towers = training.trained(job, evaluator, run.use_best, towers)
    # 3. What comes of it.
    evaluated = {}
    if run.do_eval:
        for name in data.evaluated:
            found = _evaluate(job, task, data, towers, state.step, name)
            if found is not None:
                evaluated[name] = found
    if run.do_predict and data.streams:
        streaming.predict(task, data, towers)
    elif run.do_predict:
        for name in data.predicted:
            _predict(job, task, data, towers, name)
    if run.export_hf and world.group.rank == 0:
        huggingface_export.export(
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
        serving.write(job, task, data, state.averaged, towers)
    if run.report and (run.do_train or run.do_eval):
        reporting.write(job, task, data, evaluated)
    return towers


def _loss(run: FinetuneConfig, kind: Kind, labels: list[str], data: Inputs) -> Loss:
    """How the losses of training rows are weighed."""
    balances = run.do_train and run.class_weights == label_values.BALANCED
    truth = data.read("train")[0].dense["label_ids"] if balances else None
    weights = label_values.weights(run.class_weights, kind, labels, truth)
    if run.focal_gamma and not kind.has_labels:
        raise UserError(
            f"--focal_gamma={run.focal_gamma:g}: the type {kind.name!r} has no labels"
        )
    if weights is not None:
        pairs = zip(labels, weights, strict=True)
        shown = listed([f"{label} {weight:.4g}" for label, weight in pairs])
        say(f"weights of labels in the loss: {shown}")
    return Loss(weights, run.focal_gamma)


def _seeds(run: FinetuneConfig, output_dir: pathlib.Path, world: World) -> None:
    """A run for each seed, in a folder of its own; then seeds.json."""
    seeds = range(run.seed, run.seed + run.seeds)
    folders = [output_dir / f"seed-{seed}" for seed in seeds]
    run = remembered.as_begun(run, folders, world.group)  # the same samples for all
    towers = None
    for seed, folder in zip(seeds, folders, strict=True):
        say(f"seed {seed}, {seed - run.seed + 1} of {run.seeds}: {folder}")
        if world.group.rank == 0:
            make_folder(folder)
        # All see the same rows, whose tokens are kept once.
        cache = run.cache_dir or str(output_dir / "cache")
        one = dataclasses.replace(run, seed=seed, seeds=1, cache_dir=cache)
        one = dataclasses.replace(one, sampled_by=run.seed)
        # TensorFlow never gives back what it has compiled: all seeds use the same.
        towers = _finetune(one, folder, world, towers)
    if world.group.rank > 0:
        return
    found = {}
    for name in ("dev", *reading.named_files(run.eval_files)):
        file = results.evaluation_file(None if name == evaluating.MAIN else name)
        scores = [results.read_evaluation(folder / file) for folder in folders]
        found[name] = results.over_seeds(scores)
        means = ", ".join(
            f"{key} {one['mean']:.4f} ± {one['deviation']:.4f}"
            for key, one in found[name].items()
            if key in results.SHOWN
        )
        say(f"{name}, mean and deviation of {run.seeds} seeds: {means}")
    text = json.dumps({"seeds": [*seeds], "scores": found}, indent=2)
    write_text(output_dir / "seeds.json", text + "\n")


def _evaluator(
    run: FinetuneConfig, job: Job, task: Classification, data: Inputs
) -> Evaluator:
    """What looks at the model on the way, told beside it what naive Bayes reaches."""
    loaded = {name: data.load(name) for name in data.evaluated}
    sets = {name: rows for name, (rows, _) in loaded.items()}
    known = task.metrics(sets[evaluating.MAIN])
    metric = evaluating.chosen(run.best_metric, task.kind.metric, known)
    train, _ = data.read("train")  # by all processes, as any reading
    if job.world.group.rank == 0:
        found = baseline.scores(train, sets, task.labels, task.kind)
        for name, scores in found.items():
            say(f"{baseline.NAME}  {name}: {results.evaluation_line(scores)}")
        results.write_baseline(job.output_dir, found)
    measured = {"set": loaded[evaluating.MAIN][1], "metric": metric}
    measured |= {
        name: getattr(run, name) for name in ("max_eval_examples", "threshold")
    }
    return Evaluator(job, sets, metric, run.early_stopping_patience, measured)


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
    other = None if name == evaluating.MAIN else name
    results.write_evaluation(job.output_dir, first | scores, other)
    which = "" if len(data.evaluated) == 1 else f"{name}: "
    say(f"{which}{results.evaluation_line(scores)}")
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
    written = results.write_predictions(folder, decisions, features.lines, ids)
    say(f"predicted {len(features)} rows: {', '.join(written)} in {folder}")
