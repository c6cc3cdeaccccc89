"""Loads models silently into the caller's process, and closes them again."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import pathlib
import sys
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

from bert_mgpu.core import log
from bert_mgpu.core.errors import (
    OutOfMemory,
    UserError,
    memory_advice,
    out_of_memory,
    short_repr,
)

NO_TEXTS = "pass a text, or a list of texts, such as a column of a data frame"
BLOCK = 1024  # texts that are sorted, computed and kept in memory together
Parts = TypeVar("Parts")
Self = TypeVar("Self", bound="LoadedParts")
_LOADING = threading.Lock()  # the first load configures the whole process
# The precision of that load; empty if TensorFlow was imported before it.
_CONFIGURED: dict[str, str] = {}


def are_texts(value: object) -> bool:
    """Whether a value may yield texts: bytes yield ints, data frames column names."""
    is_other = isinstance(value, bytes) or hasattr(value, "columns")
    return hasattr(value, "__iter__") and not is_other


def path_of(folder: object) -> pathlib.Path:
    """The path of a model's folder. Raises UserError for anything but a path."""
    if not isinstance(folder, str | os.PathLike):
        raise UserError(f"{short_repr(folder)}: pass the folder of a model")
    return pathlib.Path(folder)


class LoadedParts(Generic[Parts]):
    """The parts of a model, which threads may share until it is closed.

    Use it in a `with` block, or call `close`, to free its memory.
    """

    def __init__(self, parts: Parts, path: str):
        """path: the model's path, for messages."""
        self._parts: Parts | None = parts
        self._path = path
        self._lock = threading.Lock()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the weights, after any call that is still running."""
        with self._lock:
            self._parts = None
        gc.collect()  # tf.functions reference one another, and the weights

    def _open_parts(self) -> Parts:
        """The parts. Raises UserError if the model is closed."""
        if self._parts is None:
            raise UserError(f"the model of {self._path} is closed: load it again")
        return self._parts


@contextlib.contextmanager
def silent_load(path: pathlib.Path, recompute: str = "none") -> Iterator[None]:
    """Runs one load at a time, and hides its output. Raises OutOfMemory.

    path: the model's path; recompute: the flag's value; both for that error's message.
    """
    with _LOADING, log.quiet():
        try:
            with _no_messages_of("tensorflow"):
                yield
        except Exception as error:
            if shortage := out_of_memory(error):
                advice = memory_advice(False, recompute)
                raise OutOfMemory(f"{path}: {shortage}: {advice}") from None
            raise


def own_devices(device: str, precision: str) -> list[str]:
    """The devices of this process, configured if this first imports TensorFlow."""
    if "tensorflow" in sys.modules:
        from bert_mgpu.distributed import devices

        named = devices.present(device)
        _check_tf32(named, precision)
        return named
    with _no_native_messages():
        from bert_mgpu.distributed import devices

        # All GPUs, since a model that is loaded later may use more than this one.
        named = devices.configure(device, 1, sys.maxsize, tf32=precision == "tf32")
        devices.present(device)  # which initialises them
        _CONFIGURED["precision"] = precision
        return named


def _check_tf32(devices: list[str], precision: str) -> None:
    """Raises UserError if an earlier load has set another rounding on the GPUs."""
    first = _CONFIGURED.get("precision")
    pair = {first, precision}
    if devices[0].startswith("GPU") and pair == {"float32", "tf32"}:
        raise UserError(
            f"precision={precision!r}: the first model of this process was loaded with"
            f" {first!r}, which holds for all: pass that, or load it in another process"
        )


@contextlib.contextmanager
def _no_messages_of(name: str) -> Iterator[None]:
    """Silences a logger but for errors: notebooks would show TensorFlow's messages."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def _no_native_messages() -> Iterator[None]:
    """Hides what TensorFlow's C++ code writes to file descriptor 2."""
    try:
        kept = os.dup(2)
    except OSError:  # it is closed, as in some services
        yield
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
