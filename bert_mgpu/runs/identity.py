"""The identity of a run: what a resume, or any use of its model, has to agree with."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Iterable
from typing import Any, TypeVar

from bert_mgpu.checkpoints import google_read, train_state
from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.base import RunConfig, fields
from bert_mgpu.core import hashing
from bert_mgpu.core.errors import UserError, short_repr
from bert_mgpu.core.log import say
from bert_mgpu.core.task import Task
from bert_mgpu.distributed import collective
from bert_mgpu.distributed.collective import Collective

AnyConfig = TypeVar("AnyConfig", bound=RunConfig)


def with_begun_settings(
    config: AnyConfig, folders: Iterable[pathlib.Path], group: Collective
) -> AnyConfig:
    """A run that numpy shuffled, sampled and masked for goes on with numpy.

    folders: its output_dir, or those of its seeds; the first process alone sees them.
    """
    old = group.rank == 0 and any(map(_began_with_numpy, folders))
    if not collective.all_gather_json(group, {"old": old})[0]["old"]:
        return config
    if config.do_train and config.random_numbers != "numpy":
        say("this run began with the random numbers of numpy, and goes on with them:")
        say("  under the numpy that run.json names, they are the same")
    return dataclasses.replace(config, random_numbers="numpy")


def _began_with_numpy(folder: pathlib.Path) -> bool:
    """Is there a run of ours whose identity does not name its random numbers?"""
    name = "bert_mgpu/identity"
    for step in reversed(train_state.saved_steps(folder)):
        try:
            said = google_read.read(folder / train_state.stem(step), [name])[name]
            identity = json.loads(said.item())
        except (UserError, ValueError, TypeError, RecursionError):
            continue  # damaged, which the start of the run says; or of TF1 code
        return isinstance(identity, dict) and "random_numbers" not in identity
    return False


_LONGEST = 300  # characters of a setting that are shown


def model_identity(model: Pretrained, task: Task) -> dict[str, Any]:
    """What any use of a trained model has to agree with, as JSON values."""
    facts = {"labels": list(task.labels)} | task.facts
    facts |= {"bert_config_file": dataclasses.asdict(model.bert_config)}
    if model.words is None:
        return facts
    return facts | {
        "vocab_file": hashing.fingerprint({"tokens": model.words.tokens}),
        "do_lower_case": model.do_lower_case,
    }


def identity(
    config: RunConfig,
    model: Pretrained,
    task: Task,
    *,
    data: dict[str, str],
    batch: int,
    peak_rate: float,
) -> dict[str, Any]:
    """What a run cannot change when it resumes, as JSON values by flag name.

    data: the flag that names the data -> a fingerprint of what is in it.
    """
    flags = {field.name: getattr(config, field.name) for field in _compared(config)}
    values = flags | model_identity(model, task)
    values |= {
        "task_name": task.name,
        "train_batch_size x n_gpus x gradient_accumulation_steps": batch,
        "learning_rate x lr_scaling": peak_rate,
    } | data
    if config.random_numbers != "numpy":  # whose runs began before there was the key
        values["random_numbers"] = config.random_numbers
    return json.loads(json.dumps(values))


def _compared(config: RunConfig) -> list[dataclasses.Field[Any]]:
    return [field for field in fields(type(config)) if field.metadata["identity"]]


def _check_identity(
    config: RunConfig,
    old: dict[str, Any] | None,
    new: dict[str, Any],
    *,
    output_dir: pathlib.Path,
) -> None:
    if old is None:
        return
    # A new flag's default must be what was done before there was the flag.
    old = {field.name: field.default for field in _compared(config)} | old
    shown = [
        _change(name, old[name], new[name])
        for name in new
        if name in old and old[name] != new[name]
    ]
    if shown:
        raise UserError(
            f"{output_dir} holds a run with other settings: {', '.join(shown)}: pass"
            " the old ones to resume it, or another --output_dir"
        )


def _change(name: str, old: Any, new: Any) -> str:
    flags = name if name == "labels" else f"--{name.replace(' x ', ' x --')}"
    if name.startswith("train_batch_size"):
        flags += " x processes"
    if name in ("data_dir", "input_file", "vocab_file"):  # hashes
        return f"{flags} (its contents)"
    if isinstance(new, dict) and isinstance(old, dict):
        inner = [_was(key, old.get(key), new[key]) for key in new]
        return f"{flags}: {', '.join(text for text in inner if text)}"
    return _was(flags, old, new)


def _was(name: str, old: Any, new: Any) -> str:
    before, now = (
        "not given" if value is None else _said(value) for value in (old, new)
    )
    return "" if old == new else f"{name} (was {before}, is {now})"


def _said(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else short_repr(text)
