"""Processes that start with TensorFlow loaded: 5 s of a core less for each of them.

They are forks of one process that imports it and does nothing else with it. As a
program, that process: python -m tests.support.warm SOCKET
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.paths import ROOT

_PIPE = subprocess.PIPE
_INT = 4  # bytes of a request's length


class Forked:
    """What tests use of a `subprocess.Popen` of text, for a script or `-c CODE`."""

    def __init__(
        self,
        command: Sequence[Any],
        env: Mapping[str, str],
        *,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
    ):
        self.returncode: int | None = None
        theirs, ours = [], []
        for number, wanted in enumerate((stdin, stdout, stderr)):
            pair = os.pipe() if wanted == _PIPE else (None, None)
            mine, other = pair if number else reversed(pair)
            if wanted is None:
                other = os.dup(number)
            elif wanted != _PIPE:
                other = os.dup(wanted if isinstance(wanted, int) else wanted.fileno())
            theirs.append(other)
            opened = mine is not None and os.fdopen(mine, "r" if number else "w")
            ours.append(opened or None)
        self.stdin, self.stdout, self.stderr = ours
        self._status, told = os.pipe()
        request = {"command": [*map(str, command)], "env": dict(env)}
        message = json.dumps(request | {"cwd": os.getcwd()}).encode()
        head = len(message).to_bytes(_INT, "big")
        socket.send_fds(_parent(), [head], [*theirs, told])
        _parent().sendall(message)
        for descriptor in (*theirs, told):
            os.close(descriptor)
        self.pid = self._next_number()

    def _next_number(self) -> int:
        """The next line of the process that waits for the script: its id, its end."""
        line = b""
        while not line.endswith(b"\n"):
            line += (byte := os.read(self._status, 1))
            assert byte, "the process that forks has ended"
        return int(line)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = self._next_number()
            os.close(self._status)
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def communicate(
        self, text: str | None = None, timeout: float | None = None
    ) -> tuple[str | None, str | None]:
        read: dict[str, str] = {}

        def drain(name: str) -> None:
            read[name] = getattr(self, name).read()

        names = [name for name in ("stdout", "stderr") if getattr(self, name)]
        threads = [
            threading.Thread(target=drain, args=(n,), daemon=True) for n in names
        ]
        for thread in threads:
            thread.start()
        if self.stdin:
            with contextlib.suppress(BrokenPipeError):
                self.stdin.write(text or "")
                self.stdin.close()
        self.wait(timeout)
        for thread in threads:
            thread.join(timeout)
        return read.get("stdout"), read.get("stderr")

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@functools.cache
def _parent() -> socket.socket:
    """The other end of the process that forks; that ends with this one."""
    here, there = socket.socketpair()
    subprocess.Popen(
        [sys.executable, "-m", "tests.support.warm", str(there.fileno())],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
        pass_fds=[there.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    there.close()
    return here


def _serve(requests: socket.socket) -> None:
    while True:
        head, descriptors, *_ = socket.recv_fds(requests, _INT, 4)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not head:
            return
        size = int.from_bytes(head, "big")
        message = requests.recv(size, socket.MSG_WAITALL)
        if not os.fork():
            requests.close()
            _run(json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _run(request: dict[str, Any], *descriptors: int) -> None:
    """In a fork: forks once more, and tells the script's id and its exit code."""
    *standard, told = descriptors
    child = os.fork()
    if not child:
        os.close(told)
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
            os.close(descriptor)
        _become(**request)
    for descriptor in standard:
        os.close(descriptor)
    os.write(told, f"{child}\n".encode())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(told, f"{status}\n".encode())
    os._exit(0)


def _become(command: list[str], env: dict[str, str], cwd: str) -> None:
    """Runs a script as if Python had just been started for it."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # even in the background
    sys.orig_argv = [sys.executable, *command]
    if command[0] == "-c":
        sys.argv, sys.path[0] = ["-c", *command[2:]], ""
        exec(compile(command[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv, sys.path[0] = command, os.path.dirname(os.path.abspath(command[0]))
        runpy.run_path(command[0], run_name="__main__")
    sys.exit(0)


if __name__ == "__main__":
    import tensorflow  # noqa: F401

    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
