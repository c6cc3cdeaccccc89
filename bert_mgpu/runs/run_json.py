"""run.json and the files beside it: what later runs, and people, read of a run."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import platform
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import bert_mgpu
from bert_mgpu.checkpoints import run_folder, train_state
from bert_mgpu.config.base import RunConfig, fields
from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.files import write_text
from bert_mgpu.core.log import fact, say
from bert_mgpu.distributed import devices
from bert_mgpu.runs.run import Run

_TRAINING = "training"  # key in run.json


def write(run: Run, identity: dict[str, Any], *, rolled_back: bool = False) -> None:
    """Writes the files of a run that is about to train.

    rolled_back: it may be back at its first step, but did not begin now.
    """
    config, model, output_dir = run.config, run.model, run.output_dir
    began = {"began": _now(), "seconds": 0.0}
    settings = {f.name: getattr(config, f.name) for f in fields(type(config))}
    settings["do_lower_case"] = model.do_lower_case
    settings["init_checkpoint"] = absolute(config.init_checkpoint)
    saved = bool(train_state.saved_steps(output_dir))
    if saved and (output_dir / run_files.RUN).is_file():  # TF1 code writes none
        settings["init_checkpoint"] = began_from(output_dir)
    if saved or rolled_back:
        began |= _training(output_dir)
    here = {
        "host": platform.node(),
        "devices": devices.device_models(run.devices) or [*run.devices],
        "batch": run.batch_in_words,
    }
    if model.tokenizer is None:  # not known
        del settings["do_lower_case"]
    facts = {
        "flags": settings,
        **({run_folder.TASK: run.data.task} if run.data.task else {}),
        "frozen": run.frozen,
        "identity": identity,
        _TRAINING: began | here,
        "versions": {
            "bert_mgpu": bert_mgpu.__version__,
            "tensorflow": tf.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    texts = {
        run_files.RUN: _as_json(facts),
        run_files.CONFIG: model.bert_config.to_google_json(),
    }
    if run.task.labels:
        texts[run_files.LABELS] = "".join(f"{label}\n" for label in run.task.labels)
    for name, text in texts.items():
        write_text(output_dir / name, text)
    if model.vocab_file:
        vocabulary = pathlib.Path(model.vocab_file).read_bytes()
        files.write_bytes(output_dir / run_files.VOCAB, vocabulary)


def note_time(output_dir: pathlib.Path, seconds: float, *, ended: bool) -> None:
    """Adds the seconds of a part of a training to run.json, and its end if reached."""
    path = output_dir / run_files.RUN
    facts = files.read_json(path)
    before = facts[_TRAINING]["seconds"]
    own = {"seconds": round(before + seconds, 1)} | ({"ended": _now()} if ended else {})
    facts[_TRAINING] = facts[_TRAINING] | own
    write_text(path, _as_json(facts))


def keep_task(task: Mapping[str, Any], output_dir: pathlib.Path) -> None:
    """Adds the task to the run.json of an older version, which did not store it."""
    path = output_dir / run_files.RUN
    if not path.is_file() or run_folder.read_task(path):
        return
    write_text(path, _as_json({**files.read_json(path), run_folder.TASK: task}))
    say(f"{path} keeps the task now: predictions need no --task_name or --data_dir")


def keep_settings(
    config: RunConfig,
    names: Collection[str],
    task: Mapping[str, Any],
    *,
    output_dir: pathlib.Path,
) -> None:
    """Makes the flags of these names that were given those of the trained model.

    names: of flags on which the weights do not depend. task: see `run.Data`.
    """
    for folder in (output_dir, output_dir / run_files.BEST):
        path = folder / run_files.RUN
        if not path.is_file():
            continue
        facts = files.read_json(path)
        own = {name: getattr(config, name) for name in names if name in config.given}
        if all(facts["flags"].get(name) == value for name, value in own.items()):
            continue
        facts["flags"] |= own
        facts[run_folder.TASK]["flags"] = task.get("flags", {})
        write_text(path, _as_json(facts))
        flags = " ".join(f"--{name}={value}" for name, value in own.items())
        fact("settings", f"{path} has {flags} now, which later predictions use")


def began_from(output_dir: pathlib.Path) -> str | None:
    """--init_checkpoint when the run in output_dir began; None if it is not known."""
    try:
        flags = files.read_json(output_dir / run_files.RUN)["flags"]
        return absolute(flags["init_checkpoint"])
    except (UserError, KeyError, TypeError):
        return None


def absolute(path: str | None) -> str | None:
    return path and os.path.abspath(path)


def _as_json(facts: dict[str, Any]) -> str:
    return json.dumps(facts, indent=2, ensure_ascii=False) + "\n"


def _now() -> str:
    """The local time with its time zone, such as 2026-11-26T18:03:59+00:00."""
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def _training(output_dir: pathlib.Path) -> dict[str, Any]:
    """The beginning and the seconds of the training so far, from run.json."""
    try:
        found = files.read_json(output_dir / run_files.RUN)[_TRAINING]
        return {"began": str(found["began"]), "seconds": float(found["seconds"])}
    except (UserError, KeyError, TypeError, ValueError):
        return {}
