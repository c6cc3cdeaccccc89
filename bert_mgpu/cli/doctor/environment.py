"""Reports what this machine has for training, and what a cluster run would lack.

  bert_mgpu doctor
  bert_mgpu doctor data FLAGS    # checks a task's files instead

Nothing is changed. Exit codes: 0 done; 1 --selftest failed or found a
difference; 2 wrong flags.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import platform
import resource
import shutil
import socket
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import bert_mgpu
from bert_mgpu.cli import script
from bert_mgpu.cli.doctor import hardware, horovod_probe
from bert_mgpu.cli.doctor.hardware import SEEN, SMI, Gpu, output, try_probe, version
from bert_mgpu.cli.doctor.horovod_probe import Installed, Nccl
from bert_mgpu.core import extras, log, terminal
from bert_mgpu.core.units import size_text
from bert_mgpu.distributed import host as host_lib

INSTALL = "bert_mgpu install_horovod"  # in a clone: make horovod
BUILD = f"{INSTALL} --force"
OPEN_FILES = 1024  # open files that a process needs, sockets included
MEASURING = "make gpu (in a clone) benchmarks this card, within 45 minutes"
SHARED_MEMORY = 1 << 29  # bytes: NCCL's buffers between the GPUs of a machine


class Facts(NamedTuple):
    """The results of all probes; None where one failed or found nothing."""

    tensorflow: str | None = None
    gpus: Sequence[Gpu] | None = None
    seen: Mapping[str, Any] | None = None  # what TensorFlow sees
    nccl: Nccl | None = None
    shared: tuple[int, int] | None = None  # bytes of /dev/shm: total, free
    horovod: Installed | None = None
    horovodrun: str | None = None
    ssh: str | None = None
    host: str = ""  # this machine's name, if it does not resolve
    open_files: int | None = None
    environ: Mapping[str, str] = {}


def probe() -> Facts:
    """The facts of this machine."""
    scripts = sysconfig.get_path("scripts")
    host = socket.gethostname()
    return Facts(
        version("tensorflow") or version("tensorflow-cpu"),
        try_probe(lambda: hardware.gpus_of(output(SMI))),
        try_probe(
            lambda: json.loads(output([sys.executable, "-c", SEEN]).split("\n")[-2])
        ),
        nccl=try_probe(lambda: horovod_probe.find_nccl(os.environ)),
        shared=try_probe(lambda: shutil.disk_usage("/dev/shm")[::2]),
        horovod=try_probe(horovod_probe.installed),
        horovodrun=shutil.which("horovodrun")
        or shutil.which("horovodrun", path=scripts),
        ssh=shutil.which("ssh"),
        host="" if try_probe(lambda: socket.gethostbyname(host)) else host,
        open_files=try_probe(lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        environ=os.environ,
    )


def problems(facts: Facts) -> list[str]:
    """What runs with several processes or machines lack, with advice, one line each."""
    return [
        *_horovod(facts),
        *_gpus(facts),
        *_machine(facts),
        *_variables(facts),
    ]


def _horovod(facts: Facts) -> list[str]:
    built = facts.horovod
    if built is None:
        return [f"Horovod is not installed: {INSTALL}"]
    lines = []
    if not built.tensorflow:
        lines.append(f"Horovod was built without TensorFlow: {BUILD}")
    elif facts.tensorflow and built.tensorflow != facts.tensorflow:
        lines.append(f"Horovod was built for TensorFlow {built.tensorflow}: {BUILD}")
    if not built.patched:
        lines.append(f"horovodrun kills processes before they can save: {BUILD}")
    if not facts.horovodrun:
        lines.append(f"horovodrun is not in PATH: {BUILD}")
    return lines


def _gpus(facts: Facts) -> list[str]:
    if not facts.gpus:
        return []
    lines = []
    if facts.seen is not None and not facts.seen["gpus"]:
        lines.append(
            f"TensorFlow sees no GPU: {extras.advice('gpu')}, a newer driver, or"
            " unset CUDA_VISIBLE_DEVICES"
        )
    if facts.horovod and "NCCL" not in facts.horovod.has:
        first = "" if facts.nccl else f"{extras.advice('gpu')}, then "
        lines.append(
            "Horovod has no NCCL; gradients would go through the CPU: install the CUDA"
            f" toolkit (nvcc), then {first}{BUILD}"
        )
    if len(facts.gpus) > 1 and facts.shared and facts.shared[0] < SHARED_MEMORY:
        lines.append(
            f"/dev/shm has {size_text(facts.shared[0])}; NCCL may need more: docker run"
            " --shm-size=1g"
        )
    return lines


def _machine(facts: Facts) -> list[str]:
    lines = []
    if not facts.ssh:
        lines.append(
            "no ssh, which reaches other machines: apt-get install openssh-client, or"
            " yum install openssh-clients"
        )
    if facts.host:
        lines.append(f"the name {facts.host} does not resolve: add it to /etc/hosts")
    if facts.open_files is not None and 0 <= facts.open_files < OPEN_FILES:
        lines.append(
            f"only {facts.open_files} open files allowed: ulimit -n {4 * OPEN_FILES}"
        )
    return lines


def _variables(facts: Facts) -> list[str]:
    """Environment variables that would mislead the processes of horovodrun."""
    reserved = [
        f"HOROVOD_{scope}{number}"
        for scope in ("", "LOCAL_", "CROSS_")
        for number in ("RANK", "SIZE")
    ]
    lines = [
        f"{name}={facts.environ[name]} is set, but horovodrun sets it itself: unset it"
        for name in reserved
        if name in facts.environ
    ]
    has = [name.lower() for name in facts.horovod.has] if facts.horovod else []
    for name in ("HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS"):
        wanted = facts.environ.get(name, "").lower()
        if facts.horovod and wanted and wanted not in has:
            lines.append(f"{name}={wanted}, but Horovod is built without it: unset it")
    return lines


def gpu_line(facts: Facts) -> str:
    if facts.gpus is None:
        return "none found by nvidia-smi"
    same = collections.Counter(gpu.text for gpu in facts.gpus)
    return "; ".join(f"{count} x {text}" for text, count in same.items()) or "none"


def _usable(facts: Facts) -> bool:
    """Whether TensorFlow sees a GPU."""
    return bool(facts.seen and facts.seen["gpus"])


def seen_line(facts: Facts) -> str:
    seen = facts.seen
    if seen is None:
        return "cannot be imported"
    built = f"built for CUDA {seen['cuda']} and cuDNN {seen['cudnn']}"
    return f"{built}; sees {seen['gpus']} GPUs"


def horovod_line(facts: Facts) -> str:
    built = facts.horovod
    if built is None:
        return "not installed"
    lacks = [f"no {name}" for name in ("gloo", "NCCL", "MPI") if name not in built.has]
    has = ", ".join([*built.has, *lacks])
    return f"{built.version} for TensorFlow {built.tensorflow or '-'}: {has}"


def cores_line() -> str:
    usable, all_ = len(os.sched_getaffinity(0)), os.cpu_count()
    group = host_lib.cgroup_limits(pathlib.Path("/proc/self/cgroup").read_text())[0]
    return f"{usable} of {all_} usable, cgroup limit {group or 'none'}"


def memory_line() -> str:
    total, free = host_lib.parse_meminfo(pathlib.Path("/proc/meminfo").read_text())
    group = host_lib.cgroup_limits(pathlib.Path("/proc/self/cgroup").read_text())[1]
    limit = size_text(group) if group else "none"
    return f"{size_text(total)}, {size_text(free)} available, cgroup limit {limit}"


def disk_line() -> str:
    return f"{size_text(shutil.disk_usage('.').free)} free in {pathlib.Path.cwd()}"


def lines(facts: Facts, columns: int = terminal.WIDTH) -> list[str]:
    """The wrapped report: a line for each fact, then what is missing."""
    pin = try_probe(lambda: hardware.pinned(extras.lines())) or horovod_probe.TENSORFLOW
    nccl, shared = facts.nccl, facts.shared
    rows: dict[str, Callable[[], str]] = {
        "bert_mgpu": lambda: (
            f"{bert_mgpu.__version__}, Python {platform.python_version()},"
            f" {platform.system()} {platform.machine()}"
        ),
        "TensorFlow": lambda: f"{facts.tensorflow or 'not installed'} (pinned: {pin})",
        "": lambda: seen_line(facts),
        "GPUs": lambda: gpu_line(facts),
        **({"measuring": lambda: MEASURING} if _usable(facts) else {}),
        "NCCL": lambda: f"{nccl.version} in {nccl.library.parent}" if nccl else "none",
        "cores": cores_line,
        "memory": memory_line,
        "/dev/shm": lambda: (
            f"{size_text(shared[0])}, {size_text(shared[1])} free" if shared else "none"
        ),
        "disk": disk_line,
        "Horovod": lambda: horovod_line(facts),
        "horovodrun": lambda: facts.horovodrun or "not found",
    }
    report = [
        *(f"{label:11} {try_probe(line) or 'unknown'}" for label, line in rows.items()),
        "missing for a cluster run:",
        *(f"- {line}" for line in problems(facts) or ["nothing"]),
    ]
    return [
        part
        for line in report
        for part in terminal.hanging(line, columns, 2 if line[0] == "-" else 12)
    ]


def main(given: Sequence[str]) -> int:
    """Runs the command; returns the exit code."""
    if [*given[:1]] == ["data"]:
        with script.redirect_native_stderr(pathlib.Path(os.devnull)):
            from bert_mgpu.cli.doctor import task_data

            return task_data.main(given[1:])
    parser = script.OneLineParser(
        prog="bert_mgpu doctor",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--selftest",
        action="store_true",
        help="train a tiny model on one device, several devices and two processes,"
        " and compare the results",
    )
    args = parser.parse_args(given)

    def work() -> int:
        if args.selftest:
            from bert_mgpu.cli.doctor import selftest

            return selftest.main()
        report = lines(probe(), terminal.narrow(sys.stdout))
        return log.print_stdout("\n".join(report))

    return script.explained(work, "start it again")
