"""The interface to horovodrun: a process's rank, the key-value store, restarts.

The rank is passed in environment variables; the store, through which processes find
each other, is reached over HTTP. Nothing here imports horovod.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import platform
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from bert_mgpu.core.errors import UserError

# The number of parts into which --train_batch_size is split after a step did not fit.
PARTS = "BERT_MGPU_PARTS"
TOWERS = "BERT_MGPU_TOWERS"  # of an elastic job; the remaining processes keep them all
GLOO_TIMEOUT = "HOROVOD_GLOO_TIMEOUT_SECONDS"
_PATIENCE = 120  # seconds
# The cores that this process may use, before it limits itself to its share.
_CORES = sorted(os.sched_getaffinity(0))
_NAMES = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")


class ProcessRank(NamedTuple):
    """The rank of this process, among all and on its host; by default, the only one."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # among the processes on its host
    local_size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the first process, which alone writes files and logs."""
        return self.rank == 0

    @property
    def is_single(self) -> bool:
        return self.size == 1


def process_rank(environment: Mapping[str, str] = os.environ) -> ProcessRank:
    """The rank that horovodrun assigned. Raises UserError for incomplete variables."""
    names = [f"HOROVOD_{name}" for name in _NAMES[:4]]
    if "HOROVOD_RANK" not in environment:
        return ProcessRank()
    try:
        own = ProcessRank(*(int(environment[name]) for name in names))
    except (KeyError, ValueError):
        variables = [f"{name}={environment.get(name, '')}" for name in names]
        raise UserError(
            f"{', '.join(variables)}: not the rank of a process: start it with"
            " horovodrun, or unset HOROVOD_RANK"
        ) from None
    if not (0 <= own.rank < own.size and 0 <= own.local_rank < own.local_size):
        raise UserError(
            f"HOROVOD_RANK={own.rank} of HOROVOD_SIZE={own.size}: there is no such"
            " process: start it with horovodrun, or unset HOROVOD_RANK"
        )
    return own


def cores(local_rank: int, local_size: int) -> list[int]:
    """The cores of a process: its share of those that the job may use on its host.

    Empty if there are fewer cores than processes.
    """
    share = len(_CORES) // local_size
    return _CORES[local_rank * share : (local_rank + 1) * share]


def is_elastic(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the job goes on when a process is lost."""
    return environment.get("HOROVOD_ELASTIC") == "1" and "HOROVOD_RANK" in environment


def total_towers(environment: Mapping[str, str] = os.environ) -> int | None:
    """The number of towers of a restarted elastic job, in all processes; else None."""
    value = environment.get(TOWERS)
    return int(value) if value else None


def batch_parts(environment: Mapping[str, str] = os.environ) -> int:
    """The number of parts into which this process splits --train_batch_size."""
    value = environment.get(PARTS, "1")
    if not value.isdecimal() or not int(value):
        raise UserError(f"{PARTS}={value}: not a number of parts: unset it")
    return int(value)


def store_address() -> tuple[str, int] | None:
    """Host and port of horovodrun's store; None under launchers without one."""
    host = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    port = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT")
    return (host, int(port)) if host and port else None


def own_address() -> str:
    """The address of this host as the other processes see it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(store_address() or ("127.0.0.1", 1))  # sends nothing
        return probe.getsockname()[0]


def patience() -> int:
    """The seconds within which all processes must have started.

    120, or horovodrun's timeout if that is longer: its default of 30 is too short where
    a busy machine loads TensorFlow slowly.
    """
    timeout = os.environ.get(GLOO_TIMEOUT, "0")
    if not timeout.isdecimal():
        raise UserError(f"{GLOO_TIMEOUT}={timeout}: pass a number of seconds")
    return max(int(timeout), _PATIENCE)


def machine_id() -> str:
    """An id of this machine; several machines may have the same host name."""
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return platform.node()


def process_location() -> tuple[str, int]:
    """The location of this process: its machine and container, and its id there."""
    namespace = ""
    with contextlib.suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return f"{machine_id()} {namespace}", os.getpid()


def kill(location: Sequence[Any]) -> None:
    """Kills the process at a `process_location`, if it is on this machine."""
    machine_and_container, process = location
    if machine_and_container == process_location()[0]:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)


# Without the user's proxy, which is meant for the internet.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _url(scope: str, key: str) -> str:
    host, port = store_address() or ("", 0)
    return f"http://{host}:{port}/{scope}/{key}"


def put(scope: str, key: str, value: str) -> None:
    """Puts a value into the store. Raises OSError if the store does not answer."""
    url, data = _url(scope, key), value.encode()
    request = urllib.request.Request(url, data, method="PUT")  # noqa: S310 (http)
    with _OPENER.open(request, timeout=10):
        pass


def get(scope: str, key: str, timeout: float = 10) -> str | None:
    """The value of a key in the store, None without one. Raises OSError like `put`."""
    try:
        with _OPENER.open(_url(scope, key), timeout=timeout) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


class HostAbandoned(Exception):
    """horovodrun has given up this process's host and goes on without it."""


def rejoin(towers: int) -> NoReturn:
    """Restarts this process with the rank that horovodrun has for it now.

    horovodrun answers once every process of the job is either lost or has asked.
    towers: of all processes, kept by the restarted job. Raises HostAbandoned, and
    OSError if horovodrun does not answer within HOROVOD_ELASTIC_TIMEOUT.
    """
    key = f"{os.environ['HOROVOD_HOSTNAME']}:{os.environ['HOROVOD_LOCAL_RANK']}"
    seconds = float(os.environ.get("HOROVOD_ELASTIC_TIMEOUT", "600"))
    values = (get("rank_and_size", key, timeout=seconds) or "-1").split(",")
    if values[0] == "-1":
        raise HostAbandoned
    for name, value in zip(_NAMES, values, strict=False):
        os.environ[f"HOROVOD_{name}"] = value.strip()
    os.environ[TOWERS] = str(towers)
    _restart()


def restart_in_parts(parts: int) -> NoReturn:
    """Restarts this process with --train_batch_size split into `parts` parts.

    It has to be a new process: devices that wait for each other in a collective may
    stay unusable in the old one once one of them has failed.
    """
    os.environ[PARTS] = str(parts)
    _restart()


def _restart() -> NoReturn:
    os.sched_setaffinity(0, _CORES)
    command = [sys.executable, *sys.orig_argv[1:]]
    os.execv(sys.executable, command)  # noqa: S606 (itself)
