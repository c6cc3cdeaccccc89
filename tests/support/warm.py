"""Processes that start with TensorFlow loaded: 5 s of a core less for each of them.

They are forks of one process that imports it and does nothing else with it, and they
end with the process that asked for them. As a program:

    python -m tests.support.warm serve SOCKET DESCRIPTOR: the process that forks
    python -m tests.support.warm here PROGRAM ARGUMENTS: a script in this process

Scripts as users start them: tests/end_to_end/test_true_starts.py.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import pathlib
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support import quick, stand_in
from tests.support.paths import ROOT

# Before a command: Python with TensorFlow loaded, once `address` has been called.
PYTHON = (sys.executable, "-IS", stand_in.__file__)


class Forked(subprocess.Popen):
    """A command in a fork: the process of its stand-in; signals reach the fork.

    command: of Python, a script, `-c CODE` or `-m MODULE`, with what follows it.
    """

    def __init__(self, command: Sequence[Any], env: Mapping[str, str], **pipes: Any):
        # Open as long as this process lives: the fork ends with it.
        self._link, theirs = socket.socketpair()
        with theirs:
            super().__init__(
                [*PYTHON, str(theirs.fileno()), *map(str, command)],
                env={**env, stand_in.SOCKET: address()},
                pass_fds=[theirs.fileno()],
                text=True,
                **pipes,
            )
        with self._link.makefile("rb", buffering=0) as line:
            self.fork = int(line.readline())  # the id of the fork

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.fork, number)


@functools.cache
def address() -> str:
    """Where to ask for forks: a process that ends with the first that has asked."""
    if stand_in.SOCKET in os.environ:
        return os.environ[stand_in.SOCKET]
    path = str(pathlib.Path(tempfile.mkdtemp(), "socket"))
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(64)
    theirs, _ = os.pipe()  # the other end stays open as long as this process lives
    serve = ["-m", "tests.support.warm", "serve", str(server.fileno()), str(theirs)]
    subprocess.Popen(
        [sys.executable, *serve],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
        pass_fds=[server.fileno(), theirs],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    os.environ[stand_in.SOCKET] = path
    return path


def _serve(server: socket.socket, owner: int) -> None:
    """Until the process that started this one has closed its end of a pipe."""
    while True:
        ready, _, _ = select.select([server, owner], [], [])
        if owner in ready:
            shutil.rmtree(os.path.dirname(server.getsockname()))
            return
        request, _ = server.accept()
        head, descriptors, *_ = socket.recv_fds(request, stand_in.LENGTH, 4)
        message = request.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        request.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not os.fork():
            server.close()
            os.close(owner)
            _run(json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _run(request: dict[str, Any], *descriptors: int) -> None:
    """In a fork: forks once more, and tells the script's id and its exit code.

    Ends the script, and what it has started, where nobody wants to know any more.
    """
    *standard, reported = descriptors
    child = os.fork()
    if not child:
        os.close(reported)
        os.setsid()
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
            os.close(descriptor)
        _become(**request)
    for descriptor in standard:
        os.close(descriptor)
    os.write(reported, f"{child}\n".encode())
    threading.Thread(
        target=_end_with_reader, args=(reported, child), daemon=True
    ).start()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(reported, f"{status}\n".encode())
    os._exit(0)


def _end_with_reader(pipe: int, group: int) -> None:
    closed = select.poll()
    closed.register(pipe, 0)  # errors alone
    closed.poll()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _become(command: list[str], env: dict[str, str], cwd: str) -> None:
    """Runs a script as if Python had just been started for it."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    quick.apply()
    # Those that Python has opened led to other files.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", 1 if os.isatty(1) else -1, closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # even in the background
    # Where the script starts itself anew, in this process.
    sys.orig_argv = [sys.executable, "-m", "tests.support.warm", "here", *command]
    if command[0] == "-c":
        sys.argv, sys.path[0] = ["-c", *command[2:]], ""
        exec(compile(command[1], "<string>", "exec"), {"__name__": "__main__"})
    elif command[0] == "-m":
        sys.argv, sys.path[0] = command[1:], cwd
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = command, os.path.dirname(os.path.abspath(command[0]))
        runpy.run_path(command[0], run_name="__main__")
    sys.exit(0)


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    import tensorflow  # noqa: F401

    if kind == "here":
        _become(arguments, dict(os.environ), os.getcwd())
    gc.freeze()
    listening, owner = map(int, arguments)
    _serve(socket.socket(fileno=listening), owner)
