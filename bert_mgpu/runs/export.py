"""A trained classifier for servers, compared with the run that trained it."""

from __future__ import annotations

import pathlib

import numpy as np

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.log import say
from bert_mgpu.evaluation.forward import forward
from bert_mgpu.export import onnx, saved_model
from bert_mgpu.runs.run import Job
from bert_mgpu.tasks.classification.dataset import Inputs
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training.towers import Towers

_COMPARED = 64  # rows


def check(run: FinetuneConfig) -> None:
    """Raises UserError where something else is there, or a package is missing."""
    if run.export_saved_model:
        saved_model.check_replaceable(pathlib.Path(run.export_saved_model))
    if run.export_onnx:
        onnx.check(run.export_onnx)


def write(
    job: Job,
    task: Classification,
    data: Inputs,
    params: dict[str, np.ndarray],
    towers: Towers,
) -> None:
    """Writes what the flags ask for, and says how far its logits are from the run's."""
    run, model = data.run, job.model
    logits, examples, rows = None, [], None
    if data.needed:
        name = data.needed[-1]
        examples = data.examples(name)[:_COMPARED]
        rows = data.read(name)[0].take(np.arange(len(examples)))
        batch = run.prediction_batch, towers, "compare"
        logits = forward(run, rows, *batch, note=lambda text: None)["logits"]
    if towers.group.rank > 0:
        return
    how = run.truncation, run.head_tokens
    served = saved_model.Served(task, params, model.tokenizer, *how)
    if logits is None:
        say("exports are compared with the run where it has rows: --do_predict=true")
    if folder := run.export_saved_model:
        say(f"writing the model to {folder}, as TensorFlow Serving reads it")
        saved_model.write(folder, served, data.has_pairs)
        if logits is not None:
            far = saved_model.difference(folder, examples, data.has_pairs, logits)
            _tell("texts", len(examples), far)
    if folder := run.export_onnx:
        say(f"writing the model to {folder}, as ONNX")
        onnx.write(folder, served, model.vocabulary)
        if rows is not None and logits is not None:
            _tell("ids", len(rows), onnx.difference(folder, rows, logits))


def _tell(inputs: str, rows: int, far: float) -> None:
    say(f"  from the {inputs} of {rows} rows its logits differ by {far:.1e}")
