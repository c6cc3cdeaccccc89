"""The initial weights of a run, taken from a checkpoint as far as they fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_mgpu.checkpoints import (
    google_read,
    huggingface_read,
    pretrained,
    run_folder,
    vocab_growth,
    weight_names,
)
from bert_mgpu.core import run_files, tensor_names
from bert_mgpu.core.errors import UserError, listed

_MAX_NAMES_SHOWN = 8
_SHARED = ("bert/", "cls/")  # by all tasks of a model, unlike a task's head
_REQUIRED = ("bert/embeddings", "bert/encoder")


class StoredWeights(NamedTuple):
    """The weights of a checkpoint, under Google's names where they have one."""

    specs: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]  # name -> shape, dtype
    read: Callable[[Iterable[str]], dict[str, np.ndarray]]  # names -> values

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: shape for name, (shape, _) in self.specs.items()}


def open_weights(path: str) -> StoredWeights:
    """The weights at `path`, written by Google's code, transformers or a run.

    Where a run kept moving averages of its weights, the values are the averages.
    """
    if pretrained.is_hugging_face(path):
        tensors = huggingface_read.read(path)
        specs = {name: (value.shape, value.dtype) for name, value in tensors.items()}
        return StoredWeights(
            specs, lambda names: {name: tensors[name] for name in names}
        )
    stored = google_read.read_names(path)

    def read(names: Iterable[str]) -> dict[str, np.ndarray]:
        averages = {name: f"{name}/{tensor_names.AVERAGE}" for name in names}
        sources = {n: a if a in stored else n for n, a in averages.items()}
        values = google_read.read(path, sorted(sources.values()))
        return {name: values[source] for name, source in sources.items()}

    specs = {n: spec for n, spec in stored.items() if not _belongs_to_training(n)}
    return StoredWeights(specs, read)


def first_weights(
    specs: Mapping[str, tuple[tuple[int, ...], str]],
    random_weights: Mapping[str, np.ndarray],
    path: str | None,
    *,
    say: Callable[[str], None],
    model: pretrained.Pretrained | None = None,
    labels: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """A checkpoint's weights for the names it has, random ones for the rest.

    A token of `model` that the checkpoint's vocabulary lacks starts from the mean of
    its pieces in that vocabulary; without `model`, no token counts as new. A head that
    was trained for other labels than `labels` starts at random.

    Raises UserError where an encoder weight is absent or has another shape: the
    checkpoint does not belong to the config. A head may be new; `say` reports it.
    """
    if path is None:
        say(f"all {len(specs)} are initialised at random: no --init_checkpoint")
        return dict(random_weights)
    wanted = {name: shape for name, (shape, _) in specs.items()}
    stored = open_weights(path)
    shapes = stored.shapes
    if model and model.labels and labels and model.labels != list(labels):
        shapes = {n: shape for n, shape in shapes.items() if n.startswith(_SHARED)}
        say(f"the head of {path} has other labels: {listed(model.labels)}")
    growth = vocab_growth.Growth()
    if model and model.vocab_file:
        growth = vocab_growth.find_growth(
            model.vocab_file,
            model.required_tokenizer,
            run_folder.folder_of(path) / run_files.VOCAB,
            shapes=shapes,
        )
    difference = weight_names.describe_difference(wanted, growth.shapes(shapes, wanted))
    check_encoder(path, difference, wanted=wanted, shapes=shapes)
    missing, unexpected, mismatched = difference
    values = stored.read(sorted(wanted.keys() - {*missing, *mismatched}))
    values = _as_float32(path, values)
    say(f"{len(values)} of {len(wanted)} loaded from {path}")
    for line in growth.lines():
        say(line)
    values = growth.apply(values, random_weights)
    if missing:
        say(f"new, initialised at random: {listed(missing, _MAX_NAMES_SHOWN)}")
    for name in mismatched:
        say(
            f"new head, initialised at random: {name} has shape {list(wanted[name])},"
            f" in the checkpoint {list(shapes[name])}"
        )
    if unexpected:
        say(f"in the checkpoint but not used: {listed(unexpected, _MAX_NAMES_SHOWN)}")
    return dict(random_weights) | values


def check_encoder(
    path: str,
    difference: weight_names.Difference,
    *,
    wanted: Mapping[str, tuple[int, ...]],
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Raises UserError where a weight of the encoder is absent or has another shape.

    difference: between the model's shapes, `wanted`, and the checkpoint's, `shapes`.
    The pooler may be absent, as in models for sentence embeddings.
    """
    for name in difference.mismatched:
        if name.startswith("bert/"):
            raise UserError(
                f"{path}: {name} has shape {list(shapes[name])}, the model expects"
                f" {list(wanted[name])}: pass the --bert_config_file that belongs to it"
            )
    absent = [name for name in difference.missing if name.startswith(_REQUIRED)]
    if absent:
        raise UserError(
            f"{path}: lacks {len(absent)} of the model's weights, such as {absent[0]}:"
            " not a BERT checkpoint, or --bert_config_file belongs to another model"
        )


def read_all(path: str) -> dict[str, np.ndarray]:
    """Every weight of a model, float32, under Google's names where they have one.

    Raises UserError where a file cannot be read or a value is not a finite number.
    """
    stored = open_weights(path)
    # bfloat16 is of numpy's kind V.
    floats = [n for n, (_, dtype) in stored.specs.items() if dtype.kind in "fV"]
    return _as_float32(path, stored.read(floats))


def _as_float32(path: str, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Values as float32. Raises UserError where one is not a finite number."""
    for name, value in values.items():
        if value.dtype.kind not in "fV":  # bfloat16 is of numpy's kind V
            raise UserError(
                f"{path}: {name} is of type {value.dtype}, which no weight has"
            )
        if not np.isfinite(value).all():
            raise UserError(
                f"{path}: {name} holds NaN or infinite values: its training"
                " diverged, or it is damaged: pass another checkpoint"
            )
    return {name: np.asarray(value, np.float32) for name, value in values.items()}


def _belongs_to_training(name: str) -> bool:
    last = name.rpartition("/")[2]
    ours = name.startswith("bert_mgpu/")
    return ours or last in tensor_names.SLOTS or last == "global_step"
