"""Conversion of a model between Google's format and Hugging Face's, with a check."""

from __future__ import annotations

import collections
import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.checkpoints import (
    google_write,
    huggingface_write,
    initial_weights,
    pretrained,
    run_folder,
    weight_names,
)
from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.checkpoints.run_folder import TrainedTask
from bert_mgpu.config.base import ModelFlags
from bert_mgpu.config.convert import ConvertConfig
from bert_mgpu.core import files, run_files, text_files
from bert_mgpu.core.errors import RunError, UserError, listed
from bert_mgpu.core.rows import Ragged
from bert_mgpu.model import bert, heads
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.text.tokenization import Tokenizer

_ROWS, _BATCH, _LONGEST = 64, 8, 128  # rows to compare; in a batch; tokens of one
_TOLERANCE = 1e-5
_GOOGLES_EPSILON = 1e-12
Params = Mapping[str, np.ndarray]


class Target(NamedTuple):
    """A format to write."""

    is_export: Callable[[pathlib.Path, set[str]], bool]
    write: Callable[..., None]
    names: Callable[[Params, BertConfig], list[str]]  # of the weights to be written


def convert(config: ConvertConfig, types: Mapping[str, str]) -> None:
    """Writes the folders that `config` asks for, and compares each with the original.

    types: transformers' problem_type -> its name in task.json.
    """
    folders = {name: getattr(config, name) for name in TARGETS if getattr(config, name)}
    for name, folder in folders.items():
        files.check_replaceable(pathlib.Path(folder), TARGETS[name].is_export)
    if config.input_file:
        text_files.check_file(config.input_file)
    model = pretrained.find_model(config)
    for note in pretrained.notes(model, config.hidden_act):
        print(f"model: {note}")
    checkpoint = str(config.init_checkpoint)
    params = _weights(checkpoint, model.bert_config)
    rows, source = _rows(model.required_tokenizer, model.bert_config, config.input_file)
    run = run_folder.folder_of(checkpoint) / run_files.RUN
    flags, task = run_folder.model_settings(run), run_folder.read_task(run)
    for name, folder in folders.items():
        target = TARGETS[name]
        target.write(folder, model, params, flags=flags, task=task, types=types)
        written = target.names(params, model.bert_config)
        print(f"wrote {len(written)} weights to {folder}")
        if lost := sorted(set(params) - set(written)):
            print(f"  without {len(lost)} that it has no place for: {listed(lost)}")
        print(f"  read back and compared on {source}:")
        _compare(
            folder,
            params,
            written,
            bert_config=model.bert_config,
            file=config.input_file,
            rows=rows,
        )


def _weights(path: str, bert_config: BertConfig) -> Params:
    """The weights of BERT and its heads; prints the names of any others."""
    stored = initial_weights.read_all(path)
    params = {
        name: value
        for name, value in stored.items()
        if weight_names.row_by_google(name)
        or name.startswith((*weight_names.ONLY_OURS,))
    }
    wanted = {n: shape for n, (shape, _) in params_lib.bert_specs(bert_config).items()}
    shapes = {name: value.shape for name, value in params.items()}
    difference = weight_names.describe_difference(wanted, shapes)
    initial_weights.check_encoder(path, difference, wanted=wanted, shapes=shapes)
    if difference.missing and "output_weights" not in params:  # a tagger needs none
        print("the model has no pooler: fine-tuning initialises one at random")
    if others := sorted(set(stored) - set(params)):
        print(f"left out, as they are not BERT's: {listed(others)}")
    return params


def _write_google(
    folder: str,
    model: Pretrained,
    params: Params,
    *,
    flags: dict[str, Any],
    task: TrainedTask | None,
    types: Mapping[str, str],
) -> None:
    flags = {"do_lower_case": model.do_lower_case, **flags}
    if name := types.get(model.huggingface_problem_type or ""):
        flags["task_type"] = name
    google_write.export(
        folder,
        params,
        model.bert_config,
        vocab_file=model.required_vocab_file,
        labels=model.labels,
        facts=run_folder.facts(flags, task and task.kept),
    )
    if model.bert_config.hidden_act == "gelu_erf":
        print("  google-research/bert has no erf form of gelu and refuses this model")
    if model.bert_config.layer_norm_eps != _GOOGLES_EPSILON:
        epsilon = model.bert_config.layer_norm_eps
        print(
            "  google-research/bert normalises layers with an epsilon of 1e-12, this"
            f" model has {epsilon:g}"
        )


def _write_hugging_face(
    folder: str,
    model: Pretrained,
    params: Params,
    *,
    flags: dict[str, Any],
    task: TrainedTask | None,
    types: Mapping[str, str],
) -> None:
    problem_types = {name: problem_type for problem_type, name in types.items()}
    trained = problem_types.get(flags.get("task_type", ""))
    classifies = weight_names.architecture_of(params) in weight_names.CLASSIFIERS
    huggingface_write.export(
        folder,
        params,
        model.bert_config,
        vocab_file=model.required_vocab_file,
        do_lower_case=model.do_lower_case,
        labels=(model.labels or None) if classifies else None,
        problem_type=(model.huggingface_problem_type or trained)
        if classifies
        else None,
        facts=run_folder.facts(flags, task and task.kept)
        if classifies or task
        else None,
    )


