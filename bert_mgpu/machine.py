"""Facts about this machine: small probes, each of a text or a folder that is given."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

SMI = (
    "nvidia-smi",
    "--query-gpu=name,memory.total,driver_version",
    "--format=csv,noheader,nounits",
)
# Asked in a process of its own: TensorFlow may end the process that imports it.
SEEN = """
import json
import tensorflow as tf
gpus = tf.config.list_physical_devices("GPU")
built = tf.sysconfig.get_build_info()
cuda = {key: built.get(f"{key}_version") for key in ("cuda", "cudnn")}
print(json.dumps({"gpus": len(gpus), **cuda}))
"""
Result = TypeVar("Result")


def tried(probe: Callable[[], Result]) -> Result | None:
    """What a probe found; None if it failed: a report tells what it can."""
    try:
        return probe()
    except Exception:
        return None


class Gpu(NamedTuple):
    """A card, as nvidia-smi tells."""

    name: str
    mib: float
    driver: str

    @property
    def text(self) -> str:
        return f"{self.name}, {self.mib / 1024:.1f} GiB, driver {self.driver}"


def gpus_of(text: str) -> list[Gpu]:
    """The cards in nvidia-smi's CSV; a card without memory of its own has 0."""
    rows = [line.rsplit(",", 2) for line in text.splitlines() if line.count(",") > 1]
    return [
        Gpu(name.strip(), float(mib) if mib.strip().isdigit() else 0, driver.strip())
        for name, mib, driver in rows
    ]


def output(command: Sequence[str]) -> str:
    """What a command prints, within two minutes."""
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(
        command, env=quiet, text=True, capture_output=True, timeout=120, check=True
    ).stdout


def cgroup_limits(
    membership: str, root: pathlib.Path = pathlib.Path("/sys/fs/cgroup")
) -> tuple[float | None, int | None]:
    """Cores and bytes that /proc/self/cgroup's groups allow, of version 1 or 2."""
    cores: list[float] = []
    memory: list[int] = []
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            top = root / controller
            group = top / path.lstrip("/")
            for folder in (group, *group.parents):
                if not folder.is_relative_to(top):
                    break
                quota = _words(folder / "cpu.max") or [
                    *_words(folder / "cpu.cfs_quota_us"),
                    *_words(folder / "cpu.cfs_period_us"),
                ]
                if len(quota) == 2 and quota[0] not in ("max", "-1"):
                    cores.append(int(quota[0]) / int(quota[1]))
                limits = _words(folder / "memory.max")
                limits += _words(folder / "memory.limit_in_bytes")
                memory += [int(limit) for limit in limits if limit != "max"]
    memory = [limit for limit in memory if limit < 1 << 60]  # version 1 has no "max"
    return min(cores, default=None), min(memory, default=None)


def _words(path: pathlib.Path) -> list[str]:
    return path.read_text().split() if path.is_file() else []


def memory_of(meminfo: str) -> tuple[int, int]:
    """Bytes of memory, and those that are available."""
    kb = dict(re.findall(r"^(\w+): +(\d+) kB$", meminfo, re.MULTILINE))
    return int(kb["MemTotal"]) << 10, int(kb["MemAvailable"]) << 10


def pinned(requirements: Iterable[str]) -> str | None:
    """The version of TensorFlow among lines of requirements.txt."""
    found = (re.fullmatch(r"tensorflow==(\S+)", line) for line in requirements)
    return next((match[1] for match in found if match), None)


def version(package: str) -> str | None:
    return tried(lambda: importlib.metadata.version(package))
