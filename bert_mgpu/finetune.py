"""A fine-tuning run from start to end: train, evaluate, predict, export."""

from __future__ import annotations

import dataclasses
import pathlib

from bert_mgpu import inputs, opening, planning, results, sources, training
from bert_mgpu.errors import listed
from bert_mgpu.inference import forward
from bert_mgpu.inputs import Inputs
from bert_mgpu.interop import huggingface
from bert_mgpu.job import Job
from bert_mgpu.opening import World
from bert_mgpu.run_config import FinetuneConfig
from bert_mgpu.tasks import custom
from bert_mgpu.tasks.classification import Classification
from bert_mgpu.train.recorder import say
from bert_mgpu.train.towers import Towers


def finetune(run: FinetuneConfig, output_dir: pathlib.Path, world: World) -> None:
    """Does what the flags ask for. Raises RunError where that ends early."""
    # 1. The model without its weights, the task, its labels.
    model = sources.find_model(run, output_dir)
    for note in sources.notes(run, model):
        say(note)
    files = custom.find(str(run.task_name), str(run.data_dir))
    if overlooked := custom.overlooked(str(run.task_name), str(run.data_dir)):
        say(overlooked)
    if run.truncation != "head" and files.columns.text_b is not None:
        say(f"--truncation={run.truncation}: pairs of texts lose their ends even so")
    labels = inputs.find_labels(run, files, model, output_dir)
    files = dataclasses.replace(files, labels=tuple(labels))
    say(f"{len(labels)} labels: {listed(labels)}")
    task = Classification(
        *(files.name, model.config, labels, run.max_seq_length),
        classifier_dropout=run.classifier_dropout,
        recompute=run.recompute,
    )
    if run.export_hf:
        huggingface.check_replaceable(pathlib.Path(run.export_hf))
    cache = pathlib.Path(run.cache_dir or output_dir / "cache")
    data = Inputs(run, files, model, cache, world.group)
    # 2. The towers, and the weights on them.
    job = Job(run, model, task, data, world, output_dir)
    say(opening.placement(world))
    if run.plan:
        return planning.show(job)
    state, towers = training.trained(job)
    # 3. What comes of it.
    if run.do_eval:
        _evaluate(run, task, data, towers, state.step, output_dir)
    if run.do_predict:
        _predict(run, task, data, towers, output_dir)
    if run.export_hf and world.group.rank == 0:
        huggingface.export(
            run.export_hf,
            state.averaged,
            model.config,
            model.vocabulary,
            model.do_lower_case,
            labels,
        )
        say(f"wrote the model to {run.export_hf}, as transformers reads it")


def _evaluate(
    run: FinetuneConfig,
    task: Classification,
    data: Inputs,
    towers: Towers,
    step: int,
    output_dir: pathlib.Path,
) -> None:
    features, _ = data.load("dev")
    outputs = forward(run, features, run.eval_batch_size, towers, "evaluate")
    if towers.group.rank > 0:
        return
    scores = task.score(outputs, features)
    # Google's four keys in its order, then all others.
    loss = scores["eval_loss"]
    google = {"eval_accuracy": scores["eval_accuracy"], "eval_loss": loss}
    google |= {"global_step": step, "loss": loss}
    results.write_evaluation(output_dir, google | scores)
    label_ids = features.dense["label_ids"]
    for text in results.evaluation_text(scores, label_ids, outputs, task.labels):
        say(text)


def _predict(
    run: FinetuneConfig,
    task: Classification,
    data: Inputs,
    towers: Towers,
    output_dir: pathlib.Path,
) -> None:
    features, _ = data.load("test")
    outputs = forward(run, features, run.prediction_batch, towers, "predict")
    if towers.group.rank > 0:
        return
    written = results.write_predictions(
        output_dir, outputs["logits"], features.lines, task.labels
    )
    say(f"predicted {len(features)} rows: {', '.join(written)} in {output_dir}")
