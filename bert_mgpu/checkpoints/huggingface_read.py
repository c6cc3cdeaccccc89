"""Hugging Face folders: reading their weights and settings.

Only safetensors and JSON are read: pickle and HDF5 files can run code.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import ml_dtypes  # noqa: F401  (gives numpy the bfloat16 of safetensors)
import numpy as np
import safetensors

from bert_mgpu.checkpoints import weight_names
from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import UserError, listed, short_repr

WEIGHTS = "model.safetensors"
VOCAB = "vocab.txt"
_SHARDS = "model.safetensors.index.json"
_UNSAFE = (".bin", ".h5", ".keras", ".pkl", ".pickle", ".pt", ".pth", ".ckpt")
_LONGEST_REASON = 300
_FLOATS = ("F64", "F32", "F16", "BF16")  # safetensors' names
_POSITION_IDS = re.compile(r"(^|\.)embeddings\.position_ids$")  # 0, 1, 2, ...
# The output embedding of the masked LM is the word embedding, stored a second time.
_TIED = ("cls.predictions.decoder.weight", "bert/embeddings/word_embeddings")

_INDEX = re.compile("[0-9]{1,9}")
_PLACEHOLDER = re.compile(r"LABEL_\d+$")  # what transformers writes by default

# The files that describe a tokenizer, the object in each that does (None: the whole
# file), and its keys for lower-casing, stripping accents, splitting Chinese characters.
_TOKENIZERS = (
    (
        "tokenizer_config.json",
        None,
        ("do_lower_case", "strip_accents", "tokenize_chinese_chars"),
    ),
    (
        "tokenizer.json",
        "normalizer",
        ("lowercase", "strip_accents", "handle_chinese_chars"),
    ),
)
_OTHERS = ("BertJapaneseTokenizer",)
_BERTS = "BertNormalizer"


def read(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Google name -> float32 array, from a folder or one .safetensors file.

    A tensor that BERT does not have keeps its own name, so that a comparison
    with the model reports it. Position ids and the second copy of a tied
    embedding are left out; a copy with other values keeps its own name too.
    """
    params: dict[str, np.ndarray] = {}
    for file, shard in _weight_files(pathlib.Path(path)).items():
        for name, value in _load(file, shard):
            row = weight_names.row_by_hugging_face(name)
            key = row.google if row else name
            value = value.T if row and row.transposed else value
            if key in params and not np.array_equal(params[key], value):
                raise UserError(
                    f"{file}: {listed([name])} is there twice, with different values:"
                    " this is not a BERT model"
                )
            params[key] = np.ascontiguousarray(value, np.float32)
    copy, original = _TIED
    if {copy, original} <= params.keys() and np.array_equal(
        params[copy], params[original]
    ):
        del params[copy]
    return params


def _weight_files(path: pathlib.Path) -> Mapping[pathlib.Path, set[str] | None]:
    """File -> the names of the tensors to read from it (None: all)."""
    if path.is_dir():
        for name in (WEIGHTS, _SHARDS):
            if (path / name).is_file():
                return _weight_files(path / name)
        unsafe = [p for p in sorted(path.iterdir()) if p.suffix in _UNSAFE]
        if not unsafe:
            raise UserError(f"{path}: holds no {WEIGHTS}")
        path = unsafe[0]
    if path.suffix in _UNSAFE:
        raise UserError(
            f"{path}: files of this kind can run code and are never read:"
            f" convert it to {WEIGHTS} with transformers, in the same folder:"
            " AutoModelForPreTraining.from_pretrained(FOLDER)"
            ".save_pretrained(FOLDER, safe_serialization=True)"
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
                f"{path}: {short_repr(name)} is in {short_repr(file)}, not a file"
                " beside the index"
            )
        shards.setdefault(path.parent / file, set()).add(name)
    return shards


def _load(
    file: pathlib.Path, wanted: set[str] | None
) -> Iterator[tuple[str, np.ndarray]]:
    """The name and value of each tensor of the file, all of them floats."""
    try:
        files.open_regular(file).close()  # a pipe would be read without end
        with safetensors.safe_open(file, framework="numpy") as opened:
            stored = set(opened.keys())
            absent = sorted((wanted or set()) - stored)
            if absent:
                raise UserError(f"{file}: has no tensor {listed(absent, 1)}")
            for name in sorted(stored if wanted is None else wanted):
                if _POSITION_IDS.search(name):
                    continue
                dtype = opened.get_slice(name).get_dtype()
                if dtype not in _FLOATS:
                    raise UserError(
                        f"{file}: {listed([name])} is of type {dtype}: quantized"
                        f" weights are not read; pass one of {', '.join(_FLOATS)}"
                    )
                yield name, opened.get_tensor(name)
    except (safetensors.SafetensorError, OSError) as error:
        reason = str(error)[:_LONGEST_REASON]  # the message may quote the file
        raise UserError(
            f"{file}: not a whole safetensors file: {reason}: download"
            " it again (git lfs pull, if it came from git)"
        ) from None


