"""A fine-tuning run from start to end: train, evaluate, predict, export."""

from __future__ import annotations

import dataclasses
import pathlib
import time

import numpy as np
import tensorflow as tf

import bert_mgpu
from bert_mgpu import inputs, planning, results, sources, starting, training
from bert_mgpu.data import pipeline
from bert_mgpu.errors import Diverged, OutOfMemory, listed, out_of_memory, smaller
from bert_mgpu.inputs import Inputs
from bert_mgpu.interop import huggingface
from bert_mgpu.run_config import RunConfig
from bert_mgpu.task import Features
from bert_mgpu.tasks import custom
from bert_mgpu.tasks.classification import Classification
from bert_mgpu.train import devices
from bert_mgpu.train.recorder import progress, say
from bert_mgpu.train.towers import Towers
from bert_mgpu.training import Job


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
    job = Job(run, model, task, data, visible, output_dir)
    say(devices.describe(devices.lay_out(run.n_gpus, len(visible)), visible))
    if run.plan:
        return planning.show(job)
    if run.do_train:
        state, towers = training.train(job)
    else:
        identity = starting.model_identity(model, labels)
        state = starting.trained_state(run, task.param_specs(), identity, output_dir)
        towers = training.make_towers(job)
        towers.load(state.params, {})
    # 4. What comes of it.
    if run.do_eval:
        _evaluate(run, task, data, towers, state.step, output_dir)
    if run.do_predict:
        _predict(run, task, data, towers, output_dir)
    if run.export_hf:
        huggingface.export(
            run.export_hf,
            state.averaged,
            model.config,
            model.vocab_file,
            model.do_lower_case,
            labels,
        )
        say(f"wrote the model to {run.export_hf}, as transformers reads it")


def _forward(
    run: RunConfig, features: Features, rows: int, towers: Towers, what: str
) -> dict[str, np.ndarray]:
    """The task's outputs of all rows, `rows` of them at a time, or as many as fit."""
    placements = pipeline.forward_placements(
        features.lengths, towers.n_towers, rows, run.padding, run.max_seq_length
    )
    share = pipeline.padding_share(placements, features.lengths)
    say(f"  {share:.0%} of the tokens are padding")
    began, compilations = time.perf_counter(), towers.compilations
    try:
        outputs = pipeline.forward_all(
            *(features, placements, towers.outputs),
            progress=lambda batches: progress(batches, what),
        )
    except Exception as error:
        lacking = out_of_memory(error)
        if lacking is None:
            raise
    else:
        seconds = time.perf_counter() - began
        shapes = towers.compilations - compilations
        say(
            f"  {len(features)} rows in {seconds:.1f} s, compilation for {shapes}"
            f" shape{'s' * (shapes != 1)} of batches included"
        )
        _check_finite(outputs, run.precision, what)
        return outputs
    if rows == 1:
        advice = smaller(False, run.recompute)
        raise OutOfMemory(f"{what}: {lacking}, with one row at a time: {advice}")
    # Not before the error is gone, whose traceback holds what did not fit.
    say(f"{lacking}: going on with batches of {rows // 2} rows a tower")
    return _forward(run, features, rows // 2, towers, what)


def _check_finite(outputs: dict[str, np.ndarray], precision: str, what: str) -> None:
    """Raises Diverged where an output is no number: no class follows from that."""
    for name, values in outputs.items():
        rows = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(-1))
        if len(rows):
            way = "pass --precision=float32"
            if precision == "float32":
                way = "train anew, with a lower --learning_rate"
            raise Diverged(
                f"{what}: the {name} of {len(rows)} of {len(values)} rows are no finite"
                f" numbers, row {rows[0] + 1} the first; nothing is written: {way}"
            )


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
