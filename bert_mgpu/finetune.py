"""A fine-tuning run from start to end: train, evaluate, predict, export."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import bert_mgpu
from bert_mgpu import inputs, results, sources, starting
from bert_mgpu.data import pipeline
from bert_mgpu.errors import UserError, listed
from bert_mgpu.inputs import Inputs
from bert_mgpu.interop import huggingface
from bert_mgpu.run_config import RunConfig
from bert_mgpu.sources import Model
from bert_mgpu.task import Features
from bert_mgpu.tasks import custom
from bert_mgpu.tasks.classification import Classification
from bert_mgpu.train import checkpoint, devices, loop, schedule
from bert_mgpu.train.checkpoint import TrainState
from bert_mgpu.train.recorder import Recorder, progress, say
from bert_mgpu.train.towers import Towers


def finetune(run: RunConfig, output_dir: pathlib.Path, remarks: list[str]) -> None:
    """Does what the flags ask for. Raises RunError where that ends early."""
    say(f"bert_mgpu {bert_mgpu.__version__}, TensorFlow {tf.__version__}")
    for remark in remarks:
        say(remark)
    # 1. The devices, before anything is built on them.
    visible = devices.configure(run.device, run.cpu_devices, run.n_gpus)
    if warning := devices.missing_gpus(run.device):
        say(warning)
    # 2. The model without its weights, the task, its labels.
    model = sources.find_model(run, output_dir)
    for note in sources.notes(run, model):
        say(note)
    files = custom.find(str(run.task_name), str(run.data_dir))
    if overlooked := custom.overlooked(str(run.task_name), str(run.data_dir)):
        say(overlooked)
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
    data = Inputs(run, files, model, cache)
    # 3. The towers, and the weights on them.
    towers = Towers(task, run.n_gpus, visible, run.seed, run.xla != "off")
    say(devices.describe(towers.places, visible))
    if run.do_train:
        state = _train(run, model, task, data, towers, output_dir)
    else:
        identity = starting.model_identity(model, labels)
        state = starting.trained_state(run, task.param_specs(), identity, output_dir)
        towers.load(state.params, {})
    # 4. What comes of it.
    if run.do_eval:
        _evaluate(run, task, data, towers, state.step, output_dir)
    if run.do_predict:
        _predict(run, task, data, towers, output_dir)
    if run.export_hf:
        huggingface.export(
            run.export_hf,
            state.params,
            model.config,
            model.vocab_file,
            model.do_lower_case,
            labels,
        )
        say(f"wrote the model to {run.export_hf}, as transformers reads it")


def _train(
    run: RunConfig,
    model: Model,
    task: Classification,
    data: Inputs,
    towers: Towers,
    output_dir: pathlib.Path,
) -> TrainState:
    features, data_key = data.load("train", run.max_train_examples)
    turns = run.gradient_accumulation_steps
    batch = run.train_batch_size * run.n_gpus * turns
    say(
        f"effective batch: {run.train_batch_size} rows x {run.n_gpus}"
        f" tower{'s' * (run.n_gpus > 1)}"
        + f" x {turns} accumulation steps" * (turns > 1)
        + f" = {batch} examples a step"
    )
    plan = _plan(run, len(features), batch)
    identity = starting.identity(
        run, model, list(task.labels), data_key, batch, plan.peak_rate
    )
    state = starting.training_state(
        run, task.param_specs(), model.config.initializer_range, identity, output_dir
    )
    towers.load(state.params, state.slots)
    if state.step >= plan.steps:
        say(f"nothing left to train: step {state.step} of {plan.steps} is done")
        return state
    order = _order(run, features)
    starting.write_run_files(run, model, list(task.labels), identity, output_dir)
    say(
        f"training: steps {state.step + 1} to {plan.steps}, the first {plan.warmup}"
        f" warm up to learning rate {plan.peak_rate:g}; seed {run.seed}"
    )

    def batches() -> Iterator[dict[str, np.ndarray]]:
        for step in itertools.count(state.step):
            yield pipeline.collate(features, order.placement(step))

    def save(state: TrainState) -> None:
        checkpoint.save(output_dir, state, run.keep_checkpoint_max)

    recorder = Recorder(output_dir, state.step, plan.steps, batch, run.log_steps)
    with pipeline.ahead(batches()) as made, recorder:
        # The devices hold the weights now: the host's copies can go.
        state = dataclasses.replace(state, params={}, slots={})
        return loop.train(towers, state, plan, made, save, recorder)


def _order(run: RunConfig, features: Features) -> pipeline.TrainingOrder:
    """Which rows each step gets; says how much padding each policy would need."""
    orders = {
        padding: pipeline.TrainingOrder(
            features.lengths,
            run.n_gpus * run.gradient_accumulation_steps,
            *(run.train_batch_size, padding, run.max_seq_length, run.seed),
        )
        for padding in pipeline.POLICIES
    }
    shares = {
        padding: pipeline.padding_share(
            map(order.placement, range(50)), features.lengths
        )
        for padding, order in orders.items()
    }
    texts = [f"{padding} {share:.0%}" for padding, share in shares.items()]
    say(f"tokens that are padding: {', '.join(texts)}: --padding={run.padding}")
    return orders[run.padding]


def _plan(run: RunConfig, rows: int, batch: int) -> loop.Plan:
    steps = schedule.total_steps(rows, batch, run.num_train_epochs)
    if steps < 1:
        raise UserError(
            f"{rows} rows x {run.num_train_epochs:g} epochs are less than one batch of"
            f" {batch}: lower --train_batch_size or --n_gpus, or raise"
            " --num_train_epochs"
        )
    return loop.Plan(
        steps=steps,
        warmup=schedule.warmup_steps(steps, run.warmup_proportion),
        peak_rate=schedule.scaled_rate(run.learning_rate, run.n_gpus, run.lr_scaling),
        save_every=run.save_checkpoints_steps,
    )


def _forward(
    run: RunConfig, features: Features, rows: int, towers: Towers, what: str
) -> dict[str, np.ndarray]:
    def shown(batches: Any) -> Any:
        return progress(batches, what)

    placements = pipeline.forward_placements(
        features.lengths, towers.n_towers, rows, run.padding, run.max_seq_length
    )
    share = pipeline.padding_share(placements, features.lengths)
    say(f"  {share:.0%} of the tokens are padding")
    return pipeline.forward_all(features, placements, towers.outputs, shown)


def _evaluate(
    run: RunConfig,
    task: Classification,
    data: Inputs,
    towers: Towers,
    step: int,
    output_dir: pathlib.Path,
) -> None:
    features, _ = data.load("dev", run.max_eval_examples)
    outputs = _forward(run, features, run.eval_batch_size, towers, "evaluate")
    scores = task.score(outputs, features)
    results.write_evaluation(output_dir, scores, step)
    label_ids = features.dense["label_ids"]
    for text in results.evaluation_text(scores, label_ids, outputs, task.labels):
        say(text)


def _predict(
    run: RunConfig,
    task: Classification,
    data: Inputs,
    towers: Towers,
    output_dir: pathlib.Path,
) -> None:
    features, _ = data.load("test", run.max_predict_examples, run.predict_file)
    outputs = _forward(run, features, run.prediction_batch, towers, "predict")
    written = results.write_predictions(
        output_dir, outputs["logits"], features.lines, task.labels
    )
    say(f"predicted {len(features)} rows: {', '.join(written)} in {output_dir}")
