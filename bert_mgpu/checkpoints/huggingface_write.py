"""Hugging Face folders: writing one that transformers can load."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from bert_mgpu.checkpoints import weight_names
from bert_mgpu.checkpoints.huggingface_read import VOCAB, WEIGHTS
from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.model.config import BertConfig

_ACTIVATIONS = {"gelu_erf": "gelu", "gelu_tanh": "gelu_new"}
_OURS = {"format": "pt", "producer": "bert_mgpu"}  # header of model.safetensors
_EXPORTED = {
    WEIGHTS,
    VOCAB,
    run_files.RUN,
    "config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
}
_SPECIAL_TOKENS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}


def export(
    directory: str | os.PathLike[str],
    params: Mapping[str, Any],
    bert_config: BertConfig,
    *,
    vocab_file: str | os.PathLike[str],
    do_lower_case: bool,
    labels: Sequence[str] | None,
    problem_type: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Writes a folder for transformers' models and AutoTokenizer.

    `weight_names.architecture_of` chooses the model class from the weights.
    labels: of a classifier of texts or tokens (default: LABEL_0, LABEL_1, ...).
    problem_type: of a classifier, as transformers names it.
    facts: the content of run.json (see `run_folder.facts`), read for predictions.

    `params` may hold more weights than that model has. The folder is written
    completely or not at all, and replaces nothing but an earlier export.
    """
    target = pathlib.Path(directory).absolute()
    files.check_replaceable(target, is_export)
    flags = (facts or {}).get("flags", {})
    architecture = weight_names.architecture_of(params)
    if labels is not None and architecture not in weight_names.CLASSIFIERS:
        architecture = weight_names.CLASSIFIER  # `_tensors` reports its missing head
    for beginning, (what, advice) in weight_names.ONLY_OURS.items():
        if any(name.startswith(beginning) for name in params):
            raise UserError(
                f"{directory}: cannot export: transformers has no {what}: train"
                f" {advice}"
            )
    if architecture == weight_names.TAGGER and weight_names.WORDS_BIAS in params:
        raise UserError(
            f"{directory}: cannot export: transformers has no model with both tags and"
            " masked words: use it with bert_mgpu"
        )
    tensors = _tensors(params, bert_config, architecture)
    if architecture in weight_names.CLASSIFIERS:
        classes = len(tensors["classifier.bias"])
        labels = labels or [f"LABEL_{index}" for index in range(classes)]
        if len(labels) != classes:
            raise UserError(
                f"{directory}: cannot export: {len(labels)} labels for a classifier"
                f" with {classes} classes"
            )
    try:
        vocab = pathlib.Path(vocab_file).read_bytes()
        with files.replacing_folder(target) as new:
            (new / VOCAB).write_bytes(vocab)
            for name, value in (
                (
                    "config.json",
                    _model_config(bert_config, architecture, labels, vocab=vocab)
                    | ({"problem_type": problem_type} if problem_type else {}),
                ),
                (
                    "tokenizer_config.json",
                    _tokenizer_config(
                        do_lower_case,
                        flags.get("max_seq_length")
                        or bert_config.max_position_embeddings,
                        truncation=flags.get("truncation", ""),
                    ),
                ),
                ("special_tokens_map.json", _SPECIAL_TOKENS),
                *([(run_files.RUN, facts)] if flags else []),
            ):
                text = json.dumps(value, indent=2, ensure_ascii=False)
                (new / name).write_text(text + "\n", encoding="utf-8")
            safetensors.numpy.save_file(tensors, new / WEIGHTS, _OURS)
            # safetensors makes a file that only its owner may read.
            (new / WEIGHTS).chmod((new / VOCAB).stat().st_mode)
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(f"{directory}: cannot export: {error}") from None


def is_export(folder: pathlib.Path, names: set[str]) -> bool:
    """Whether `folder`, whose files are `names`, was written by `export`."""
    with (
        contextlib.suppress(OSError, safetensors.SafetensorError),
        safetensors.safe_open(folder / WEIGHTS, "numpy") as opened,
    ):
        return opened.metadata() == _OURS and names <= _EXPORTED
    return False


def _tensors(
    params: Mapping[str, Any], bert_config: BertConfig, architecture: str
) -> dict[str, np.ndarray]:
    tensors = {}
    unpooled = "bert/pooler/dense/kernel" not in params
    for row in weight_names.rows_of_architecture(
        architecture, bert_config.num_hidden_layers
    ):
        if (
            unpooled
            and architecture == weight_names.ENCODER
            and "/pooler/" in row.google
        ):
            continue  # transformers initialises one at random, and warns
        if row.google not in params:
            raise UserError(
                f"cannot export: the model has no {row.google}, which {architecture}"
                " needs"
            )
        value = np.asarray(params[row.google], np.float32)
        tensors[row.hugging_face] = np.ascontiguousarray(
            value.T if row.transposed else value
        )
    return tensors


def _model_config(
    bert_config: BertConfig,
    architecture: str,
    labels: Sequence[str] | None,
    *,
    vocab: bytes,
) -> dict[str, Any]:
    """The content of config.json. A null classifier_dropout: hidden_dropout_prob."""
    words = [word.strip() for word in vocab.decode("utf-8").split("\n")]
    act = bert_config.hidden_act
    classes: dict[str, Any] = {}
    if labels is not None:
        classes["classifier_dropout"] = None
        classes["id2label"] = {str(i): label for i, label in enumerate(labels)}
        classes["label2id"] = {label: i for i, label in enumerate(labels)}
    return {
        **dataclasses.asdict(bert_config),
        **classes,
        "architectures": [architecture],
        "dtype": "float32",
        "hidden_act": _ACTIVATIONS.get(act, act),
        "model_type": "bert",
        "pad_token_id": words.index("[PAD]") if "[PAD]" in words else 0,
        "tie_word_embeddings": True,
    }


def _tokenizer_config(
    do_lower_case: bool, most: int, *, truncation: str
) -> dict[str, Any]:
    """The tokenizer_config.json of Google's tokenizer.

    most: the tokens a row holds; truncation: what is kept of a longer text.
    """
    return {
        "truncation_side": "left" if truncation == "tail" else "right",
        "split_special_tokens": True,  # a text's own "[SEP]" is no separator
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": do_lower_case,
        "strip_accents": None,  # follows do_lower_case
        "tokenize_chinese_chars": True,
        "model_max_length": most,
        **_SPECIAL_TOKENS,
    }
