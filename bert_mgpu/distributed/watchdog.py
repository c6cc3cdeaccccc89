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
import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bert_mgpu.core.errors import PeerLost, Preempted, RunError, UserError
from bert_mgpu.distributed import launcher, rendezvous
from bert_mgpu.distributed.launcher import ProcessRank
from bert_mgpu.distributed.peers import SILENCE, ExitFile, ExitReport, Peer

_BEAT = 1.0  # seconds between two signs of life
_GRACE = 2.0  # for a process to end by an error of its own


class State(NamedTuple):
    """What a process has begun: the more, the greater."""

    step: int
    batch: int  # of an evaluation or a prediction after that step
    working: bool  # is the next one to be expected?


class Watchdog:
    """What this process knows of the others, and they of it."""

    def __init__(
        self, place: ProcessRank, output_dir: pathlib.Path | None, patience: float
    ):
        """patience: seconds in which some process has to make a step."""
        self._place, self._patience = place, patience
        self._file = ExitFile(output_dir, place.is_first)
        self._peers: dict[int, Peer] = {}
        self._where: dict[int, Any] = {}  # to find a process that is silent
        self._lock = threading.Lock()
        self._ended: ExitReport | None = None
        self._known = threading.Event()  # that one has ended
        self._speaking = threading.Lock()  # whoever has it ends this process
        self._closing = False
        self._state = State(0, 0, False)
        self._seen: dict[int, State] = {}  # of each rank
        self.rejoins: Callable[[], None] | None = None  # instead of an end

    # -- what this process tells ---------------------------------------------

    def working(self, step: int | None = None) -> None:
        """A piece of work is done, and the next one follows at once."""
        before = self._state
        if step is None:
            self._state = State(before.step, before.batch + 1, True)
        else:
            self._state = State(step, 0, True)

    def pausing(self) -> None:
        """What follows takes as long as it takes: files are read or written."""
        self._state = self._state._replace(working=False)

    def open(self) -> None:
        """Finds the other processes. Raises Lost where that takes too long."""
        if self._place.is_single:
            return
        if launcher.store() is None:
            raise UserError(
                "HOROVOD_RANK is set, but not HOROVOD_GLOO_RENDEZVOUS_ADDR: start the"
                " processes by horovodrun, or unset HOROVOD_RANK"
            )
        self._voice = os.dup(2)  # that a log may have later
        if self._place.is_first:
            rendezvous.accept_peers(self._place, self._joined, self._lose)
        else:
            self._peers[0] = rendezvous.connect(self._place)
            rendezvous.start_thread(self._read, self._peers[0], 0)
        rendezvous.start_thread(self._beat)

    def begin(self) -> None:
        """The first process has the folder, for all of them."""
        if self._place.is_first:
            self._file.begin()
            for peer in list(self._peers.values()):
                peer.send({"begun": True})

    def close(self) -> None:
        """This process has done its work; the others may do so later."""
        self._closing = True
        for peer in self._peers.values():
            peer.send({"bye": True})

    def end(self, error: RunError) -> RunError:
        """Tells the others that this process ends by an error.

        Returns the error to end with: another one, where another process ended first.
        """
        if self._place.is_single:
            return error
        # It is ending: the launcher, which ends all of them now, has nothing to add.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        # A process that is ended from outside, or whose collective broke, may be so
        # because another one is gone: whoever that was is to be told.
        if isinstance(error, (PeerLost, Preempted)):
            self._known.wait(_GRACE)
        self._speaking.acquire()
        found = self._ended = self._ended or rendezvous.read_exit_report()
        same = found is not None and found.code == error.exit_code
        if found is None or (same and not isinstance(error, PeerLost)):
            reason = " ".join(str(error).split())
            own = ExitReport(
                error.exit_code, self._place.rank, self._state.step, reason=reason
            )
            self._spread(own)
            return error
        self._go_on(found)
        return found.error()

    def leave(self, code: int) -> None:
        """Ends this process after an error, if there are others: a usual exit waits for
        all of them.
        """
        if not self._place.is_single:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def broke(self, error: Exception) -> PeerLost | None:
        """A collective failed: which process is gone? None if none seems to be."""
        of_sums = type(error).__module__.split(".")[0] in ("tensorflow", "horovod")
        if self._place.is_single or not self._known.wait(SILENCE if of_sums else 0):
            return None
        return PeerLost(str(self._ended))

    # -- threads -------------------------------------------------------------

    def _joined(self, peer: Peer, rank: int, hello: Mapping[str, Any]) -> None:
        """The first process meets another one."""
        self._where[rank] = hello["where"]
        self._peers[rank] = peer
        peer.send({"where": launcher.process_location(), "begun": self._file.begun})
        self._read(peer, rank)

    def _beat(self) -> None:
        """Signs of life, and a look at those of the others."""
        changed, before = time.monotonic(), self._seen
        while not self._known.is_set():
            time.sleep(_BEAT)
            with self._lock:
                own = self._seen[self._place.rank] = self._state
                states = dict(self._seen)
            for peer in list(self._peers.values()):
                peer.send({"state": own})
            if states != before or not all(one.working for one in states.values()):
                changed, before = time.monotonic(), states
            elif self._place.is_first and time.monotonic() - changed > self._patience:
                self._lose(*_furthest_behind(states, self._patience))

    def _read(self, peer: Peer, rank: int) -> None:
        """What another process sends: the first of all others, or one of these."""
        while True:
            try:
                message = peer.receive()
                reason, where = "its connection broke: it was killed", None
            except TimeoutError:
                message, where = None, self._where.get(rank)
                reason = f"no sign of life for {SILENCE:.0f} s"
            if message is None:
                if not self._closing:
                    self._lose(rank, reason, where)
                return
            if "bye" in message:
                return
            self._file.begun |= bool(message.get("begun"))
            if "where" in message:
                self._where[rank] = message["where"]
            if "state" in message:
                with self._lock:
                    self._seen[rank] = State(*message["state"])
            if "end" in message:
                self._spread(ExitReport(*message["end"]), message.get("frozen"))
                self._finish()
                return

    # -- the end -------------------------------------------------------------

    def _lose(
        self, rank: int | None, reason: str, frozen: Sequence[Any] | None = None
    ) -> None:
        # Its own last word may be a second old; no process is a step ahead of others.
        with self._lock:
            step = max(one.step for one in (self._state, *self._seen.values()))
        end = ExitReport(PeerLost.exit_code, rank, step, reason=reason)
        self._spread(end, frozen)
        self._finish()

    def _spread(self, end: ExitReport, frozen: Sequence[Any] | None = None) -> None:
        """Writes down and tells the others how the first one ended, once.

        frozen: where that is, for whoever is on its machine to end it.
        """
        with self._lock:
            if self._ended is not None:
                return
            self._ended = end
        if not self._rejoins(end):
            self._file.write(end)
        if self._place.is_first:
            rendezvous.publish_exit_report(end)
        for peer in list(self._peers.values()):
            peer.send({"end": end, "frozen": frozen})
        if frozen:
            launcher.kill(frozen)
        self._known.set()

    def _finish(self) -> None:
        """Ends this process, unless it does so by itself."""
        end = self._ended
        if end is None:
            return
        time.sleep(_GRACE)
        if not self._speaking.acquire(blocking=False):
            return  # it has an error of its own to tell
        self._go_on(end)
        error = end.error()
        self._say(f"{error.label}: {error}")
        os._exit(error.exit_code)

    def _rejoins(self, end: ExitReport) -> bool:
        """Is it one that an elastic job goes on after?"""
        lost = end.code == PeerLost.exit_code and end.rank is not None
        return self.rejoins is not None and lost

    def _go_on(self, end: ExitReport) -> None:
        """Starts anew without the process that is lost, where the job is elastic."""
        if self.rejoins is None or not self._rejoins(end):
            return
        try:
            if self._place.rank != end.rank:
                self._say(f"{end}: going on without it")
                os.dup2(self._voice, 2)  # what is begun anew has this one's voice
                self.rejoins()
        except launcher.HostGivenUp:
            return  # the others go on
        except OSError:
            pass  # horovodrun is gone, too
        self._file.write(end)

    def _say(self, text: str) -> None:
        if self._place.is_first or self._ended and self._ended.rank == 0:
            with contextlib.suppress(OSError):
                os.write(self._voice, f"{text}\n".encode())


def _furthest_behind(
    states: Mapping[int, State], patience: float
) -> tuple[int | None, str]:
    """(which process is, why that is an end): None where all are equally far."""
    last = min(states, key=lambda rank: states[rank])
    idle = f"no process did anything for {patience:g} s, and"
    if len({*states.values()}) == 1:
        return None, f"{idle} none is behind the others: see --peer_timeout"
    return last, f"{idle} this one is the furthest behind: see --peer_timeout"
