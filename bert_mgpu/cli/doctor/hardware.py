"""Small probes of this machine, and parsers of what they print."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

SMI = (
    "nvidia-smi",
    "--query-gpu=name,memory.total,driver_version",
    "--format=csv,noheader,nounits",
)
# Run in a process of its own: TensorFlow may end the process that imports it.
SEEN = """
import json
import tensorflow as tf
gpus = tf.config.list_physical_devices("GPU")
built = tf.sysconfig.get_build_info()
cuda = {key: built.get(f"{key}_version") for key in ("cuda", "cudnn")}
print(json.dumps({"gpus": len(gpus), **cuda}))
"""
Result = TypeVar("Result")


def try_probe(probe: Callable[[], Result]) -> Result | None:
    """The result of a probe; None if it failed, so that a report shows the rest."""
    try:
        return probe()
    except Exception:
        return None


class Gpu(NamedTuple):
    """A GPU as nvidia-smi reports it."""

    name: str
    mib: float
    driver: str

    @property
    def text(self) -> str:
        return f"{self.name}, {self.mib / 1024:.1f} GiB, driver {self.driver}"


def gpus_of(text: str) -> list[Gpu]:
    """The GPUs in nvidia-smi's CSV; one without memory of its own has 0 MiB."""
    rows = [line.rsplit(",", 2) for line in text.splitlines() if line.count(",") > 1]
    return [
        Gpu(name.strip(), float(mib) if mib.strip().isdigit() else 0, driver.strip())
        for name, mib, driver in rows
    ]


def output(command: Sequence[str]) -> str:
    """The output of a command, which must end within two minutes."""
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(
        command, env=quiet, text=True, capture_output=True, timeout=120, check=True
    ).stdout


def pinned(requirements: Iterable[str]) -> str | None:
    """The TensorFlow version that lines of a requirements.txt pin, if any."""
    matches = (re.fullmatch(r"tensorflow==(\S+)", line) for line in requirements)
    return next((match[1] for match in matches if match), None)


def version(package: str) -> str | None:
    return try_probe(lambda: importlib.metadata.version(package))
