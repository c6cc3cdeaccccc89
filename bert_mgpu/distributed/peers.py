"""What processes tell each other of their ends, and how it travels and is kept."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import threading
import time
from typing import Any, NamedTuple

from bert_mgpu.core import files
from bert_mgpu.core.errors import Interrupted, PeerLost, Preempted, RunError, UserError

FILE = "exit.json"
SILENCE = 30.0  # seconds without a sign: a process is frozen, or its network is gone
_STOPPED = (Preempted.exit_code, Interrupted.exit_code)
_FIRST = 1.0  # seconds in which the first process alone may write exit.json


class ExitReport(NamedTuple):
    """How the first process that ended did so."""

    code: int
    rank: int | None  # None: all of them are stuck, none is behind the others
    step: int  # optimizer steps that it had done
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
        """What the other processes end by."""
        error = PeerLost(str(self))
        if self.code in _STOPPED:  # all of them were
            error.exit_code, error.label = self.code, "stopped"
        return error


class Peer:
    """A connection that carries a line of JSON at a time."""

    def __init__(self, connection: socket.socket):
        connection.settimeout(SILENCE)
        self._connection = connection
        self._lines = connection.makefile("r", encoding="utf-8")
        self._lock = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        with self._lock, contextlib.suppress(OSError):  # its reader knows
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """None where the other side is gone. Raises TimeoutError if it is silent."""
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
    """exit.json in output_dir, which tells how a run of several processes ended."""

    def __init__(self, output_dir: pathlib.Path | None, leads: bool):
        self._folder, self._leads = output_dir, leads
        self.begun = False  # the first process holds the folder

    def begin(self) -> None:
        """The folder is this run's; what an earlier one says of its end is over."""
        self.begun = True
        if self._leads and self._folder:
            (self._folder / FILE).unlink(missing_ok=True)

    def write(self, end: ExitReport) -> None:
        """Whoever is first is right; nothing where the folder is another run's.

        All processes may see the folder, or the first one alone, which knows most.
        """
        if self._folder is None:
            return
        if not self._leads:
            time.sleep(_FIRST)
        with contextlib.suppress(OSError, UserError), contextlib.ExitStack() as held:
            if not self.begun:
                if not (self._leads or self._folder.is_dir()):
                    return
                held.enter_context(files.locked(self._folder, FILE, "folder"))
                if self._leads:
                    (self._folder / FILE).unlink(missing_ok=True)
            self._write_once(self._folder / FILE, end)

    def _write_once(self, path: pathlib.Path, end: ExitReport) -> None:
        text = json.dumps(end._asdict(), ensure_ascii=False) + "\n"
        own = path.with_name(f".{FILE}.{socket.gethostname()}.{os.getpid()}")
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
