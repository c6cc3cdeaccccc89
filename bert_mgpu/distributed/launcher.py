"""The place of this process among those that horovodrun started; one alone has all.

horovodrun tells each process by its environment, and keeps a small store of values over
HTTP by which processes find each other. Nothing here imports horovod.
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

# Into how many parts --train_batch_size is cut, after a step that did not fit.
PARTS = "BERT_MGPU_PARTS"
TOWERS = "BERT_MGPU_TOWERS"  # of an elastic job, which processes that are left keep
GLOO_TIMEOUT = "HOROVOD_GLOO_TIMEOUT_SECONDS"
_PATIENCE = 120  # seconds
# Those that this process was given, before it keeps to its share of them.
_CORES = sorted(os.sched_getaffinity(0))
_NAMES = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")


class ProcessRank(NamedTuple):
    """Which process this is."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # on its host
    local_size: int = 1

    @property
    def is_first(self) -> bool:
        """The first process alone writes, and says what happens."""
        return self.rank == 0

    @property
    def is_single(self) -> bool:
        return self.size == 1


def process_rank(environment: Mapping[str, str] = os.environ) -> ProcessRank:
    """The place that horovodrun gave this process. Raises UserError for half of one."""
    names = [f"HOROVOD_{name}" for name in _NAMES[:4]]
    if "HOROVOD_RANK" not in environment:
        return ProcessRank()
    try:
        place = ProcessRank(*(int(environment[name]) for name in names))
    except (KeyError, ValueError):
        said = [f"{name}={environment.get(name, '')}" for name in names]
        raise UserError(
            f"{', '.join(said)}: not the place of a process: start it by horovodrun, or"
            " unset HOROVOD_RANK"
        ) from None
    if not (0 <= place.rank < place.size and 0 <= place.local_rank < place.local_size):
        raise UserError(
            f"HOROVOD_RANK={place.rank} of HOROVOD_SIZE={place.size}: there is no such"
            " process: start it by horovodrun, or unset HOROVOD_RANK"
        )
    return place


def cores(local_rank: int, local_size: int) -> list[int]:
    """The share of a process of those that its host gives the job.

    None of them where there are fewer than processes.
    """
    share = len(_CORES) // local_size
    return _CORES[local_rank * share : (local_rank + 1) * share]


def is_elastic(environment: Mapping[str, str] = os.environ) -> bool:
    """Do the others go on when a process is lost?"""
    return environment.get("HOROVOD_ELASTIC") == "1" and "HOROVOD_RANK" in environment


def towers(environment: Mapping[str, str] = os.environ) -> int | None:
    """Those of all processes, where the job began with others than are left."""
    said = environment.get(TOWERS)
    return int(said) if said else None


def parts(environment: Mapping[str, str] = os.environ) -> int:
    """Into how many parts this process is to cut --train_batch_size."""
    said = environment.get(PARTS, "1")
    if not said.isdecimal() or not int(said):
        raise UserError(f"{PARTS}={said}: not a number of parts: unset it")
    return int(said)


def store() -> tuple[str, int] | None:
    """Host and port of horovodrun's store; None where another launcher has none."""
    host = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    port = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT")
    return (host, int(port)) if host and port else None


def own_address() -> str:
    """The address of this host as the other processes see it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(store() or ("127.0.0.1", 1))  # sends nothing
        return probe.getsockname()[0]


def patience() -> int:
    """Seconds in which all processes must have started, horovodrun's flag if longer.

    horovodrun's own 30 s are too few where a busy machine loads TensorFlow slowly.
    """
    asked = os.environ.get(GLOO_TIMEOUT, "0")
    if not asked.isdecimal():
        raise UserError(f"{GLOO_TIMEOUT}={asked}: pass a number of seconds")
    return max(int(asked), _PATIENCE)


def machine() -> str:
    """Which machine this is, not by its name, which others may have too."""
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return platform.node()


def process_location() -> tuple[str, int]:
    """Where to find this process: its machine and container, its id there."""
    space = ""
    with contextlib.suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return f"{machine()} {space}", os.getpid()


def kill(where: Sequence[Any]) -> None:
    """Ends a process that is frozen, if it is on this machine."""
    place, process = where
    if place == process_location()[0]:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)


# A proxy of the user's is for the world outside.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _url(scope: str, key: str) -> str:
    host, port = store() or ("", 0)
    return f"http://{host}:{port}/{scope}/{key}"


def put(scope: str, key: str, value: str) -> None:
    """Puts a value into the store. Raises OSError where it does not answer."""
    url, data = _url(scope, key), value.encode()
    request = urllib.request.Request(url, data, method="PUT")  # noqa: S310 (http)
    with _OPENER.open(request, timeout=10):
        pass


def get(scope: str, key: str, timeout: float = 10) -> str | None:
    """A value of the store; None where it has none. Raises OSError, see `put`."""
    try:
        with _OPENER.open(_url(scope, key), timeout=timeout) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


class HostGivenUp(Exception):
    """horovodrun goes on without this process: it has given its host up."""


def rejoin(towers: int) -> NoReturn:
    """Starts this process anew at the place that horovodrun has for it now.

    horovodrun answers when every process of the job is either lost or asks. towers:
    those of all processes, which stay. Raises NoPlace, and OSError where horovodrun
    does not answer in HOROVOD_ELASTIC_TIMEOUT.
    """
    key = f"{os.environ['HOROVOD_HOSTNAME']}:{os.environ['HOROVOD_LOCAL_RANK']}"
    seconds = float(os.environ.get("HOROVOD_ELASTIC_TIMEOUT", "600"))
    values = (get("rank_and_size", key, timeout=seconds) or "-1").split(",")
    if values[0] == "-1":
        raise HostGivenUp
    for name, value in zip(_NAMES, values, strict=False):
        os.environ[f"HOROVOD_{name}"] = value.strip()
    os.environ[TOWERS] = str(towers)
    _start_anew()


def start_anew(parts: int) -> NoReturn:
    """Starts this process anew, with --train_batch_size cut into so many parts.

    What failed inside TensorFlow is gone with it: devices that wait for each other in a
    collective can be of no use for the rest of a process when one of them failed.
    """
    os.environ[PARTS] = str(parts)
    _start_anew()


def _start_anew() -> NoReturn:
    os.sched_setaffinity(0, _CORES)
    command = [sys.executable, *sys.orig_argv[1:]]
    os.execv(sys.executable, command)  # noqa: S606 (itself)
