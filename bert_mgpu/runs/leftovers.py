"""Removes what a training that saved nothing left in the output_dir of a new one."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

from bert_mgpu.checkpoints import train_state
from bert_mgpu.config.base import fields
from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import fact
from bert_mgpu.runs import identity as identity_lib
from bert_mgpu.runs.run import Run


def drop(run: Run, identity: dict[str, Any]) -> None:
    """Removes, in the first process, what could be mistaken for this training's.

    That is nothing if this training resumes. Otherwise it is the records of steps and
    of evaluations during training, whichever training made them; and the weights in
    best/ and the link to a run in MLflow, if they belong to another training. A best/
    stays if its training came to its end, or if a flag points into it. identity: of
    this training.
    """
    output_dir, config = run.output_dir, run.config
    if run.topology.group.rank > 0 or train_state.saved_steps(output_dir):
        return
    for name in (run_files.EVALUATIONS, run_files.METRICS):
        (output_dir / name).unlink(missing_ok=True)
    earlier, training = _made_by(output_dir), _training(output_dir)
    own = identity_lib.fingerprint(config, identity)
    if earlier is None or identity_lib.fingerprint(config, earlier) == own:
        return
    (output_dir / run_files.MLFLOW).unlink(missing_ok=True)
    best = output_dir / run_files.BEST
    is_dead = training is not None and "ended" not in training
    if is_dead and _made_by(best) == earlier and not _is_used(best, run):
        fact("training", f"removes {best}, of a training that saved nothing")
        shutil.rmtree(best)


def _facts(folder: pathlib.Path) -> dict[str, Any]:
    try:
        return files.read_json(folder / run_files.RUN)
    except UserError:  # absent, or damaged
        return {}


def _made_by(folder: pathlib.Path) -> dict[str, Any] | None:
    """The identity of the training that wrote a folder's run.json."""
    identity = _facts(folder).get("identity")
    return identity if isinstance(identity, dict) else None


def _training(folder: pathlib.Path) -> dict[str, Any] | None:
    """The `training` entry of run.json; None in those of older versions."""
    training = _facts(folder).get("training")
    return training if isinstance(training, dict) else None


def _is_used(folder: pathlib.Path, run: Run) -> bool:
    """Whether a flag or the vocabulary of this training is a path inside the folder."""
    settings = [getattr(run.config, one.name) for one in fields(type(run.config))]
    paths = [one for one in (*settings, run.model.vocab_file) if isinstance(one, str)]
    inside = folder.resolve()
    return any(_resolved(path).is_relative_to(inside) for path in paths)


def _resolved(path: str) -> pathlib.Path:
    try:
        return pathlib.Path(path).resolve()
    except (OSError, ValueError):  # a text that is not a path
        return pathlib.Path()
