"""Models from one program's format to another's, and how far they differ then."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import os
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
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import text_files
from bert_mgpu.core.errors import RunError, UserError, listed
from bert_mgpu.core.rows import Ragged
from bert_mgpu.model import bert, heads
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.text.tokenization import Tokenizer

_ROWS, _TOGETHER, _LONGEST = 64, 8, 128  # compared; at once; tokens
_ALLOWED = 1e-5
_MAY_LACK = "bert/pooler/"  # as models of sentences do
_GOOGLES_EPSILON = 1e-12
Params = Mapping[str, np.ndarray]


class Target(NamedTuple):
    """A format that is written."""

    check: Callable[[pathlib.Path], None]  # that the folder may be written
    write: Callable[..., None]
    holds: Callable[[Params, BertConfig], list[str]]  # names of what is written


def convert(config: Any, types: Mapping[str, str]) -> None:
    """Does what the settings of convert.py ask for; prints what came of it.

    types: transformers' problem_type -> the name that task.json has for it.
    """
    wanted = {name: getattr(config, name) for name in TARGETS if getattr(config, name)}
    for name, folder in wanted.items():
        TARGETS[name].check(pathlib.Path(folder))
    if config.input_file:
        text_files.check_file(config.input_file)
    asked = {one.name for one in dataclasses.fields(FinetuneConfig)}
    given = {n: getattr(config, n) for n in config.given & asked}
    settings = FinetuneConfig(**given, max_seq_length=1, given=config.given)
    model = pretrained.find_model(settings, pathlib.Path(os.devnull))
    for note in pretrained.notes(settings, model):
        print(note)
    params = _weights(config.init_checkpoint, model.bert_config)
    rows, what = _rows(model.tokenizer, model.bert_config, config.input_file)
    known = run_folder.of_model(
        pretrained.folder_of(config.init_checkpoint) / pretrained.RUN_FILE
    )
    for name, folder in wanted.items():
        target = TARGETS[name]
        target.write(folder, model, params, known=known, types=types)
        held = target.holds(params, model.bert_config)
        print(f"wrote {len(held)} weights to {folder}")
        if left := sorted(set(params) - set(held)):
            print(f"  without {len(left)} that it has no place for: {listed(left)}")
        print(f"  read again and compared on {what}:")
        _compare(
            folder,
            params,
            held,
            bert_config=model.bert_config,
            file=config.input_file,
            rows=rows,
        )


def _weights(path: str, bert_config: BertConfig) -> Params:
    """Those of BERT and its heads; says what else there is."""
    found = initial_weights.read_all(path)
    known = {
        name: value for name, value in found.items() if weight_names.of_google(name)
    }
    wanted = {n: shape for n, (shape, _) in params_lib.bert_specs(bert_config).items()}
    shapes = {name: value.shape for name, value in known.items()}
    missing, _, mismatched = weight_names.describe_difference(wanted, shapes)
    for name in mismatched:
        raise UserError(
            f"{path}: {name} has shape {list(shapes[name])}, the model wants"
            f" {list(wanted[name])}: pass the --bert_config_file that belongs to it"
        )
    lost = [name for name in missing if not name.startswith(_MAY_LACK)]
    if lost:
        raise UserError(
            f"{path}: lacks {len(lost)} of the model's weights, such as {lost[0]}: it"
            " is no BERT checkpoint, or --bert_config_file belongs to another"
        )
    if missing:
        print("the model has no pooler: what classifies starts one at random")
    if other := sorted(set(found) - set(known)):
        print(f"left out, as they are not BERT's: {listed(other)}")
    return known


def _write_google(
    folder: str,
    model: Pretrained,
    params: Params,
    *,
    known: dict[str, Any],
    types: Mapping[str, str],
) -> None:
    flags = {"do_lower_case": model.do_lower_case, **known}
    if name := types.get(model.problem_type or ""):
        flags["task_type"] = name
    google_write.export(
        folder,
        params,
        model.bert_config,
        vocab_file=model.vocabulary,
        labels=model.labels,
        flags=flags,
    )
    if model.bert_config.hidden_act == "gelu_erf":
        print("  google-research/bert has no erf form of gelu: it refuses this model")
    if model.bert_config.layer_norm_eps != _GOOGLES_EPSILON:
        epsilon = model.bert_config.layer_norm_eps
        print(f"  google-research/bert takes an epsilon of 1e-12, this has {epsilon:g}")


def _write_hugging_face(
    folder: str,
    model: Pretrained,
    params: Params,
    *,
    known: dict[str, Any],
    types: Mapping[str, str],
) -> None:
    of_task = {name: problem for problem, name in types.items()}
    problem = model.problem_type or of_task.get(known.get("task_type", ""))
    classifies = weight_names.architecture_of(params) == weight_names.CLASSIFIER
    huggingface_write.export(
        folder,
        params,
        model.bert_config,
        vocab_file=model.vocabulary,
        do_lower_case=model.do_lower_case,
        labels=(model.labels or None) if classifies else None,
        problem_type=problem if classifies else None,
    )


def _of_architecture(params: Params, bert_config: BertConfig) -> list[str]:
    architecture = weight_names.architecture_of(params)
    rows = weight_names.of_architecture(architecture, bert_config.num_hidden_layers)
    return [row.google for row in rows if row.google in params]


TARGETS = {
    "export_hf": Target(
        huggingface_write.check_replaceable, _write_hugging_face, _of_architecture
    ),
    "export_google": Target(
        google_write.check_replaceable, _write_google, lambda params, _: [*params]
    ),
}


def _rows(
    tokenizer: Tokenizer, bert_config: BertConfig, file: str | None
) -> tuple[Ragged, str]:
    """Ids of real rows, or of drawn ones; what they are."""
    room = max(1, min(_LONGEST, bert_config.max_position_embeddings) - 2)
    if file:
        lines = (text for _, text in text_files.read_lines(file) if text.strip())
        found = tokenizer.batch_ids([*itertools.islice(lines, _ROWS)])
        what = f"the first {len(found.lengths)} lines of {file}"
    else:
        rng = np.random.default_rng(0)
        sizes = rng.integers(1, room, _ROWS, endpoint=True)
        drawn = [rng.integers(len(tokenizer.tokens), size=size) for size in sizes]
        found, what = Ragged.from_rows(drawn), f"{_ROWS} rows of drawn tokens"
    if not len(found.lengths):
        raise UserError(f"{file}: no text to compare the models on")
    rows = (found.row(index)[:room] for index in range(len(found.lengths)))
    ends = tokenizer.cls_id, tokenizer.sep_id
    return Ragged.from_rows([[ends[0], *row, ends[1]] for row in rows]), what


def _batches(rows: Ragged) -> Iterator[dict[str, np.ndarray]]:
    """input_ids, input_mask, segment_ids int32 [B, T] of a few rows at a time.

    The second half of a row counts as its second text.
    """
    count = len(rows.lengths)
    for start in range(0, count, _TOGETHER):
        some = rows.take(np.arange(start, min(start + _TOGETHER, count)))
        sizes = some.lengths[:, None]
        places = np.arange(sizes.max())[None]
        mask = (places < sizes).astype(np.int32)
        ids = np.zeros(mask.shape, np.int32)
        ids[mask > 0] = some.values
        second = mask * (places >= sizes // 2)
        yield {"input_ids": ids, "input_mask": mask, "segment_ids": second}


def outputs(
    params: Params, bert_config: BertConfig, batch: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """All that a model's weights allow to say of a batch.

    Letters: B rows, T tokens, H width, V vocabulary, C classes. "hidden states"
    [B, T, H], and as logits "words" [B, T, V], "spans" [B, T, 2], "next sentence"
    [B, 2], "labels" [B, C].
    """
    with tf.device("CPU:0"):
        tensors = {name: tf.constant(value) for name, value in batch.items()}
        hidden = bert.encode(params, bert_config, tensors)[-1]
        found = {"hidden states": hidden}
        if "bert/pooler/dense/kernel" in params:
            pooled = bert.pool(params, hidden[:, 0])
            if "output_weights" in params:
                found["labels"] = heads.classification_logits(params, pooled, 0.0)
            if "cls/seq_relationship/output_weights" in params:
                found["next sentence"] = heads.next_sentence_logits(params, pooled)
        if "cls/predictions/output_bias" in params:
            found["words"] = heads.masked_lm_logits(params, bert_config, hidden)
        if "cls/squad/output_weights" in params:
            kernel = params["cls/squad/output_weights"].T
            found["spans"] = tf.tensordot(hidden, kernel, 1)
            found["spans"] += params["cls/squad/output_bias"]
    return {name: value.numpy() for name, value in found.items()}


def _compare(
    folder: str,
    params: Params,
    held: list[str],
    *,
    bert_config: BertConfig,
    file: str | None,
    rows: Ragged,
) -> None:
    """Reads the folder as anyone would: its config, vocabulary, casing and weights."""
    settings = FinetuneConfig(init_checkpoint=folder, max_seq_length=1)
    again = pretrained.find_model(settings, pathlib.Path(os.devnull))
    read, _ = _rows(again.tokenizer, again.bert_config, file)
    if not np.array_equal(read.values, rows.values):
        raise RunError(f"{folder}: its vocabulary makes other ids")
    there, far = (
        initial_weights.read_all(folder),
        collections.defaultdict[str, float](float),
    )
    if lost := sorted(set(held) - set(there)):
        raise RunError(f"{folder}: lacks {listed(lost)}")
    for batch in _batches(rows):
        ours = outputs(params, bert_config, batch)
        for name, value in outputs(there, again.bert_config, batch).items():
            # maximum keeps what is no number, max would lose it.
            worst = np.maximum(far[name], np.abs(value - ours[name]).max())
            far[name] = float(worst)
    shown = ", ".join(f"{name} {value:.1e}" for name, value in far.items())
    print(f"  largest difference: {shown}")
    if not all(value <= _ALLOWED for value in far.values()):
        raise RunError(f"{folder}: differs by more than {_ALLOWED:.0e}")
