"""The first weights of a run: those of a checkpoint, as far as they fit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from bert_mgpu.checkpoints import (
    google_read,
    huggingface_read,
    pretrained,
    vocab_growth,
    weight_names,
)
from bert_mgpu.core import tensor_names
from bert_mgpu.core.errors import UserError, listed

_MAX_NAMES_SHOWN = 8
_SHARED = ("bert/", "cls/")  # by all tasks of a model: not the head of one


def first_weights(
    specs: Mapping[str, tuple[tuple[int, ...], str]],
    random: Mapping[str, np.ndarray],
    path: str | None,
    *,
    say: Callable[[str], None],
    model: pretrained.Pretrained | None = None,
    labels: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """Weights of a checkpoint for the names it has, random ones for the rest.

    Tokens of the `model` that the checkpoint's vocabulary lacks start from the mean
    of their pieces there; without a model none is new. A head for other labels than
    these starts afresh.

    Raises UserError where an encoder weight is absent or has another shape: the
    checkpoint does not belong to the config. A head may be new; that is said.
    """
    if path is None:
        say(f"no --init_checkpoint: all {len(specs)} weights start at random")
        return dict(random)
    wanted = {name: shape for name, (shape, _) in specs.items()}
    if pretrained.is_hugging_face(path):
        stored = huggingface_read.read(path)
        shapes = {name: value.shape for name, value in stored.items()}
    else:
        found = google_read.read_names(path)
        shapes = {n: found[n][0] for n in found if not _belongs_to_training(n)}
    if model and model.labels and labels and model.labels != list(labels):
        heads = [name for name in shapes if not name.startswith(_SHARED)]
        shapes = {name: shape for name, shape in shapes.items() if name not in heads}
        say(f"weights: the head there is of other labels: {listed(model.labels)}")
    grown = vocab_growth.Growth()
    if model and model.vocab_file:
        beside = pretrained.folder_of(path) / pretrained.VOCAB_FILE
        grown = vocab_growth.find_growth(
            model.vocab_file, model.tokenizer, beside, found=shapes
        )
    there = grown.shapes(shapes, wanted)
    missing, unexpected, mismatched = weight_names.describe_difference(wanted, there)
    for name in mismatched:
        if name.startswith("bert/"):
            raise UserError(
                f"{path}: {name} has shape {list(shapes[name])}, the model wants"
                f" {list(wanted[name])}: pass the --bert_config_file that belongs to"
                " it"
            )
    lost = [n for n in missing if n.startswith(("bert/embeddings", "bert/encoder"))]
    if lost:
        raise UserError(
            f"{path}: lacks {len(lost)} of the model's weights, such as {lost[0]}: it"
            " is no BERT checkpoint, or --bert_config_file belongs to another"
        )
    usable = sorted(set(wanted) - set(missing) - set(mismatched))
    if pretrained.is_hugging_face(path):
        values = {name: stored[name] for name in usable}
    else:
        values = _averaged(path, usable, found)
    say(f"weights: {len(values)} of {len(wanted)} start from {path}")
    for line in grown.lines():
        say(line)
    values = grown.apply(values, random)
    if missing:
        say(f"  new, start at random: {listed(missing, _MAX_NAMES_SHOWN)}")
    for name in mismatched:
        say(
            f"  new head: {name} has shape {list(shapes[name])} there and"
            f" {list(wanted[name])} here, starts at random"
        )
    if unexpected:
        say(f"  there but not used: {listed(unexpected, _MAX_NAMES_SHOWN)}")
    _check_finite(path, values)
    return dict(random) | {
        name: np.asarray(value, np.float32) for name, value in values.items()
    }


def read_names(path: str) -> Collection[str]:
    """The names of a checkpoint's weights, Google's where it has one."""
    if pretrained.is_hugging_face(path):
        return huggingface_read.read(path)
    return google_read.read_names(path)


def read_all(path: str) -> dict[str, np.ndarray]:
    """Every weight of a model, float32, under Google's names where it has one.

    Raises UserError for what cannot be read, or is no number.
    """
    if pretrained.is_hugging_face(path):
        values = huggingface_read.read(path)
    else:
        found = google_read.read_names(path)
        own = [name for name in found if not _belongs_to_training(name)]
        # bfloat16 is of kind V.
        floats = [name for name in own if found[name][1].kind in "fV"]
        values = _averaged(path, floats, found)
    _check_finite(path, values)
    return {name: np.asarray(value, np.float32) for name, value in values.items()}


def _averaged(
    path: str, wanted: Iterable[str], found: Collection[str]
) -> dict[str, np.ndarray]:
    """Values of a checkpoint's weights; where a run kept averages of them, those."""
    averages = {name: f"{name}/{tensor_names.AVERAGE}" for name in wanted}
    named = {n: a if a in found else n for n, a in averages.items()}
    tensors = google_read.read(path, sorted(named.values()))
    return {name: tensors[stored] for name, stored in named.items()}


def _check_finite(path: str, values: Mapping[str, np.ndarray]) -> None:
    for name, value in values.items():
        if value.dtype.kind not in "fV":  # bfloat16 is of numpy's kind V
            raise UserError(f"{path}: {name} is of type {value.dtype}: no weights")
        if not np.isfinite(value).all():
            raise UserError(
                f"{path}: {name} holds values that are no numbers: its training"
                " diverged, or it is damaged: pass another checkpoint"
            )


def _belongs_to_training(name: str) -> bool:
    last = name.rpartition("/")[2]
    ours = name.startswith("bert_mgpu/")
    return ours or last in tensor_names.SLOTS or last == "global_step"
