"""Checkpoints of a run: TensorBundles with Google's TF1 names, written whole.

A checkpoint `model.ckpt-STEP` is written under a temporary name, read back, and
only then renamed, its index last: without an index there is no checkpoint. What
a resume needs beyond Google's tensors stands beside them as `bert_mgpu/...`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shutil
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from bert_mgpu import files
from bert_mgpu.errors import RunError, UserError
from bert_mgpu.interop import google_ckpt
from bert_mgpu.train import collective, optimizers, precision
from bert_mgpu.train.collective import Collective

_STEM = "model.ckpt"
_SAVING = ".saving"
_OURS = "bert_mgpu/"
_STEP = "global_step"


@dataclasses.dataclass
class TrainState:
    """Everything that a resume needs."""

    params: dict[str, np.ndarray]
    slots: dict[str, np.ndarray]  # "NAME/adam_m", "NAME/adam_v", ...
    step: int = 0  # optimizer steps done; with the seed, also the data position
    identity: dict[str, Any] | None = None  # of the run; None: not ours (TF1)

    @property
    def averaged(self) -> dict[str, np.ndarray]:
        """The weights to use: their moving averages where these are kept."""
        averages = {
            name.removesuffix(f"/{optimizers.AVERAGE}"): value
            for name, value in self.slots.items()
            if name.endswith(f"/{optimizers.AVERAGE}")
        }
        return self.params | averages


def _to_tensors(state: TrainState) -> dict[str, np.ndarray]:
    identity = json.dumps(state.identity, sort_keys=True)
    return {
        **state.params,
        **state.slots,
        _STEP: np.array(state.step, np.int64),
        f"{_OURS}identity": np.array(identity.encode(), dtype=object),
    }


def _from_tensors(tensors: dict[str, np.ndarray], prefix: str) -> TrainState:
    """Raises UserError for a step or an identity that is none."""
    first = tensors.pop(_STEP, np.array(0, np.int64))
    slots = {
        name: tensors.pop(name)
        for name in [*tensors]
        if name.rpartition("/")[2] in optimizers.SLOTS or name in precision.STATE
    }
    ours = {name: tensors.pop(name) for name in [*tensors] if name.startswith(_OURS)}
    said = ours.get(f"{_OURS}identity", np.array(b"null", object))
    try:
        step, identity = int(first.item()), json.loads(said.item())
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise UserError(f"{prefix}: damaged: {_STEP} or identity: {error}") from None
    numbered = first.dtype.kind in "iu" and step >= 0
    if not (numbered and isinstance(identity, dict | None)):
        raise UserError(f"{prefix}: damaged: not the {_STEP} or identity of a run")
    return TrainState(tensors, slots, step, identity)


def stem(step: int) -> str:
    """The name of the checkpoint of a step, as TensorFlow wants it."""
    return f"{_STEM}-{step}"


def saved_steps(directory: pathlib.Path) -> list[int]:
    """Steps that have a checkpoint in the directory, ascending."""
    found = []
    for path in directory.glob(f"{_STEM}-*.index"):
        if match := re.fullmatch(rf"{re.escape(_STEM)}-([0-9]+)\.index", path.name):
            found.append(int(match[1]))
    return sorted(found)


def save(directory: pathlib.Path, state: TrainState, keep: int) -> None:
    """Writes model.ckpt-STEP and removes all but the newest `keep` (0: none).

    Raises UserError where the disk refuses; what was there before stays whole.
    """
    temporary = directory / _SAVING
    name = stem(state.step)
    try:
        shutil.rmtree(temporary, ignore_errors=True)  # of a run that was killed
        temporary.mkdir()
        prefix = str(temporary / name)
        google_ckpt.write(prefix, _to_tensors(state))
        google_ckpt.verify(prefix)
        written = sorted(temporary.iterdir(), key=lambda p: p.suffix == ".index")
        for path in written:
            _flush(path)
        for path in written:  # the index last
            path.rename(directory / path.name)
        _flush(directory)
        # Later steps are damaged ones that this run did not resume from.
        steps = [step for step in saved_steps(directory) if step <= state.step]
        kept = steps[-keep:] if keep else steps
        _point_to(directory, kept)
        for step in set(saved_steps(directory)) - set(kept):
            _remove(directory, step)
    except (OSError, UserError) as error:
        raise UserError(
            f"{directory / name}: cannot save the checkpoint ({error}): free some"
            f" space and start the same command again: {_left(directory)}"
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_same(state: TrainState, group: Collective) -> None:
    """Raises RunError where the processes do not hold the same bits."""
    total = 0
    if group.size > 1:
        for tensors in (state.params, state.slots):
            for name in sorted(tensors):
                value = np.ascontiguousarray(tensors[name]).reshape(-1).view(np.uint8)
                total = zlib.crc32(value.data, zlib.crc32(name.encode(), total))
    said = [facts["crc"] for facts in collective.all_of(group, {"crc": total})]
    other = [rank for rank, crc in enumerate(said) if crc != said[0]]
    if other:
        raise RunError(
            f"step {state.step}: process {other[0]} holds other weights than the first:"
            " nothing is saved: look for a faulty machine, or one of another kind, then"
            " start the same command again"
        )


def _left(directory: pathlib.Path) -> str:
    steps = saved_steps(directory)
    if not steps:
        return "it will start from the beginning"
    return f"it will resume at step {steps[-1]}"


def _flush(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(directory: pathlib.Path, step: int) -> None:
    (directory / f"{stem(step)}.index").unlink(missing_ok=True)
    for path in directory.glob(f"{stem(step)}.*"):
        path.unlink(missing_ok=True)


def _point_to(directory: pathlib.Path, steps: list[int]) -> None:
    """Writes the `checkpoint` file by which TensorFlow finds the newest."""
    lines = [f'model_checkpoint_path: "{stem(steps[-1])}"']
    lines += [f'all_model_checkpoint_paths: "{stem(step)}"' for step in steps]
    with files.replacing(directory / "checkpoint") as temporary:
        temporary.write_text("\n".join(lines) + "\n")


def newest(
    directory: pathlib.Path, say: Callable[[str], None]
) -> tuple[TrainState, str] | None:
    """The newest checkpoint that is whole, and its prefix; None without any.

    A damaged one is reported and the one before it is taken. Raises UserError
    where checkpoints are there and all are damaged: starting afresh would lose
    what the run has done.
    """
    steps = saved_steps(directory)
    for step in reversed(steps):
        prefix = str(directory / stem(step))
        try:
            return _from_tensors(google_ckpt.read(prefix), prefix), prefix
        except UserError as error:
            say(f"{error}; taking the checkpoint before it")
    if steps:
        raise UserError(
            f"{directory}: all {len(steps)} checkpoints are damaged: restore one"
            " from a copy, or pass another --output_dir to start afresh"
        )
    return None
