"""Ends all processes of a run when one of them ends: no collective waits forever.

The first process listens; the others find it by horovodrun's store and keep a
connection. Each sends what it does once a second. Whoever ends early says so, or its
connection breaks, or it falls silent; then exit.json tells what happened and every
process that is left ends with the code of a lost process (or starts anew where the job
is elastic). Runs in threads of its own, since a collective never returns once a process
of it is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from bert_mgpu import launch, peers
from bert_mgpu.errors import Lost, Preempted, RunError, UserError
from bert_mgpu.launch import Place
from bert_mgpu.peers import SILENCE, End, Peer

FILE = "exit.json"
_BEAT = 1.0  # seconds between two signs of life
_START = 120.0  # for the first process to be found
_GRACE = 2.0  # for a process to end by an error of its own
_SCOPE = "bert_mgpu"


class Watch:
    """What this process knows of the others, and they of it."""

    def __init__(self, place: Place, output_dir: pathlib.Path | None, patience: float):
        """patience: seconds in which some process has to make a step."""
        self._place, self._patience = place, patience
        self._file = output_dir and output_dir / FILE
        self._peers: dict[int, Peer] = {}
        self._lock = threading.Lock()
        self._ended: End | None = None
        self._known = threading.Event()  # that one has ended
        self._speaking = threading.Lock()  # whoever has it ends this process
        self._closing = False
        self._done = 0  # pieces of work: steps, batches
        self._step = 0
        self._working = False  # is any of them to be expected?
        self._seen: dict[int, tuple[int, int, bool]] = {}  # of each rank
        self.rejoins: Callable[[], None] | None = None  # instead of an end

    # -- what this process tells ---------------------------------------------

    def working(self, step: int | None = None) -> None:
        """A piece of work is done, and the next one follows at once."""
        self._working = True
        self._done += 1
        self._step = self._step if step is None else step

    def pausing(self) -> None:
        """What follows takes as long as it takes: files are read or written."""
        self._working = False

    def open(self) -> None:
        """Finds the other processes. Raises Lost where that takes too long."""
        if self._place.alone:
            return
        if launch.store() is None:
            raise UserError(
                "HOROVOD_RANK is set, but not HOROVOD_GLOO_RENDEZVOUS_ADDR: start the"
                " processes by horovodrun, or unset HOROVOD_RANK"
            )
        self._voice = os.dup(2)  # that a log may have later
        if self._place.leads:
            self._listen()
        else:
            self._connect()
        self._thread(self._beat)

    def begin(self) -> None:
        """What an earlier run says of its end is over."""
        if self._file:
            self._file.unlink(missing_ok=True)

    def close(self) -> None:
        """This process has done its work; the others may do so later."""
        self._closing = True
        for peer in self._peers.values():
            peer.send({"bye": True})

    def end(self, error: RunError) -> RunError:
        """Tells the others that this process ends by an error.

        Returns the error to end with: another one, where another process ended first.
        """
        if self._place.alone:
            return error
        # It is ending: the launcher, which ends all of them now, has nothing to add.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        # A process that is ended from outside, or whose collective broke, may be so
        # because another one is gone: whoever that was is to be told.
        if isinstance(error, (Lost, Preempted)):
            self._known.wait(_GRACE)
        self._speaking.acquire()
        found = self._ended or self._told()
        same = found is not None and found.code == error.exit_code
        if found is None or (same and not isinstance(error, Lost)):
            reason = " ".join(str(error).split())
            own = End(error.exit_code, self._place.rank, self._step, reason)
            self._spread(own)
            return error
        self._go_on(found)
        return self._as_error(found)

    def leave(self, code: int) -> None:
        """Ends this process after an error, if there are others: a usual exit waits for
        all of them.
        """
        if not self._place.alone:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def broke(self, error: Exception) -> Lost | None:
        """A collective failed: which process is gone? None if none seems to be."""
        if self._place.alone or not self._known.wait(SILENCE):
            return None
        return Lost(str(self._ended))

    # -- threads -------------------------------------------------------------

    def _thread(self, work: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _listen(self) -> None:
        server = socket.create_server(("", 0), backlog=self._place.size)
        server.settimeout(_START)
        address = f"{_own_address()}:{server.getsockname()[1]}"
        self._thread(self._accept, server)
        try:
            launch.put(_SCOPE, "first", address)
        except OSError as error:
            raise Lost(
                f"horovodrun's store of values does not answer: {error}"
            ) from None

    def _told(self) -> End | None:
        """The end of another process, which the store knows before any connection."""
        with contextlib.suppress(OSError, ValueError):
            if ended := launch.get(_SCOPE, "end"):
                self._ended = End(*json.loads(ended))
        return self._ended

    def _accept(self, server: socket.socket) -> None:
        """Until all are there."""
        deadline = time.monotonic() + _START
        with server:
            while len(self._peers) < self._place.size - 1:
                try:
                    peer = Peer(server.accept()[0])
                    hello = peer.receive() or {}
                except TimeoutError:
                    hello = {}
                if hello.get("size") == self._place.size:
                    self._peers[hello["rank"]] = peer
                    self._thread(self._read, peer, hello["rank"])
                elif time.monotonic() > deadline:
                    there = {self._place.rank, *self._peers}
                    lacking = min(set(range(self._place.size)) - there)
                    self._lose(lacking, f"it did not start within {_START:.0f} s")
                    return

    def _connect(self) -> None:
        deadline = time.monotonic() + _START
        while time.monotonic() < deadline:
            # The store may have the address of an earlier first process.
            with contextlib.suppress(OSError, ValueError):
                if ended := self._told():
                    raise self._as_error(ended)
                host, _, port = (launch.get(_SCOPE, "first") or "").rpartition(":")
                peer = Peer(socket.create_connection((host, int(port)), timeout=10))
                self._peers[0] = peer
                peer.send({"rank": self._place.rank, "size": self._place.size})
                self._thread(self._read, peer, 0)
                return
            time.sleep(0.2)
        raise Lost(f"the first process did not start within {_START:.0f} s")

    def _beat(self) -> None:
        """Signs of life, and a look at those of the others."""
        changed, before = time.monotonic(), 0
        while not self._known.is_set():
            time.sleep(_BEAT)
            own = (self._done, self._step, self._working)
            with self._lock:
                self._seen[self._place.rank] = own
                states = dict(self._seen)
            for peer in list(self._peers.values()):
                peer.send({"state": own})
            total = sum(done for done, _, _ in states.values())
            if total != before or not all(state[2] for state in states.values()):
                changed, before = time.monotonic(), total
            elif self._place.leads and time.monotonic() - changed > self._patience:
                last = min(states, key=lambda rank: states[rank][:2])
                self._lose(
                    last,
                    f"no process did anything for {self._patience:g} s, and this one is"
                    " the furthest behind: see --peer_timeout",
                )

    def _read(self, peer: Peer, rank: int) -> None:
        """What another process sends: the first of all others, or one of these."""
        while True:
            try:
                message = peer.receive()
            except TimeoutError:
                return self._lose(rank, f"no sign of life for {SILENCE:.0f} s")
            if message is None:
                if not self._closing:
                    self._lose(rank, "its connection broke: it was killed")
                return
            if "bye" in message:
                return
            if "state" in message:
                with self._lock:
                    self._seen[rank] = tuple(message["state"])
            if "end" in message:
                end = End(*message["end"])
                self._spread(end)
                return self._finish()

    # -- the end -------------------------------------------------------------

    def _lose(self, rank: int, reason: str) -> None:
        # Its own last word may be a second old; no process is a step ahead of others.
        step = max(self._step, self._seen.get(rank, (0, 0, False))[1])
        self._spread(End(Lost.exit_code, rank, step, reason))
        self._finish()

    def _spread(self, end: End) -> None:
        """Writes down and tells the others how the first one ended, once."""
        with self._lock:
            if self._ended is not None:
                return
            self._ended = end
        if self.rejoins is None or end.code != Lost.exit_code:
            self._write(end)
        if self._place.leads:
            with contextlib.suppress(OSError):
                launch.put(_SCOPE, "end", json.dumps(end))
        for peer in list(self._peers.values()):
            peer.send({"end": end})
        self._known.set()

    def _write(self, end: End) -> None:
        """All of them may see the folder, or the first one alone, which knows most."""
        if not self._place.leads:
            time.sleep(_GRACE / 2)
        if self._file is not None:
            peers.write_once(self._file, end, makes_folder=self._place.leads)

    def _as_error(self, end: End) -> RunError:
        error = Lost(str(end))
        if end.code in (75, 130):  # all of them were stopped
            error.exit_code, error.label = end.code, "stopped"
        return error

    def _finish(self) -> None:
        """Ends this process, unless it does so by itself."""
        end = self._ended
        if end is None:
            return
        time.sleep(_GRACE)
        if not self._speaking.acquire(blocking=False):
            return  # it has an error of its own to tell
        self._go_on(end)
        error = self._as_error(end)
        self._say(f"{error.label}: {error}")
        os._exit(error.exit_code)

    def _go_on(self, end: End) -> None:
        """Starts anew without the process that is lost, where the job is elastic."""
        if self.rejoins is None or end.code != Lost.exit_code:
            return
        with contextlib.suppress(OSError):
            if self._place.rank != end.rank:
                self._say(f"{end}: going on without it")
                self.rejoins()
        self._write(end)

    def _say(self, text: str) -> None:
        if self._place.leads or self._ended and self._ended.rank == 0:
            with contextlib.suppress(OSError):
                os.write(self._voice, f"{text}\n".encode())


def _own_address() -> str:
    """The address of this host as the others see it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(launch.store() or ("127.0.0.1", 1))  # sends nothing
        return probe.getsockname()[0]
