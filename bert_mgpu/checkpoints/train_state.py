"""Checkpoints of a run: TensorBundles with Google's TF1 names, written atomically.

A checkpoint `model.ckpt-STEP` is written under a temporary name, read back, and
only then renamed, its index last: without an index there is no checkpoint. Besides
Google's tensors it has those named `bert_mgpu/...`, needed only to resume.
"""

from __future__ import annotations

import errno
import json
import os
import pathlib
import re
import shutil
from collections.abc import Callable

import numpy as np

from bert_mgpu.checkpoints import google_read
from bert_mgpu.core import files, run_files, tensor_names
from bert_mgpu.core.errors import Unreadable, UserError
from bert_mgpu.core.task import TrainState

_OURS = "bert_mgpu/"
_STEP = "global_step"
_CANNOT_FLUSH = (errno.EINVAL, errno.EBADF, errno.ENOTSUP)  # of a folder, somewhere


def _to_tensors(state: TrainState) -> dict[str, np.ndarray]:
    identity = json.dumps(state.identity, sort_keys=True)
    return {
        **state.params,
        **state.slots,
        _STEP: np.array(state.step, np.int64),
        f"{_OURS}identity": np.array(identity.encode(), dtype=object),
    }


def _from_tensors(tensors: dict[str, np.ndarray], prefix: str) -> TrainState:
    """The state in `tensors`. Raises UserError where step or identity is damaged."""
    step_tensor = tensors.pop(_STEP, np.array(0, np.int64))
    slots = {
        name: tensors.pop(name)
        for name in [*tensors]
        if name.rpartition("/")[2] in tensor_names.SLOTS or name in tensor_names.STATE
    }
    ours = {name: tensors.pop(name) for name in [*tensors] if name.startswith(_OURS)}
    text = ours.get(f"{_OURS}identity", np.array(b"null", object))
    try:
        step, identity = int(step_tensor.item()), json.loads(text.item())
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise UserError(f"{prefix}: damaged: {_STEP} or identity: {error}") from None
    numbered = step_tensor.dtype.kind in "iu" and step >= 0
    if not (numbered and isinstance(identity, dict | None)):
        raise UserError(f"{prefix}: damaged: not the {_STEP} or identity of a run")
    return TrainState(tensors, slots, step, identity=identity)


def stem(step: int) -> str:
    """The name of a step's checkpoint, without .index."""
    return f"{run_files.CHECKPOINT}-{step}"


def saved_steps(directory: pathlib.Path) -> list[int]:
    """The steps that have a checkpoint in the directory, ascending.

    Raises Unreadable where the directory is there, but cannot be listed.
    """
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise Unreadable(directory, error.strerror) from None
    pattern = re.compile(rf"{re.escape(run_files.CHECKPOINT)}-([0-9]+)\.index")
    return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match)


def newest_intact(directory: pathlib.Path) -> int:
    """The step of the checkpoint that `newest` reads; 0 if there is none.

    Raises Unreadable where one may be intact.
    """
    for step in reversed(saved_steps(directory)):
        try:
            google_read.verify(str(directory / stem(step)))
        except Unreadable:
            raise
        except UserError:
            continue
        return step
    return 0


def save(directory: pathlib.Path, state: TrainState, keep: int) -> None:
    """Writes model.ckpt-STEP and removes all but the newest `keep` (0: removes none).

    Raises UserError where it cannot be written; earlier checkpoints stay intact.
    """
    temporary = directory / run_files.SAVING
    name = stem(state.step)
    try:
        shutil.rmtree(temporary, ignore_errors=True)  # left by a run that was killed
        temporary.mkdir()
        prefix = str(temporary / name)
        google_read.write(prefix, _to_tensors(state))
        google_read.verify(prefix)
        written = sorted(temporary.iterdir(), key=lambda p: p.suffix == ".index")
        for path in written:
            _flush(path)
        for path in written:  # the index last
            path.rename(directory / path.name)
        _flush(directory)
        # Later checkpoints are damaged: this run did not resume from them.
        steps = [step for step in saved_steps(directory) if step <= state.step]
        kept = steps[-keep:] if keep else steps
        _point_to(directory, kept)
        for step in set(saved_steps(directory)) - set(kept):
            _remove(directory, step)
    except (OSError, UserError) as error:
        raise UserError(
            f"{directory / name}: cannot save the checkpoint ({error}): free some"
            f" space and run the same command again: {_next_start(directory)}"
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _next_start(directory: pathlib.Path) -> str:
    steps = saved_steps(directory)
    if not steps:
        return "it will start from the beginning"
    return f"it will resume at step {steps[-1]}"


def _flush(path: pathlib.Path) -> None:
    """Puts a file or folder on the disk, as far as its file system can."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not (path.is_dir() and error.errno in _CANNOT_FLUSH):
            raise
    finally:
        os.close(descriptor)


def _remove(directory: pathlib.Path, step: int) -> None:
    (directory / f"{stem(step)}.index").unlink(missing_ok=True)
    for path in directory.glob(f"{stem(step)}.*"):
        path.unlink(missing_ok=True)


def _point_to(directory: pathlib.Path, steps: list[int]) -> None:
    """Writes the file `checkpoint`, by which TensorFlow finds the newest one."""
    lines = [f'model_checkpoint_path: "{stem(steps[-1])}"']
    lines += [f'all_model_checkpoint_paths: "{stem(step)}"' for step in steps]
    with files.replacing(directory / "checkpoint") as temporary:
        temporary.write_text("\n".join(lines) + "\n")


def newest(
    directory: pathlib.Path, say: Callable[[str], None]
) -> tuple[TrainState, str] | None:
    """The newest intact checkpoint and its prefix; None if there are no checkpoints.

    A damaged one is reported, and the one before it is taken. Raises UserError where
    all are damaged: starting afresh would lose the work of the run. Raises Unreadable
    where one may be intact: continuing from an earlier one would delete it.
    """
    steps = saved_steps(directory)
    for step in reversed(steps):
        prefix = str(directory / stem(step))
        try:
            return _from_tensors(google_read.read(prefix), prefix), prefix
        except Unreadable:
            raise
        except UserError as error:
            say(f"{error}; trying the checkpoint before it")
    if steps:
        raise UserError(
            f"{directory}: all {len(steps)} checkpoints are damaged: restore one"
            " from a copy, or pass another --output_dir to start afresh"
        )
    return None
