"""The cores and the memory of this machine, within the limits of its container."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import re
from collections.abc import Iterator

_GROUPS = pathlib.Path("/sys/fs/cgroup")
# Parameters of glibc's mallopt(3) and their values: one arena, whose freed memory is
# neither trimmed nor, being of large blocks, unmapped.
_KEEP = {"M_ARENA_MAX": (-8, 1), "M_MMAP_MAX": (-4, 0), "M_TRIM_THRESHOLD": (-1, -1)}
_USERS = re.compile(r"^MALLOC_(ARENA|MMAP|TRIM)_|glibc\.malloc\.(arena|mmap|trim)_")


def _folders(membership: str, root: pathlib.Path) -> Iterator[pathlib.Path]:
    """The folders of the cgroups in /proc/self/cgroup and of all their parents."""
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            top = root / controller
            group = top / path.lstrip("/")
            for folder in (group, *group.parents):
                if not folder.is_relative_to(top):
                    break
                yield folder


def _limits(folder: pathlib.Path) -> list[int]:
    """The memory limits of a cgroup in bytes; empty without a limit."""
    words = _words(folder / "memory.max") + _words(folder / "memory.limit_in_bytes")
    limits = [int(word) for word in words if word != "max"]
    return [limit for limit in limits if limit < 1 << 60]  # huge in version 1: no limit


def cgroup_limits(
    membership: str, root: pathlib.Path = _GROUPS
) -> tuple[float | None, int | None]:
    """(cores, bytes) that the cgroups in /proc/self/cgroup allow, version 1 or 2."""
    cores: list[float] = []
    memory: list[int] = []
    for folder in _folders(membership, root):
        quota = _words(folder / "cpu.max") or [
            *_words(folder / "cpu.cfs_quota_us"),
            *_words(folder / "cpu.cfs_period_us"),
        ]
        if len(quota) == 2 and quota[0] not in ("max", "-1"):
            cores.append(int(quota[0]) / int(quota[1]))
        memory += _limits(folder)
    return min(cores, default=None), min(memory, default=None)


def cgroup_memory_left(membership: str, root: pathlib.Path = _GROUPS) -> int | None:
    """The bytes of memory that the cgroups still allow; None without a limit.

    Cached files do not count as used: the kernel frees them when memory is short.
    """
    left = []
    for folder in _folders(membership, root):
        used = [
            *_words(folder / "memory.current"),
            *_words(folder / "memory.usage_in_bytes"),
        ]
        for limit in _limits(folder):
            cached = 0
            with contextlib.suppress(OSError):
                stat = (folder / "memory.stat").read_text()
                if match := re.search(r"^inactive_file (\d+)$", stat, re.MULTILINE):
                    cached = int(match[1])
            left.append(limit - int(used[0]) + cached if used else limit)
    return max(0, min(left)) if left else None


def memory_left() -> int | None:
    """The bytes of memory that this process may still allocate; None if unknown."""
    bounds = []
    with contextlib.suppress(OSError, KeyError):
        bounds.append(parse_meminfo(pathlib.Path("/proc/meminfo").read_text())[1])
    with contextlib.suppress(OSError, ValueError):
        group = cgroup_memory_left(pathlib.Path("/proc/self/cgroup").read_text())
        bounds += [] if group is None else [group]
    return min(bounds, default=None)


def keep_freed_memory() -> None:
    """Makes malloc keep freed memory for the next tensors of a run on the CPU.

    By default glibc returns each large block to the kernel, which hands it out again
    page by page, filled with zeros: a seventh of the time of a training step on two
    cores. Call it before the threads that allocate start: each may have its own arena.
    The user's settings of malloc have priority; without glibc nothing changes.
    """
    names = [*os.environ, os.environ.get("GLIBC_TUNABLES", "")]
    if any(map(_USERS.search, names)):
        return
    with contextlib.suppress(AttributeError):  # musl and macOS have no mallopt
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in _KEEP.values():
            mallopt(parameter, value)


def _words(path: pathlib.Path) -> list[str]:
    return path.read_text().split() if path.is_file() else []


def parse_meminfo(meminfo: str) -> tuple[int, int]:
    """(total, available) bytes of memory, from the text of /proc/meminfo."""
    kb = dict(re.findall(r"^(\w+): +(\d+) kB$", meminfo, re.MULTILINE))
    return int(kb["MemTotal"]) << 10, int(kb["MemAvailable"]) << 10
