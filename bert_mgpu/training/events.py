"""The TensorBoard event file of a run."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import tensorflow as tf


class Events:
    """The event file of a run, created when its first values are added.

    All values share one file: TensorBoard may follow only the newest of a folder.
    """

    def __init__(self, directory: pathlib.Path):
        self._directory = directory

    @functools.cached_property
    def _file(self) -> Any:
        return tf.summary.create_file_writer(str(self._directory))

    def add(self, set_name: str, values: Mapping[str, Any]) -> None:
        """Adds the numbers of a record as scalars SET/NAME, at the record's `step`."""
        with self._file.as_default(step=values["step"]):
            for name, value in values.items():
                if name not in ("step", "set", "time") and value is not None:
                    tf.summary.scalar(f"{set_name}/{name}", value)

    def flush(self) -> None:
        self._file.flush()

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *error: object) -> None:
        if "_file" in self.__dict__:
            self._file.close()
