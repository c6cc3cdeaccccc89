"""Hugging Face folders: weights and settings in; a classifier, or what pretrains, out.

Only safetensors and JSON are read: pickle and HDF5 files can run code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes  # noqa: F401  (gives numpy the bfloat16 of safetensors)
import numpy as np
import safetensors
import safetensors.numpy

from bert_mgpu import files
from bert_mgpu.config import BertConfig
from bert_mgpu.errors import UserError, listed, shown
from bert_mgpu.interop import names

_WEIGHTS = "model.safetensors"
_VOCAB = "vocab.txt"
_SHARDS = "model.safetensors.index.json"
_UNSAFE = (".bin", ".h5", ".keras", ".pkl", ".pickle", ".pt", ".pth", ".ckpt")
_LONGEST_REASON = 300
_FLOATS = ("F64", "F32", "F16", "BF16")  # safetensors' names
_POSITION_IDS = re.compile(r"(^|\.)embeddings\.position_ids$")  # 0, 1, 2, ...
# The output embedding of masked words is the word embedding, stored once more.
_TIED = ("cls.predictions.decoder.weight", "bert/embeddings/word_embeddings")

_ACTIVATIONS = {"gelu_erf": "gelu", "gelu_tanh": "gelu_new"}
_INDEX = re.compile("[0-9]{1,9}")
_PLACEHOLDER = re.compile(r"LABEL_\d+$")  # what transformers writes by default
_OURS = {"format": "pt", "producer": "bert_mgpu"}  # header of model.safetensors
_EXPORTED = {
    _WEIGHTS,
    _VOCAB,
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


def read(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Google name -> float32 array of a folder or one .safetensors file.

    A tensor that BERT does not have keeps its own name, so that a comparison
    with the model names it. Position ids and the second copy of a tied
    embedding are left out; one that is not a copy keeps its own name too.
    """
    params: dict[str, np.ndarray] = {}
    for file, shard in _weight_files(pathlib.Path(path)).items():
        for name, value in _load(file, shard):
            row = names.of_hugging_face(name)
            key = row.google if row else name
            value = value.T if row and row.transposed else value
            if key in params and not np.array_equal(params[key], value):
                raise UserError(
                    f"{file}: {listed([name])} is there twice, with other values: this"
                    " is not a BERT model"
                )
            params[key] = np.ascontiguousarray(value, np.float32)
    copy, original = _TIED
    if {copy, original} <= params.keys() and np.array_equal(
        params[copy], params[original]
    ):
        del params[copy]
    return params


