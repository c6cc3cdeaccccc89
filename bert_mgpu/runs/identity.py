"""The identity of a run: the facts that must stay the same when it resumes."""

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
from bert_mgpu.core.log import fact
from bert_mgpu.core.task import Task
from bert_mgpu.distributed import collective
from bert_mgpu.distributed.collective import Collective

AnyConfig = TypeVar("AnyConfig", bound=RunConfig)


def with_original_random_numbers(
    config: AnyConfig, folders: Iterable[pathlib.Path], group: Collective
) -> AnyConfig:
    """The flags, set to numpy's random numbers if the run began with them.

    folders: the output_dir, or one for each seed; only the first process reads them.
    """
    old = group.rank == 0 and any(map(_began_with_numpy, folders))
    if not collective.all_gather_json(group, {"old": old})[0]["old"]:
        return config
    if config.do_train and config.random_numbers != "numpy":
        fact(
            "resuming",
            "a run that began with numpy's random numbers, and continues with them:"
            " they are the same with the version of numpy that run.json names",
        )
    return dataclasses.replace(config, random_numbers="numpy")


def _began_with_numpy(folder: pathlib.Path) -> bool:
    """Whether the run in a folder has an identity without a `random_numbers` key."""
    name = "bert_mgpu/identity"
    for step in reversed(train_state.saved_steps(folder)):
        try:
            text = google_read.read(folder / train_state.stem(step), [name])[name]
            identity = json.loads(text.item())
        except (UserError, ValueError, TypeError, RecursionError):
            continue  # damaged, which is reported on loading; or written by TF1 code
        return isinstance(identity, dict) and "random_numbers" not in identity
    return False


_SAMPLED_BY = "sampled_by"  # key: the seed of the sample that all --seeds share
_LONGEST = 300  # characters of a setting in a message


def model_identity(model: Pretrained, task: Task) -> dict[str, Any]:
    """The facts that any use of a trained model has to match, as JSON values."""
    facts = {"labels": list(task.labels)} | task.facts
    facts |= {"bert_config_file": dataclasses.asdict(model.bert_config)}
    if model.tokenizer is None:
        return facts
    return facts | {
        "vocab_file": hashing.fingerprint({"tokens": model.tokenizer.tokens}),
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
    """The facts that cannot change when a run resumes, as JSON values by flag name.

    data: the flag that names the data -> a fingerprint of the data.
    """
    flags = {field.name: getattr(config, field.name) for field in _compared(config)}
    values = flags | model_identity(model, task)
    values |= {
        "task_name": task.name,
        "train_batch_size x n_gpus x gradient_accumulation_steps": batch,
        "learning_rate x lr_scaling": peak_rate,
    } | data
    if config.random_numbers != "numpy":  # runs with numpy's are older than this key
        values["random_numbers"] = config.random_numbers
    samples = getattr(config, "max_train_examples", None)
    if samples and config.sampled_by not in (None, config.seed):  # else redundant
        values[_SAMPLED_BY] = config.sampled_by
    return json.loads(json.dumps(values))


def without_defaults(config: RunConfig, values: dict[str, Any]) -> dict[str, Any]:
    """An identity without the flags that have their default values.

    So it stays the same for later versions, which have more flags.
    """
    defaults = {field.name: field.default for field in _compared(config)}
    return {
        name: value
        for name, value in values.items()
        if name != _SAMPLED_BY and (name not in defaults or defaults[name] != value)
    }


def fingerprint(config: RunConfig, values: dict[str, Any]) -> str:
    """A hash of an identity, which stays the same for later versions."""
    return hashing.fingerprint(without_defaults(config, values))


def _compared(config: RunConfig) -> list[dataclasses.Field[Any]]:
    return [field for field in fields(type(config)) if field.metadata["identity"]]


def check_identity(
    config: RunConfig,
    old: dict[str, Any] | None,
    new: dict[str, Any],
    *,
    output_dir: pathlib.Path,
) -> None:
    """Raises UserError, listing all differences, if output_dir holds another run.

    old: the identity of the run in output_dir, None if it has none.
    """
    if old is None:
        return
    # A run that is older than a flag behaved like the flag's default.
    old = {field.name: field.default for field in _compared(config)} | old
    if _SAMPLED_BY in old and "seed" in new:
        new = {_SAMPLED_BY: new["seed"]} | new
    if _SAMPLED_BY in new and "seed" in old:
        old = {_SAMPLED_BY: old["seed"]} | old
    changes = [
        _change(name, old[name], new[name])
        for name in new
        if name in old and old[name] != new[name]
    ]
    if changes:
        raise UserError(
            f"{output_dir} holds a run with other settings: {', '.join(changes)}: pass"
            " the old ones to resume it, or another --output_dir"
        )


def _change(name: str, old: Any, new: Any) -> str:
    if name == _SAMPLED_BY:
        return _old_and_new("the seed of --max_train_examples", old, new)
    flags = name if name == "labels" else f"--{name.replace(' x ', ' x --')}"
    if name.startswith("train_batch_size"):
        flags += " x processes"
    if name in ("data_dir", "input_file", "vocab_file"):  # their values are hashes
        return f"{flags} (its contents)"
    if isinstance(new, dict) and isinstance(old, dict):
        inner = [_old_and_new(key, old.get(key), new[key]) for key in new]
        return f"{flags}: {', '.join(text for text in inner if text)}"
    return _old_and_new(flags, old, new)


def _old_and_new(name: str, old: Any, new: Any) -> str:
    before, now = (
        "not given" if value is None else _short(value) for value in (old, new)
    )
    return "" if old == new else f"{name} (was {before}, is {now})"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else short_repr(text)
