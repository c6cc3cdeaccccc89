"""What processes tell each other of their ends, and how it travels and is kept."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import threading
from typing import Any, NamedTuple

from bert_mgpu.errors import Lost

SILENCE = 30.0  # seconds without a sign: a process is frozen, or its network is gone


class End(NamedTuple):
    """How the first process that ended did so."""

    code: int
    rank: int
    step: int  # optimizer steps that it had done
    reason: str

    def __str__(self) -> str:
        if self.code == Lost.exit_code:
            return f"process {self.rank} was lost at step {self.step}: {self.reason}"
        return (
            f"process {self.rank} ended at step {self.step} with exit code {self.code}:"
            f" {self.reason}"
        )


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
            return json.loads(line) if line.endswith("\n") else None
        except TimeoutError:
            raise
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


def write_once(path: pathlib.Path, end: End, makes_folder: bool) -> None:
    """exit.json: whoever is first to write it is right."""
    own = f".{path.name}.{socket.gethostname()}.{os.getpid()}"
    temporary = path.with_name(own)
    with contextlib.suppress(OSError):
        if makes_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(end._asdict(), ensure_ascii=False) + "\n"
        temporary.write_text(text, encoding="utf-8")
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
