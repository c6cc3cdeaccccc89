"""Connections between processes, and reports on how they end (exit.json)."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import threading
import time
from typing import Any, NamedTuple

from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import Interrupted, PeerLost, Preempted, RunError, UserError

SILENCE = 30.0  # seconds without a message: a process is frozen or its network is down
_STOPPED = (Preempted.exit_code, Interrupted.exit_code)
_HEAD_START = 1.0  # seconds in which only the first process may write exit.json


class ExitReport(NamedTuple):
    """How the first process to end has ended."""

    code: int
    rank: int | None  # None: all are stuck, none is behind the others
    step: int  # optimizer steps that it had finished
    reason: str

    def __str__(self) -> str:
        if self.rank is None:
            return f"all processes hang at step {self.step}: {self.reason}"
        if self.code == PeerLost.exit_code:
            return f"process {self.rank} was lost at step {self.step}: {self.reason}"
        return (
            f"process {self.rank} ended at step {self.step} with exit code {self.code}:"
            f" {self.reason}"
        )

    def error(self) -> RunError:
        """The error with which the other processes end."""
        error = PeerLost(str(self))
        if self.code in _STOPPED:  # all processes were asked to stop
            error.exit_code, error.label = self.code, "stopped"
        return error


class Peer:
    """A connection to another process; each message is a line of JSON."""

    def __init__(self, connection: socket.socket):
        connection.settimeout(SILENCE)
        self._connection = connection
        self._lines = connection.makefile("r", encoding="utf-8")
        self._lock = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        with self._lock, contextlib.suppress(OSError):  # `receive` will notice
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """The next message; None if the peer is gone. Raises TimeoutError if silent."""
        try:
            line = self._lines.readline()
            message = json.loads(line) if line.endswith("\n") else None
        except TimeoutError:
            raise
        except (OSError, ValueError):
            return None
        return message if isinstance(message, dict) else None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


class ExitFile:
    """exit.json in output_dir: how a run of several processes ended."""

    def __init__(self, output_dir: pathlib.Path | None, is_first: bool):
        self._folder, self._is_first = output_dir, is_first
        self.begun = False  # whether the first process has taken the folder

    def begin(self) -> None:
        """Notes that the folder is this run's now, and removes an earlier exit.json."""
        self.begun = True
        if self._is_first and self._folder:
            (self._folder / run_files.EXIT).unlink(missing_ok=True)

    def write(self, end: ExitReport) -> None:
        """Writes the file if no process has yet, unless another run has the folder.

        Either all processes can reach the folder or only the first one. The first one
        gets a head start, since it knows most.
        """
        if self._folder is None:
            return
        if not self._is_first:
            time.sleep(_HEAD_START)
        with contextlib.suppress(OSError, UserError), contextlib.ExitStack() as held:
            if not self.begun:
                if not (self._is_first or self._folder.is_dir()):
                    return
                held.enter_context(files.locked(self._folder, run_files.EXIT, "folder"))
                if self._is_first:
                    (self._folder / run_files.EXIT).unlink(missing_ok=True)
            self._write_once(self._folder / run_files.EXIT, end)

    def _write_once(self, path: pathlib.Path, end: ExitReport) -> None:
        text = json.dumps(end._asdict(), ensure_ascii=False) + "\n"
        own = path.with_name(f".{run_files.EXIT}.{socket.gethostname()}.{os.getpid()}")
        try:
            own.unlink(missing_ok=True)  # a link would lead elsewhere
            own.write_text(text, encoding="utf-8")
            os.link(own, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        finally:
            own.unlink(missing_ok=True)
