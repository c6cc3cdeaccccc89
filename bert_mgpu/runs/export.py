"""Exports for model servers, compared with the model of the run."""

from __future__ import annotations

import pathlib

import numpy as np

from bert_mgpu.core import files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import say
from bert_mgpu.core.rows import Example
from bert_mgpu.evaluation.forward import forward
from bert_mgpu.export import (
    kernel_tokenizer,
    onnx,
    saved_model,
    served_answers,
    served_tags,
)
from bert_mgpu.export.graph_tokenizer import GraphTokenizer
from bert_mgpu.runs import stages
from bert_mgpu.runs.run import FinetuningRun
from bert_mgpu.training.towers import Towers

_COMPARED = 64  # examples


def check(
    rank: int,
    exportable: bool,
    *,
    export_saved_model: str | None,
    export_tokenizer: str,
    export_onnx: str | None,
    export_hf: str | None,
) -> None:
    """Raises UserError if a folder holds other files or a package is missing.

    exportable: see `tasks.base.Family`.
    """
    if not exportable and (export_saved_model or export_onnx):
        flag = "export_saved_model" if export_saved_model else "export_onnx"
        raise UserError(
            f"--{flag}: tasks of this type have no such export: pass --export_hf"
        )
    if rank > 0:  # only the first process writes
        return
    if export_saved_model:
        kernel_tokenizer.check(export_tokenizer)
        files.check_replaceable(pathlib.Path(export_saved_model), saved_model.is_export)
    if export_onnx:
        onnx.check(export_onnx)
    stages.check_export(export_hf, rank)


def write(run: FinetuningRun, params: dict[str, np.ndarray], towers: Towers) -> None:
    """Writes the exports that the flags ask for, and logs their largest differences.

    Their outputs are compared with those of the towers, on examples of the last set
    that the run reads.
    """
    config, model, data = run.config, run.model, run.data
    if not (config.export_saved_model or config.export_onnx):
        return
    outputs, rows = None, None
    if data.needed:
        features, _ = data.read(data.needed[-1])
        rows = features.take(features.first_rows[:_COMPARED])
        settings = run.forward_settings("compare", predicting=True)
        outputs = forward(rows, towers, settings, note=lambda text: None)
    if towers.group.rank > 0:
        return
    in_graph = kernel_tokenizer.IN_GRAPH[config.export_tokenizer]
    served = _served(run, params, in_graph)
    if outputs is None:
        say(
            "to compare the export with the run, add --do_predict=true and"
            " --predict_file=FILE"
        )
    if folder := config.export_saved_model:
        saved_model.write(folder, served, data.has_pairs)
        say(f"wrote the model to {folder}, for TensorFlow Serving")
        columns = data.files.columns_of("test")
        if done := columns.text_changes(model.do_lower_case):
            say(f"  clients must send texts {done}, as this run prepares them")
        if in_graph.needs:
            say(f"  Python has to `import {in_graph.needs}` before it loads the model")
        if rows is not None and outputs is not None:
            if run.task.token_outputs:
                gap = saved_model.ids_difference(folder, rows, outputs)
                _log_difference("ids", len(rows), gap)
            elif examples := _texts(run, data.needed[-1]):
                gap = saved_model.difference(
                    folder, examples, data.has_pairs, outputs=outputs
                )
                _log_difference("texts", len(examples), gap)
    if folder := config.export_onnx:
        onnx.write(folder, served, model.required_vocab_file)
        say(f"wrote the model to {folder}, as ONNX")
        if rows is not None and outputs is not None:
            gap = onnx.difference(folder, rows, outputs)
            _log_difference("ids", len(rows), gap)


def _texts(run: FinetuningRun, name: str) -> list[Example]:
    """The first texts of a set; [], and a line in the log, if they have changed."""
    try:
        return run.data.examples(name, shown=False)[:_COMPARED]
    except UserError as error:
        say(f"the export is not compared with the run: {error}")
        return []


def _served(
    run: FinetuningRun,
    params: dict[str, np.ndarray],
    in_graph: type[GraphTokenizer],
) -> saved_model.Served:
    task, tokenizer = run.task, run.model.required_tokenizer
    if isinstance(task, served_tags.ExportableTags):
        return served_tags.ServedTags(task, params, tokenizer, in_graph=in_graph)
    if isinstance(task, served_answers.ExportableAnswers):
        return served_answers.ServedAnswers(task, params, tokenizer, in_graph=in_graph)
    return saved_model.Served(
        task,
        params,
        tokenizer,
        truncation=run.config.truncation,
        head_tokens=run.config.head_tokens,
        in_graph=in_graph,
    )


def _log_difference(inputs: str, examples: int, gap: float) -> None:
    say(f"  given the {inputs} of {examples} examples, its outputs differ by {gap:.1e}")