def _names_of_architecture(params: Params, bert_config: BertConfig) -> list[str]:
    architecture = weight_names.architecture_of(params)
    rows = weight_names.rows_of_architecture(
        architecture, bert_config.num_hidden_layers
    )
    return [row.google for row in rows if row.google in params]


TARGETS = {
    "export_hf": Target(
        huggingface_write.is_export, _write_hugging_face, _names_of_architecture
    ),
    "export_google": Target(
        google_write.is_export, _write_google, lambda params, _: [*params]
    ),
}


def _rows(
    tokenizer: Tokenizer, bert_config: BertConfig, file: str | None
) -> tuple[Ragged, str]:
    """Rows of ids, from a file's first lines or random, and a description of them."""
    most = max(1, min(_LONGEST, bert_config.max_position_embeddings) - 2)
    if file:
        lines = (text for _, text in text_files.read_lines(file) if text.strip())
        ids = tokenizer.batch_ids([*itertools.islice(lines, _ROWS)])
        source = f"the first {len(ids.lengths)} lines of {file}"
    else:
        rng = np.random.default_rng(0)
        lengths = rng.integers(1, most, _ROWS, endpoint=True)
        drawn = [rng.integers(len(tokenizer.tokens), size=n) for n in lengths]
        ids, source = Ragged.from_rows(drawn), f"{_ROWS} random inputs"
    if not len(ids.lengths):
        raise UserError(f"{file}: no text to compare the models on")
    rows = (ids.row(index)[:most] for index in range(len(ids.lengths)))
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    return Ragged.from_rows([[cls, *row, sep] for row in rows]), source


def _batches(rows: Ragged) -> Iterator[dict[str, np.ndarray]]:
    """input_ids, input_mask, segment_ids int32 [B, T] of _BATCH rows at a time.

    The second half of a row counts as its second text.
    """
    count = len(rows.lengths)
    for start in range(0, count, _BATCH):
        batch = rows.take(np.arange(start, min(start + _BATCH, count)))
        lengths = batch.lengths[:, None]
        positions = np.arange(lengths.max())[None]
        mask = (positions < lengths).astype(np.int32)
        ids = np.zeros(mask.shape, np.int32)
        ids[mask > 0] = batch.values
        segments = mask * (positions >= lengths // 2)
        yield {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


def outputs(
    params: Params, bert_config: BertConfig, batch: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The outputs of the encoder, and of every head whose weights are in `params`.

    Letters: B rows, T tokens, H width, V vocabulary, C classes. "hidden states"
    [B, T, H]; logits: "words" [B, T, V], "spans" [B, T, 2], "next sentence" [B, 2],
    "labels" [B, C], or [B, T, C] for a tagger.
    """
    with tf.device("CPU:0"):
        inputs = {name: tf.constant(value) for name, value in batch.items()}
        hidden = bert.encode(params, bert_config, inputs)[-1]
        tensors = {"hidden states": hidden}
        if "bert/pooler/dense/kernel" in params:
            pooled = bert.pool(params, hidden[:, 0])
            if "output_weights" in params:
                tensors["labels"] = heads.classification_logits(params, pooled, 0.0)
            if "cls/seq_relationship/output_weights" in params:
                tensors["next sentence"] = heads.next_sentence_logits(params, pooled)
        elif "output_weights" in params:
            tensors["labels"] = heads.token_logits(params, hidden, 0.0)
        if "cls/predictions/output_bias" in params:
            tensors["words"] = heads.masked_lm_logits(params, bert_config, hidden)
        if "cls/squad/output_weights" in params:
            kernel = params["cls/squad/output_weights"].T
            tensors["spans"] = tf.tensordot(hidden, kernel, 1)
            tensors["spans"] += params["cls/squad/output_bias"]
    return {name: value.numpy() for name, value in tensors.items()}


def _compare(
    folder: str,
    params: Params,
    written: list[str],
    *,
    bert_config: BertConfig,
    file: str | None,
    rows: Ragged,
) -> None:
    """Reads the folder back as a user of it would. Raises RunError if it differs."""
    copy = pretrained.find_model(ModelFlags(init_checkpoint=folder))
    ids, _ = _rows(copy.required_tokenizer, copy.bert_config, file)
    if not np.array_equal(ids.values, rows.values):
        raise RunError(f"{folder}: its vocabulary gives different ids")
    copied = initial_weights.read_all(folder)
    if absent := sorted(set(written) - set(copied)):
        raise RunError(f"{folder}: lacks {listed(absent)}")
    differences = collections.defaultdict[str, float](float)
    for batch in _batches(rows):
        originals = outputs(params, bert_config, batch)
        for name, value in outputs(copied, copy.bert_config, batch).items():
            # np.maximum keeps a NaN, max would lose it.
            gap = np.abs(value - originals[name]).max()
            differences[name] = float(np.maximum(differences[name], gap))
    shown = ", ".join(f"{name} {gap:.1e}" for name, gap in differences.items())
    print(f"  largest difference: {shown}")
    if not all(gap <= _TOLERANCE for gap in differences.values()):
        raise RunError(f"{folder}: differs by more than {_TOLERANCE:.0e}")