def folder_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings of a folder's model; None for those that the folder lacks.

    Keys: vocab_file and config_file (paths), do_lower_case, labels (in order),
    problem_type. Raises UserError where the model is not a plain BERT encoder.
    """
    folder = pathlib.Path(path)
    config_file, vocab_file = folder / "config.json", folder / VOCAB
    config = files.read_json(config_file) if files.lexists(config_file) else {}
    for key, value in (
        ("model_type", "bert"),
        ("position_embedding_type", "absolute"),
        ("is_decoder", False),
    ):
        if config.get(key) not in (None, value):
            raise UserError(
                f"{config_file}: {key} is {short_repr(config[key])}; only {value!r} is"
                " supported"
            )
    return {
        "vocab_file": str(vocab_file) if files.lexists(vocab_file) else None,
        "config_file": str(config_file) if config else None,
        "do_lower_case": do_lower_case(folder),
        "labels": _labels(config, config_file),
        "problem_type": config.get("problem_type"),
    }


def do_lower_case(folder: pathlib.Path) -> bool | None:
    """Whether a folder's tokenizer is uncased; None if the folder does not say.

    Raises UserError where that tokenizer does something that ours does not.
    """
    lower: bool | None = None
    for name, part, names in _TOKENIZERS:
        # Even if it is not a regular file: the name shows what it is meant to be.
        exists = files.lexists(folder / name)
        values: Any = files.read_json(folder / name) if exists else {}
        if part:
            values = _normalizer(values.get(part), folder / name)
        own = [values.get(key) if isinstance(values, dict) else None for key in names]
        if lower is None and isinstance(own[0], bool):
            lower = own[0]
        for key, value, wanted in zip(names[1:], own[1:], (lower, True), strict=True):
            # Null stands for BERT's rule: accents are stripped if text is lower-cased.
            if isinstance(value, bool) and wanted is not None and value != wanted:
                casing = "an uncased" if lower else "a cased"
                raise UserError(
                    f"{folder / name}: {key} is {str(value).lower()}: the tokenizer of"
                    f" {casing} BERT has {str(wanted).lower()}, and no other is"
                    " supported"
                )
        if isinstance(values, dict) and values.get("tokenizer_class") in _OTHERS:
            raise UserError(
                f"{folder / name}: tokenizer_class is {values['tokenizer_class']},"
                " whose words are found by other rules: only BERT's WordPiece is"
                " supported"
            )
    return lower


def ignored_tokens(vocab_file: str | None, known: Collection[str]) -> list[str]:
    """A line on tokens that a folder's tokenizer.json adds to its vocab.txt, or []."""
    if vocab_file is None:
        return []
    path = pathlib.Path(vocab_file).with_name("tokenizer.json")
    added = files.read_json(path).get("added_tokens") if path.is_file() else None
    listed_there = added if isinstance(added, list) else []
    names = [one.get("content") for one in listed_there if isinstance(one, dict)]
    unknown = [str(name) for name in names if name not in known]
    if not unknown:
        return []
    return [
        f"WARNING: {path} adds tokens that {vocab_file} lacks:"
        f" {listed(unknown, quoted=True)}: texts that have them are read as if they"
        " were words"
    ]


def _normalizer(values: Any, file: pathlib.Path) -> Any:
    """The settings of BERT's normalizer, also where it is the only one of a sequence.

    Raises UserError for normalizers that change texts in other ways.
    """
    if not isinstance(values, dict) or values.get("type") == _BERTS:
        return values
    inner = values.get("normalizers")
    if isinstance(inner, list) and len(inner) == 1:
        return _normalizer(inner[0], file)
    if "type" not in values:
        return values
    raise UserError(
        f"{file}: normalizer is {short_repr(values['type'])}: only {_BERTS} is"
        " supported"
    )


def _labels(config: Mapping[str, Any], file: pathlib.Path) -> list[str] | None:
    """The labels in the order of the classes; None for transformers' placeholders."""
    labels = config.get("id2label")
    if not isinstance(labels, dict) or not all(map(_INDEX.fullmatch, labels)):
        return None
    ordered = [str(labels[index]) for index in sorted(labels, key=int)]
    if any(not label or "\n" in label or "\r" in label for label in ordered):
        raise UserError(f"{file}: id2label: a label is empty, or has a line break")
    if len(set(ordered)) < len(ordered):
        raise UserError(f"{file}: id2label names a label twice")
    is_ours = files.lexists(file.with_name(run_files.RUN))  # and so are its labels
    return None if all(map(_PLACEHOLDER.match, ordered)) and not is_ours else ordered
