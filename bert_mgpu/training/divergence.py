"""Finds where in a training step the first non-finite number appears.

A step that is not finite changes no weight, so its pass can be repeated, uncompiled,
while every part is inspected. But steps that were launched before its result was read
have moved the weights, usually a little: with the moved weights all may be finite.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from bert_mgpu.core.observation import observed
from bert_mgpu.training import batches
from bert_mgpu.training.batches import PlacedBatch
from bert_mgpu.training.programs import Programs
from bert_mgpu.training.replicas import Replica

_LAYER = re.compile(r"bert/encoder/layer_(\d+)/")


def search(
    programs: Programs,
    replicas: Iterable[Replica],
    placed: PlacedBatch,
    *,
    towers: range,
    numbers: tuple[int, int],
) -> dict[int, str]:
    """Tower -> the first non-finite place in it, in words; finite towers are left out.

    placed: the rows of these towers; numbers: the step, from 0, and the seed.
    """
    found: dict[int, str] = {}
    counts = [len(rows["input_ids"]) for rows in placed.columns]  # micro-batches
    weights = dict.fromkeys(placed.weights, 1.0)  # the real ones may be at fault
    # Undivided sums times the loss scale could overflow where a step's means do not.
    scale = tf.constant(1.0)
    per_tower = sum(counts) // len(towers)
    number = towers.start * per_tower  # of the micro-batch, in the global batch
    for replica, rows, count in zip(replicas, placed.columns, counts, strict=True):
        for own in (batches.micro_batch(rows, index) for index in range(count)):
            hidden: list[tf.Tensor] = []
            with observed(hidden.extend):
                losses, grads = programs.losses_and_gradients(
                    replica.params,
                    own,
                    first_row=tf.constant(number * placed.rows),
                    numbers=tf.constant(numbers, tf.int64),
                    weights=weights,
                    scale=scale,
                )
            place = first_place(replica.params, own, hidden, losses=losses, grads=grads)
            if place:
                found.setdefault(number // per_tower, place)
            number += 1
    return found


def first_place(
    params: Mapping[str, Any],
    rows: Mapping[str, Any],
    hidden: Sequence[Any],
    *,
    losses: Mapping[str, Any],
    grads: Mapping[str, Any],
) -> str | None:
    """The first non-finite place in the order of a pass: forward, then backward.

    hidden: the outputs of the embeddings and of each layer.
    """
    for place, value in _places(params, rows, hidden, losses=losses, grads=grads):
        if value.dtype.is_floating and not bool(
            tf.reduce_all(tf.math.is_finite(tf.cast(value, tf.float32)))
        ):
            return place
    return None


def _places(
    params: Mapping[str, Any],
    rows: Mapping[str, Any],
    hidden: Sequence[Any],
    *,
    losses: Mapping[str, Any],
    grads: Mapping[str, Any],
) -> Iterator[tuple[str, tf.Tensor]]:
    for name, value in rows.items():
        yield f"the data ({name})", tf.convert_to_tensor(value)
    for name, value in params.items():
        yield f"the weights ({name})", tf.convert_to_tensor(value)
    for number, value in enumerate(hidden):
        yield (f"layer {number - 1}" if number else "the embeddings"), value
    for name, value in losses.items():
        yield f"the {name.replace('_', ' ')}", value
    for name in sorted(grads, key=_backwards):
        yield f"the gradient of {_part(name)} ({name})", grads[name]


def _backwards(name: str) -> tuple[int, int]:
    """A sort key: the order in which a backward pass reaches the parameters."""
    if layer := _LAYER.match(name):
        return 2, -int(layer[1])
    parts = ("bert/pooler/", 1), ("bert/embeddings/", 3)
    return next((order for start, order in parts if name.startswith(start)), 0), 0


def _part(name: str) -> str:
    layer = _LAYER.match(name)
    if layer:
        return f"layer {layer[1]}"
    if name.startswith("bert/"):
        part = name.split("/")[1]
        return part if part == "embeddings" else f"the {part}"
    return "the head"


def in_words(found: Mapping[int, str], towers: int) -> str:
    """The result of `search`: "layer 3 of tower 2" or "layer 3 of all 4 towers".

    Several places are in the order of their first towers.
    """
    if towers == 1:
        return found.get(0, "")
    of_place: dict[str, list[int]] = {}
    for tower in sorted(found):
        of_place.setdefault(found[tower], []).append(tower)
    return "; ".join(
        f"{place} of {_towers_in_words(those, towers)}"
        for place, those in of_place.items()
    )


def _towers_in_words(those: Sequence[int], towers: int) -> str:
    if len(those) == towers:
        return f"all {towers} towers"
    return f"tower{'s' * (len(those) > 1)} {', '.join(map(str, those))}"
