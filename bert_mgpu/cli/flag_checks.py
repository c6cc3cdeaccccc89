"""Checks of flags, shared by several commands, before anything is loaded."""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import pathlib
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from bert_mgpu.checkpoints import run_folder
from bert_mgpu.config.base import RunConfig
from bert_mgpu.core import extras, files, run_files
from bert_mgpu.core.errors import UserError

_DEVICES, _START = "/dev", "init_checkpoint"
EXPORTS = "export_hf", "export_saved_model", "export_onnx"


def check_needed(
    config: Any, names: Sequence[str], why: str = "--help=all lists all flags"
) -> None:
    """Raises UserError if one of these flags is missing."""
    for name in names:
        if getattr(config, name) is None:
            raise UserError(f"--{name} is missing ({why})")


def check_casing(given: Collection[str], lower: bool, vocab_file: str) -> None:
    """Raises UserError if the folder of a vocabulary states another casing.

    given: the flags that were given; lower: the value of --do_lower_case.
    """
    from bert_mgpu.checkpoints import casing  # imports numpy

    casing.check_vocab(lower, "do_lower_case" in given, vocab_file)


def check_outputs(
    outputs: Iterable[tuple[str, str]], inputs: Iterable[tuple[str, str]]
) -> None:
    """Raises UserError if an output is not a file, or is also an input or output.

    Inputs and outputs are pairs of a flag's name and a file.
    """
    read = {name: flag for flag, file in inputs for name in _names(file)}
    written: dict[Any, str] = {}
    for flag, path in outputs:
        if os.path.isdir(path):
            raise UserError(f"--{flag}={path}: is a directory: pass the name of a file")
        # Writing replaces whatever has this name, even a device or a link to one.
        is_special = os.path.exists(path) and not os.path.isfile(path)
        if is_special or _is_among_devices(path):
            raise UserError(
                f"--{flag}={path}: a pipe or a device: pass the name of a file"
            )
        for name in _names(path):
            if name in read:
                raise UserError(
                    f"--{flag}={path}: is also --{read[name]}, and would be"
                    " overwritten: pass another name"
                )
            if name in written:
                raise UserError(
                    f"--{flag}={path}: is also --{written[name]}: give each output"
                    " its own name"
                )
        written |= dict.fromkeys(_names(path), flag)


def check_folders_differ(config: Any, flags: Iterable[str]) -> None:
    """Raises UserError if two of these flags name the same folder to write, or one of
    them the folder of --init_checkpoint, whose model would be replaced.
    """
    written: dict[str, str] = {}
    if start := getattr(config, _START, None):
        written[os.path.realpath(run_folder.folder_of(start))] = _START
    for flag in flags:
        if path := getattr(config, flag, None):
            folder = os.path.realpath(path)
            if folder in written and not _is_of_a_run(config, flag, folder):
                other = written[folder]
                is_model = ", whose files it would replace" * (other == _START)
                raise UserError(
                    f"--{flag}={path}: is also --{other}{is_model}: pass another folder"
                )
            written[folder] = flag


def _is_of_a_run(config: Any, flag: str, folder: str) -> bool:
    """Whether a run in its output_dir replaces nothing: its own run, or no training."""
    saved = glob.glob(f"{glob.escape(folder)}/{run_files.CHECKPOINT}-*.index")
    return flag == "output_dir" and bool(saved or not config.do_train)


def check_folder(flag: str, path: str) -> None:
    """Raises UserError if a file cannot be written, before any work is done for it."""
    folder = pathlib.Path(path).absolute().parent
    if not os.access(folder, os.W_OK):
        fault = "cannot write there" if folder.is_dir() else "there is no such folder"
        raise UserError(f"--{flag}={path}: {folder}: {fault}: pass another name")


def _is_among_devices(path: str) -> bool:
    """Whether a file would be created among the device files in /dev.

    False for /dev/shm, which is a file system of its own.
    """
    above = pathlib.Path(path).absolute().parents
    folder = next(str(parent) for parent in above if os.path.exists(parent))
    if not pathlib.Path(os.path.realpath(folder)).is_relative_to(_DEVICES):
        return False
    return os.stat(folder).st_dev == os.stat(_DEVICES).st_dev


def _names(path: str) -> list[Any]:
    """What identifies a file: its resolved path and, if it exists, device and inode."""
    names: list[Any] = [os.path.realpath(path)]
    with contextlib.suppress(OSError):
        status = os.stat(path)
        names.append((status.st_dev, status.st_ino))
    return names


def check_common_flags(config: RunConfig) -> None:
    """Raises UserError if flags clash, or output_dir or anything to do is missing."""
    check_needed(config, ["output_dir"], "the folder that the run writes to")
    files.check_literal(os.path.abspath(str(config.output_dir)))
    if "predict_text" in config.given and not getattr(config, "predict_text", None):
        raise UserError("--predict_text is empty: pass a text")
    asked = "do_train", "do_eval", "do_predict", "predict_text", *EXPORTS
    if not any(getattr(config, name, None) for name in asked):
        raise UserError(
            "nothing to do: pass --do_train=true, --do_eval=true, --do_predict=true or"
            " an --export flag"
        )
    check_folders_differ(config, ("output_dir", *EXPORTS))
    if config.allreduce_dtype == "bfloat16":
        raise UserError(
            "--allreduce_dtype=bfloat16: gloo, which carries the gradients between"
            " processes, has no such type: pass float16"
        )
    if config.plan and not config.do_train:
        raise UserError("--plan does nothing without --do_train=true: pass both")
    if config.predict_file and not config.do_predict:
        raise UserError("--predict_file is given: pass --do_predict=true as well")
    if config.mlflow is not None:
        _check_mlflow(config, config.mlflow)


def _check_mlflow(config: RunConfig, uri: str) -> None:
    if not config.do_train:
        raise UserError("--mlflow does nothing without --do_train=true: pass both")
    if re.search("://[^/]*:[^/]*@", uri):
        raise UserError(
            "--mlflow: a password in it would be saved in run.json: leave it out, and"
            " set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        )
    found = importlib.util.find_spec("mlflow")
    if not (found and found.origin):  # a mere folder of that name has no origin
        raise UserError(f"--mlflow needs mlflow-skinny: {extras.advice('mlflow')}")


def check_trained(path: str) -> None:
    """Raises UserError if there can be no model trained for a task at this path."""
    if not os.path.lexists(path) and not glob.glob(f"{glob.escape(path)}.*"):
        raise UserError(f"{path}: no such folder: pass that of a trained model")
    if os.path.isdir(path) and not os.path.lexists(os.path.join(path, run_files.RUN)):
        raise run_folder.no_model(path)


def check_used(given: Collection[str], names: Sequence[str], needed: str) -> None:
    """Raises UserError for given flags that do nothing without the needed one."""
    for name in names:
        if name in given:
            raise UserError(f"--{name} does nothing without {needed}: pass both")