def _weight_files(path: pathlib.Path) -> Mapping[pathlib.Path, set[str] | None]:
    """File -> the names to read there (None: all)."""
    if path.is_dir():
        for name in (_WEIGHTS, _SHARDS):
            if (path / name).is_file():
                return _weight_files(path / name)
        unsafe = [p for p in sorted(path.iterdir()) if p.suffix in _UNSAFE]
        if not unsafe:
            raise UserError(f"{path}: holds no {_WEIGHTS}")
        path = unsafe[0]
    if path.suffix in _UNSAFE:
        raise UserError(
            f"{path}: files of this kind can run code and are never read:"
            f" convert it to {_WEIGHTS} with transformers:"
            " AutoModel.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)"
        )
    if not path.name.endswith(".index.json"):
        return {path: None}
    weight_map = files.read_json(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise UserError(f"{path}: has no weight_map of names and files")
    shards: dict[pathlib.Path, set[str]] = {}
    for name, file in weight_map.items():
        if pathlib.PurePath(str(file)).name != file or "\0" in file:
            raise UserError(
                f"{path}: {shown(name)} is in {shown(file)}, not a file beside the"
                " index"
            )
        shards.setdefault(path.parent / file, set()).add(name)
    return shards


def _load(
    file: pathlib.Path, wanted: set[str] | None
) -> Iterator[tuple[str, np.ndarray]]:
    """Name and value of the file's tensors, all of them floats."""
    try:
        files.open_regular(file).close()  # nothing else would end
        with safetensors.safe_open(file, framework="numpy") as opened:
            found = set(opened.keys())
            absent = sorted((wanted or set()) - found)
            if absent:
                raise UserError(f"{file}: has no tensor {listed(absent, 1)}")
            for name in sorted(found if wanted is None else wanted):
                if _POSITION_IDS.search(name):
                    continue
                kind = opened.get_slice(name).get_dtype()
                if kind not in _FLOATS:
                    raise UserError(
                        f"{file}: {listed([name])} is of type {kind}: quantized weights"
                        f" are not read; pass one of {', '.join(_FLOATS)}"
                    )
                yield name, opened.get_tensor(name)
    except (safetensors.SafetensorError, OSError) as error:
        reason = str(error)[:_LONGEST_REASON]  # it may quote the file
        raise UserError(f"{file}: not a whole safetensors file: {reason}") from None


def folder_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a folder says of its model; None for what it does not say.

    Keys: vocab_file and config_file (paths), do_lower_case, labels (in order),
    problem_type.
    A model that is not a plain BERT encoder raises UserError.
    """
    folder = pathlib.Path(path)
    config_file, vocab_file = folder / "config.json", folder / _VOCAB
    config = files.read_json(config_file) if os.path.lexists(config_file) else {}
    for key, value in (
        ("model_type", "bert"),
        ("position_embedding_type", "absolute"),
        ("is_decoder", False),
    ):
        if config.get(key) not in (None, value):
            raise UserError(
                f"{config_file}: {key} is {shown(config[key])}; only {value!r} is"
                " supported"
            )
    return {
        "vocab_file": str(vocab_file) if os.path.lexists(vocab_file) else None,
        "config_file": str(config_file) if config else None,
        "do_lower_case": _do_lower_case(folder),
        "labels": _labels(config, config_file),
        "problem_type": config.get("problem_type"),
    }


def _do_lower_case(folder: pathlib.Path) -> bool | None:
    for name, keys in (
        ("tokenizer_config.json", ("do_lower_case",)),
        ("tokenizer.json", ("normalizer", "lowercase")),
    ):
        there = os.path.lexists(folder / name)  # whatever it is, it was meant
        value: Any = files.read_json(folder / name) if there else {}
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return value
    return None


def _labels(config: Mapping[str, Any], file: pathlib.Path) -> list[str] | None:
    """Labels by index; transformers' placeholders are no labels."""
    labels = config.get("id2label")
    if not isinstance(labels, dict) or not all(map(_INDEX.fullmatch, labels)):
        return None
    ordered = [str(labels[index]) for index in sorted(labels, key=int)]
    if any(not one or "\n" in one or "\r" in one for one in ordered):
        raise UserError(f"{file}: id2label: a label is empty, or has a line's end")
    if len(set(ordered)) < len(ordered):
        raise UserError(f"{file}: id2label names a label twice")
    return None if all(map(_PLACEHOLDER.match, ordered)) else ordered


def export(
    directory: str | os.PathLike[str],
    params: Mapping[str, Any],
    config: BertConfig,
    vocab_file: str | os.PathLike[str],
    do_lower_case: bool,
    labels: Sequence[str] | None,
    problem_type: str | None = None,
) -> None:
    """Writes a folder for AutoModelForSequenceClassification and AutoTokenizer.

    Without labels it is one for AutoModelForPreTraining, or AutoModelForMaskedLM if
    the model does not tell next sentences.

    problem_type: what transformers calls the kind of a classifier.

    `params` may hold more than that model. The folder appears whole or not
    at all; of what is there already, only an earlier export is replaced.
    """
    target = pathlib.Path(directory).absolute()
    check_replaceable(target)
    architecture = names.CLASSIFIER
    if labels is None:
        next_sentence = "cls/seq_relationship/output_weights" in params
        architecture = names.PRETRAINING if next_sentence else names.MASKED_WORDS
    tensors = _tensors(params, config, architecture)
    if labels is not None and len(labels) != len(tensors["classifier.bias"]):
        raise UserError(
            f"{directory}: cannot export: {len(labels)} labels for a classifier"
            f" of {len(tensors['classifier.bias'])}"
        )
    try:
        vocab = pathlib.Path(vocab_file).read_bytes()
        with files.replacing_folder(target) as new:
            (new / _VOCAB).write_bytes(vocab)
            for name, value in (
                (
                    "config.json",
                    _model_config(config, architecture, labels, vocab)
                    | ({"problem_type": problem_type} if problem_type else {}),
                ),
                ("tokenizer_config.json", _tokenizer_config(config, do_lower_case)),
                ("special_tokens_map.json", _SPECIAL_TOKENS),
            ):
                text = json.dumps(value, indent=2, ensure_ascii=False)
                (new / name).write_text(text + "\n", encoding="utf-8")
            safetensors.numpy.save_file(tensors, new / _WEIGHTS, _OURS)
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(f"{directory}: cannot export: {error}") from None


def check_replaceable(target: pathlib.Path) -> None:
    """Lets pass an empty directory, and an earlier export with nothing else in it.

    Raises:
      UserError: it holds something else, or nothing can be written there.
    """

    def ours(found: set[str]) -> bool:
        with (
            contextlib.suppress(OSError, safetensors.SafetensorError),
            safetensors.safe_open(target / _WEIGHTS, "numpy") as opened,
        ):
            return opened.metadata() == _OURS and found <= _EXPORTED
        return False

    files.check_replaceable(target, ours)


def _tensors(
    params: Mapping[str, Any], config: BertConfig, architecture: str
) -> dict[str, np.ndarray]:
    tensors = {}
    for row in names.of_architecture(architecture, config.num_hidden_layers):
        if row.google not in params:
            raise UserError(
                f"cannot export: the model has no {row.google}: only"
                " classifiers and pretraining models are exported"
            )
        value = np.asarray(params[row.google], np.float32)
        tensors[row.hugging_face] = np.ascontiguousarray(
            value.T if row.transposed else value
        )
    return tensors


def _model_config(
    config: BertConfig, architecture: str, labels: Sequence[str] | None, vocab: bytes
) -> dict[str, Any]:
    """config.json; a classifier_dropout of null is hidden_dropout_prob."""
    words = [word.strip() for word in vocab.decode("utf-8").split("\n")]
    act = config.hidden_act
    classes: dict[str, Any] = {}
    if labels is not None:
        classes["classifier_dropout"] = None
        classes["id2label"] = {str(i): label for i, label in enumerate(labels)}
        classes["label2id"] = {label: i for i, label in enumerate(labels)}
    return {
        **dataclasses.asdict(config),
        **classes,
        "architectures": [architecture],
        "dtype": "float32",
        "hidden_act": _ACTIVATIONS.get(act, act),
        "model_type": "bert",
        "pad_token_id": words.index("[PAD]") if "[PAD]" in words else 0,
        "tie_word_embeddings": True,
    }


def _tokenizer_config(config: BertConfig, do_lower_case: bool) -> dict[str, Any]:
    """tokenizer_config.json of Google's tokenizer."""
    return {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": do_lower_case,
        "strip_accents": None,  # as do_lower_case says
        "tokenize_chinese_chars": True,
        "model_max_length": config.max_position_embeddings,
        **_SPECIAL_TOKENS,
    }
