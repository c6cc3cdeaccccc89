"""Processes that call a function and answer with JSON.

The same command serves rows and parts of rows: `python -m benchmarks.gpu
--work=MODULE:FUNCTION --options=JSON --answer=FILE`. A part belongs to the process
session of its row, so that ending a row ends its parts.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.gpu import absent

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRY = "BERT_MGPU_DRY_RUN"  # set in the processes of a dry run
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}  # no warnings: the last lines explain a failure
_TAIL = 12  # lines
_LONGEST = 1500  # characters of a reason


class NotRunError(Exception):
    """Something that a row needs is missing."""


class FailedError(Exception):
    """A process did not finish properly."""


class Ended(NamedTuple):
    """How a process ended."""

    code: int | None  # negative: by a signal; None: it took too long
    answer: dict[str, Any] | None
    log: str  # its last lines

    @property
    def reason(self) -> str:
        if self.code is None:
            how = "it took too long and was ended"
        elif self.code < 0:
            how = f"ended by {signal.Signals(-self.code).name}"
        else:
            how = f"exit code {self.code}"
        return f"{how}: {self.log}" if self.log else how


def is_dry() -> bool:
    """Whether this is a dry run, on logical CPU devices."""
    return bool(os.environ.get(DRY))


def environment(changed: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child: quiet, and without a card in a dry run."""
    own = {**os.environ, **_QUIET, **changed}
    return own | ({"CUDA_VISIBLE_DEVICES": "-1"} if is_dry() else {})


def tail(path: pathlib.Path) -> str:
    """The last lines of a log, without TensorFlow's notices."""
    lines = path.read_text(errors="replace").splitlines()
    told = [
        line for line in lines if line.strip() and not re.match(r"[IW]\d{4} ", line)
    ]
    return "\n".join(told[-_TAIL:])[-_LONGEST:]


def call(
    command: list[str],
    seconds: float,
    changed: Mapping[str, str] | None = None,
    answer: pathlib.Path | None = None,
    *,
    session: bool = False,
) -> Ended:
    """Runs a command for at most `seconds`; answer: the file that it writes.

    session: starts a process session, all of which is ended with the command.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        with log.open("w") as file:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment(changed or {}),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=session,
            )
            try:
                code: int | None = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _end(process, session)
        said = answer.read_text() if answer and answer.exists() else "null"
        return Ended(code, json.loads(said), tail(log))


def _end(process: subprocess.Popen, session: bool) -> None:
    """Ends the process and, with a session of its own, whatever it left running."""
    with contextlib.suppress(ProcessLookupError):
        if session:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def run(
    work: str,
    options: Mapping[str, Any],
    seconds: float,
    changed: Mapping[str, str] | None = None,
    *,
    session: bool = False,
) -> Ended:
    """Calls the function `work` ("module:function") in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        answer = pathlib.Path(folder) / "answer.json"
        flags = {"work": work, "options": json.dumps(options), "answer": answer}
        command = [sys.executable, "-m", "benchmarks.gpu"]
        command += [f"--{name}={value}" for name, value in flags.items()]
        return call(command, seconds, changed, answer, session=session)


def part(
    work: str,
    options: Mapping[str, Any],
    changed: Mapping[str, str] | None = None,
    seconds: float = 600,
) -> dict[str, Any]:
    """The answer of a part of a row. Raises FailedError where there is none."""
    ended = run(work, options, seconds, changed)
    if ended.code != 0 or ended.answer is None:
        raise FailedError(f"{work}: {ended.reason}")
    return ended.answer


def serve(work: str, options: Mapping[str, Any], answer: pathlib.Path) -> None:
    """Calls the function `work` in this process; writes its result to `answer`."""
    absent.stand_in()
    module, function = work.split(":")
    began = time.perf_counter()
    try:
        found = getattr(importlib.import_module(f"benchmarks.gpu.{module}"), function)(
            **options
        )
    except NotRunError as error:
        found = {"not run": str(error)}
    found.setdefault("worked_s", round(time.perf_counter() - began, 1))
    temporary = answer.with_suffix(".tmp")
    temporary.write_text(json.dumps(found))
    temporary.replace(answer)
