"""Runs contestants in turn, each in a process of its own that works on request.

A process times one round for every line that it reads and, at the end, reports the
memory that it used. So a machine whose speed drifts affects all contestants equally.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import pathlib
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TextIO

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SHARED = ROOT.parent / "shared"

_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # contestants share the GPU
    "TF_USE_LEGACY_KERAS": "1",  # for Google's code
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}


def resident() -> tuple[float, float]:
    """MB of memory that this process holds now, and its peak.

    Read from /proc: getrusage would return the parent's peak if that was higher.
    """
    status = pathlib.Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    now, peak = (int(fields[key].removesuffix("kB")) for key in ("VmRSS", "VmHWM"))
    return now / 1024, peak / 1024


class Contestant(NamedTuple):
    """What a process does in its rounds."""

    step: Callable[[Any], float]  # batch -> its loss, or another number
    batches: Callable[[int], Iterable[Any]]  # round -> batches, made while it is timed
    warm_up: Iterable[Any]  # batches of every shape that will occur
    work: float  # done in one round: examples, or operations
    report: Callable[[], dict[str, Any]] = dict  # called at the end
    held: Callable[[], tuple[float, float]] = resident  # for a GPU, of its memory


class Measured(NamedTuple):
    """The measurements of a contestant."""

    rates: list[float]  # work per second, by round
    work: float  # of one step
    start_mb: float  # memory before the first step: (libraries,) weights, slots
    peak_mb: float  # the most that was added to that
    report: dict[str, Any]

    def summary(self) -> dict[str, Any]:
        speed = {}
        if self.rates:
            rate = statistics.median(self.rates)
            speed = {
                "per_second": _digits(rate),
                "rounds": [_digits(each) for each in self.rates],
                "seconds_per_step": _digits(self.work / rate),
            }
        memory = {"start_mb": round(self.start_mb), "peak_mb": round(self.peak_mb)}
        return speed | memory | self.report


class FailedError(Exception):
    """A contestant did not start, or crashed."""


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


# -- the process of a contestant ------------------------------------------------


def serve(make: Callable[[], Contestant]) -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the replies

    def reply(value: Any) -> None:
        print(json.dumps(value), file=replies, flush=True)

    contestant = make()
    before, _ = contestant.held()
    for batch in contestant.warm_up:
        contestant.step(batch)
    reply("ready")
    for line in sys.stdin:
        began = time.perf_counter()
        values = [contestant.step(batch) for batch in contestant.batches(int(line))]
        reply([time.perf_counter() - began, contestant.work, len(values), values[-1]])
    _, peak = contestant.held()
    memory = {"start_mb": before, "peak_mb": peak - before}
    reply(memory | {"report": contestant.report()})


class _Process:
    def __init__(self, name: str, arguments: list[str], environment: Mapping[str, str]):
        self.name = name
        self._errors: TextIO = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **_ENVIRONMENT, **environment},
        )

    def ask(self, line: str | None = None) -> Any:
        """Its next reply: to a line, or (None) after its start or after all lines."""
        assert self._process.stdin and self._process.stdout
        if line is not None:
            with contextlib.suppress(BrokenPipeError):  # reading the reply shows why
                print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            self._process.wait()
            self._errors.seek(0)
            told = self._errors.read().strip().splitlines()[-15:]
            how = f"{self.name} ended with {self._process.returncode}:"
            raise FailedError("\n".join([how, *told]))  # -9: out of memory
        return json.loads(answer)

    def end(self) -> Any:
        assert self._process.stdin
        self._process.stdin.close()
        answer = self.ask()
        self._process.wait()
        return answer

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def measure(
    contestants: Mapping[str, list[str]],
    rounds: int,
    cards: str,
    say: Callable[[str], None],
) -> dict[str, Measured]:
    """Measures contestants: name -> the command-line arguments of its process.

    cards: the GPUs that each one sees, as CUDA_VISIBLE_DEVICES.
    Raises FailedError where one fails.
    """
    running: list[_Process] = []
    found: dict[str, list[Any]] = {name: [] for name in contestants}
    try:
        for name, arguments in contestants.items():  # one by one: starting is work too
            visible = {"CUDA_VISIBLE_DEVICES": cards}
            running.append(_Process(name, arguments, visible))
            running[-1].ask()
            say(f"{name} is ready")
        for number in range(rounds):
            for process in running:
                seconds, work, steps, value = process.ask(str(number))
                if value != value:
                    raise FailedError(f"{process.name}: its loss is not a number")
                found[process.name].append((work / seconds, work / steps))
            say(f"round {number + 1} of {rounds} is done")
        ends = {process.name: process.end() for process in running}
    finally:
        for process in running:
            process.kill()
    return {
        name: Measured([rate for rate, _ in done], done[0][1], **ends[name])
        for name, done in found.items()
    }


def measure_memory(
    contestants: Mapping[str, list[str]],
    cards: str,
    pooled: bool,
    say: Callable[[str], None],
) -> dict[str, Measured]:
    """Like `measure`, without rounds: each only warms up, one after the other.

    pooled: with TensorFlow's memory pool for oneDNN, as in a run. The pool grows by
    doubling and gives nothing back, so the same steps may or may not take another copy
    of all activations in it.
    """
    found = {}
    onednn = {"TF_ENABLE_ONEDNN_OPTS": "1" if pooled else "0"}
    environment = {"CUDA_VISIBLE_DEVICES": cards, **onednn}
    for name, arguments in contestants.items():
        process = _Process(name, arguments, environment)
        try:
            process.ask()
            found[name] = Measured([], 0, **process.end())
        finally:
            process.kill()
        say(f"{name}: {found[name].peak_mb:.0f} MB")
    return found


class OtherLoad:
    """The load that others put on the machine from now on; call it at the end."""

    def __init__(self) -> None:
        self._began, self._before = time.monotonic(), self._seconds()

    @staticmethod
    def _seconds() -> float:
        """CPU seconds of everything but this process and its finished children."""
        line = pathlib.Path("/proc/stat").read_text().splitlines()[0]
        user, nice, system, _, _, irq, soft, steal = map(int, line.split()[1:9])
        busy = user + nice + system + irq + soft + steal
        mine = [
            resource.getrusage(whose)
            for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        ]
        own = sum(usage.ru_utime + usage.ru_stime for usage in mine)
        return busy / os.sysconf("SC_CLK_TCK") - own

    def __call__(self) -> float:
        """The load as a share of all cores."""
        seconds = self._seconds() - self._before
        return seconds / (time.monotonic() - self._began) / (os.cpu_count() or 1)


def first_gpu() -> str | None:
    """The name of the first NVIDIA GPU of this machine."""
    if shutil.which("nvidia-smi") is None:
        return None
    told = subprocess.run(
        ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "--id=0"],
        capture_output=True,
        text=True,
    )
    return told.stdout.strip() or None if told.returncode == 0 else None


def machine(*packages: str) -> dict[str, Any]:
    """The machine on which figures are measured, and the versions of `packages`."""
    cpu_info = pathlib.Path("/proc/cpuinfo").read_text()
    model = next(line for line in cpu_info.splitlines() if "model name" in line)
    return {
        "cpu": model.split(":")[1].strip(),
        "cores": os.cpu_count(),
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }
