"""What this machine has for training, and what a run on several would lack.

  python -m bert_mgpu doctor
  python -m bert_mgpu doctor data FLAGS    # looks through a task's files instead

Nothing is changed. Exit codes: 0 told, or nothing differs; 1 --selftest found that
something does; 2 wrong flags.
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
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import bert_mgpu
from bert_mgpu.cli import process
from bert_mgpu.cli.doctor import hardware, horovod_probe
from bert_mgpu.cli.doctor.hardware import SEEN, SMI, Gpu, output, tried, version
from bert_mgpu.cli.doctor.horovod_probe import Installed, Nccl
from bert_mgpu.core import extras, log
from bert_mgpu.core.units import size_text
from bert_mgpu.distributed import host as host_lib

WIDTH = 80
INSTALL = "python -m bert_mgpu install_horovod"  # in a clone: make horovod
BUILD = f"{INSTALL} --force"
OPEN_FILES = 1024  # files and sockets of one process
MEASURING = "make gpu (in a clone) measures what this card does, within 45 minutes"
SHARED_MEMORY = 1 << 29  # bytes: NCCL's buffers between the GPUs of a machine


class Facts(NamedTuple):
    """What the probes found; None: one failed, or the thing is not there."""

    tensorflow: str | None = None
    gpus: Sequence[Gpu] | None = None
    seen: Mapping[str, Any] | None = None  # by TensorFlow
    nccl: Nccl | None = None
    shared: tuple[int, int] | None = None  # bytes of /dev/shm, and those free
    horovod: Installed | None = None
    horovodrun: str | None = None
    ssh: str | None = None
    host: str = ""  # this machine's name, if it does not resolve
    open_files: int | None = None
    environ: Mapping[str, str] = {}


def facts() -> Facts:
    """Asks this machine."""
    scripts = sysconfig.get_path("scripts")
    host = socket.gethostname()
    return Facts(
        version("tensorflow") or version("tensorflow-cpu"),
        tried(lambda: hardware.gpus_of(output(SMI))),
        tried(lambda: json.loads(output([sys.executable, "-c", SEEN]).split("\n")[-2])),
        nccl=tried(lambda: horovod_probe.find_nccl(os.environ)),
        shared=tried(lambda: shutil.disk_usage("/dev/shm")[::2]),
        horovod=tried(horovod_probe.installed),
        horovodrun=shutil.which("horovodrun")
        or shutil.which("horovodrun", path=scripts),
        ssh=shutil.which("ssh"),
        host="" if tried(lambda: socket.gethostbyname(host)) else host,
        open_files=tried(lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        environ=os.environ,
    )


def lacking(there: Facts) -> list[str]:
    """What a run of several processes or machines would lack: what to do."""
    return [*_horovod(there), *_gpus(there), *_machine(there), *_variables(there)]


def _horovod(there: Facts) -> list[str]:
    built = there.horovod
    if built is None:
        return [f"Horovod is not installed: {INSTALL}"]
    lines = []
    if not built.tensorflow:
        lines.append(f"Horovod is built without TensorFlow: {BUILD}")
    elif there.tensorflow and built.tensorflow != there.tensorflow:
        lines.append(f"Horovod is built for TensorFlow {built.tensorflow}: {BUILD}")
    if not built.patched:
        lines.append(f"horovodrun kills processes before they can save: {BUILD}")
    if not there.horovodrun:
        lines.append(f"horovodrun is not in PATH: {BUILD}")
    return lines


def _gpus(there: Facts) -> list[str]:
    if not there.gpus:
        return []
    lines = []
    if there.seen is not None and not there.seen["gpus"]:
        lines.append(
            f"TensorFlow sees no GPU: {extras.advice('gpu')}, a newer driver, or"
            " unset CUDA_VISIBLE_DEVICES"
        )
    if there.horovod and "NCCL" not in there.horovod.has:
        first = "" if there.nccl else f"{extras.advice('gpu')}, then "
        lines.append(
            "Horovod has no NCCL, gradients would go through the CPU: install the CUDA"
            f" toolkit (nvcc), then {first}{BUILD}"
        )
    if len(there.gpus) > 1 and there.shared and there.shared[0] < SHARED_MEMORY:
        lines.append(
            f"/dev/shm has {there.shared[0] >> 20} MB, NCCL may need more: docker run"
            " --shm-size=1g"
        )
    return lines


def _machine(there: Facts) -> list[str]:
    lines = []
    if not there.ssh:
        lines.append(
            "no ssh, for other machines: apt-get install openssh-client, or yum install"
            " openssh-clients"
        )
    if there.host:
        lines.append(f"the name {there.host} does not resolve: add it to /etc/hosts")
    if there.open_files is not None and 0 <= there.open_files < OPEN_FILES:
        lines.append(
            f"only {there.open_files} open files allowed: ulimit -n {4 * OPEN_FILES}"
        )
    return lines


def _variables(there: Facts) -> list[str]:
    """Variables that horovodrun hands on to processes which they would mislead."""
    own = [
        f"HOROVOD_{kind}{what}"
        for kind in ("", "LOCAL_", "CROSS_")
        for what in ("RANK", "SIZE")
    ]
    lines = [
        f"{name}={there.environ[name]} is set, which horovodrun sets itself: unset it"
        for name in own
        if name in there.environ
    ]
    has = [name.lower() for name in there.horovod.has] if there.horovod else []
    for name in ("HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS"):
        wanted = there.environ.get(name, "").lower()
        if there.horovod and wanted and wanted not in has:
            lines.append(f"{name}={wanted}, but Horovod is built without it: unset it")
    return lines


def gpu_line(there: Facts) -> str:
    if there.gpus is None:
        return "none that nvidia-smi tells of"
    same = collections.Counter(gpu.text for gpu in there.gpus)
    return "; ".join(f"{count} x {text}" for text, count in same.items()) or "none"


def _usable(there: Facts) -> bool:
    """Is there a card that TensorFlow sees?"""
    return bool(there.seen and there.seen["gpus"])


def seen_line(there: Facts) -> str:
    seen = there.seen
    if seen is None:
        return "does not start"
    built = f"built for CUDA {seen['cuda']} and cuDNN {seen['cudnn']}"
    return f"{built}; sees {seen['gpus']} GPUs"


def horovod_line(there: Facts) -> str:
    built = there.horovod
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
    total, free = host_lib.memory_of(pathlib.Path("/proc/meminfo").read_text())
    group = host_lib.cgroup_limits(pathlib.Path("/proc/self/cgroup").read_text())[1]
    limit = size_text(group) if group else "none"
    return f"{size_text(total)}, {size_text(free)} available, cgroup limit {limit}"


def disk_line() -> str:
    return f"{size_text(shutil.disk_usage('.').free)} free in {pathlib.Path.cwd()}"


def lines(there: Facts) -> list[str]:
    """The report: a line for each thing, and what is lacking."""
    pin = tried(lambda: hardware.pinned(extras.lines())) or horovod_probe.TENSORFLOW
    nccl, shared = there.nccl, there.shared
    told: dict[str, Callable[[], str]] = {
        "bert_mgpu": lambda: (
            f"{bert_mgpu.__version__}, Python {platform.python_version()},"
            f" {platform.system()} {platform.machine()}"
        ),
        "TensorFlow": lambda: f"{there.tensorflow or 'not installed'} (pinned: {pin})",
        "": lambda: seen_line(there),
        "text": lambda: (
            f"tensorflow-text {version('tensorflow-text') or 'not there'} (not needed)"
        ),
        "GPUs": lambda: gpu_line(there),
        **({"measuring": lambda: MEASURING} if _usable(there) else {}),
        "NCCL": lambda: f"{nccl.version} in {nccl.library.parent}" if nccl else "none",
        "cores": cores_line,
        "memory": memory_line,
        "/dev/shm": lambda: (
            f"{size_text(shared[0])}, {size_text(shared[1])} free" if shared else "none"
        ),
        "disk": disk_line,
        "Horovod": lambda: horovod_line(there),
        "horovodrun": lambda: there.horovodrun or "not found",
    }
    report = [
        *(f"{label:11} {tried(line) or 'unknown'}" for label, line in told.items()),
        "what a cluster run would lack:",
        *(f"- {line}" for line in lacking(there) or ["nothing"]),
    ]
    return [
        part
        for line in report
        for part in textwrap.wrap(
            line, WIDTH, subsequent_indent=" " * (2 if line[0] == "-" else 12)
        )
    ]


def main(given: Sequence[str]) -> int:
    """The command line -> the exit code."""
    if [*given[:1]] == ["data"]:
        with process.redirect_native_stderr(pathlib.Path(os.devnull)):
            from bert_mgpu.cli.doctor import task_data

            return task_data.main(given[1:])
    parser = argparse.ArgumentParser(
        prog="python -m bert_mgpu doctor",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--selftest", action="store_true", help="train on every device for a moment"
    )
    args = parser.parse_args(given)
    if args.selftest:
        from bert_mgpu.cli.doctor import selftest

        return selftest.main()
    return log.print_stdout("\n".join(lines(facts())))
