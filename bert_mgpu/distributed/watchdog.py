"""The watchdog, which ends all processes of a run when one of them ends.

The first process listens; the others find it through horovodrun's store and stay
connected. Each sends its state once a second. A process that ends early says so, or its
connection breaks, or it falls silent. Then the reason is written to exit.json, and
every other process ends with the exit code of a lost process (or restarts, in an
elastic job). All of this runs in threads, since a collective never returns once one of
its processes is gone.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bert_mgpu.core.errors import PeerLost, Preempted, RunError, UserError
from bert_mgpu.distributed import launcher, rendezvous
from bert_mgpu.distributed.launcher import ProcessRank
from bert_mgpu.distributed.peers import SILENCE, ExitFile, ExitReport, Peer

_BEAT = 1.0  # seconds between two messages of a process
_GRACE = 2.0  # seconds in which a process may end by an error of its own


class State(NamedTuple):
    """The progress of a process; greater means further ahead."""

    step: int
    batch: int  # batches of an evaluation or a prediction since that step
    working: bool  # False during work that may take long


class Watchdog:
    """The connections of this process to the others, and their latest states."""

    def __init__(
        self, process: ProcessRank, output_dir: pathlib.Path | None, patience: float
    ):
        """patience: the seconds without progress of any process after which all end."""
        self._process, self._patience = process, patience
        self._file = ExitFile(output_dir, process.is_first)
        self._peers: dict[int, Peer] = {}
        self._locations: dict[int, Any] = {}  # by rank, to kill a frozen process
        self._lock = threading.Lock()
        self._first_end: ExitReport | None = None
        self._has_ended = threading.Event()  # whether a first end is known
        self._ending = threading.Lock()  # the thread that holds it ends this process
        self._closing = False
        self._state = State(0, 0, False)
        self._states: dict[int, State] = {}  # by rank
        self._towers: int | None = None  # kept by an elastic job; None in any other

    # -- called by the run ---------------------------------------------------

    def keep_towers(self, towers: int) -> None:
        """Sets the number of towers that an elastic job keeps if a process is lost."""
        if launcher.is_elastic():
            self._towers = towers

    def working(self, step: int | None = None) -> None:
        """Notes that a step or a batch begins; the next one is expected in time."""
        before = self._state
        if step is None:
            self._state = State(before.step, before.batch + 1, True)
        else:
            self._state = State(step, 0, True)

    def pausing(self) -> None:
        """Notes that the next work may take long, such as reading or writing files."""
        self._state = self._state._replace(working=False)

    def open(self) -> None:
        """Connects to the other processes. Raises PeerLost after too long a wait."""
        if self._process.is_single:
            return
        if launcher.store_address() is None:
            raise UserError(
                "HOROVOD_RANK is set, but not HOROVOD_GLOO_RENDEZVOUS_ADDR: start the"
                " processes with horovodrun, or unset HOROVOD_RANK"
            )
        self._stderr = os.dup(2)  # descriptor 2 may be redirected to a log file later
        if self._process.is_first:
            rendezvous.accept_peers(self._process, self._on_hello, self._on_loss)
        else:
            self._peers[0] = rendezvous.connect(self._process)
            rendezvous.start_thread(self._read, self._peers[0], 0)
        rendezvous.start_thread(self._beat)

    def begin(self) -> None:
        """Tells all processes that the first one has taken output_dir for the run."""
        if self._process.is_first:
            self._file.begin()
            for peer in list(self._peers.values()):
                peer.send({"begun": True})

    def close(self) -> None:
        """Notes that this process has finished its work; others may finish later."""
        self._closing = True
        for peer in self._peers.values():
            peer.send({"bye": True})

    def end(self, error: RunError) -> RunError:
        """Tells the others that this process ends by an error.

        Returns the error to end with: another one if another process ended first.
        """
        if self._process.is_single:
            return error
        # The launcher will now signal all processes; this one is already ending.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        # A signal or a broken collective may be a consequence of the end of another
        # process, which is then the one to report.
        if isinstance(error, (PeerLost, Preempted)):
            self._has_ended.wait(_GRACE)
        self._ending.acquire()
        first = self._first_end = self._first_end or rendezvous.read_exit_report()
        same = first is not None and first.code == error.exit_code
        if first is None or (same and not isinstance(error, PeerLost)):
            reason = " ".join(str(error).split())
            own = ExitReport(
                error.exit_code, self._process.rank, self._state.step, reason=reason
            )
            self._report(own)
            return error
        self._rejoin_after(first)
        return first.error()

    def leave(self, code: int) -> None:
        """Ends this process after an error at once, if there are others: a normal exit
        would wait for all of them.
        """
        if not self._process.is_single:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def lost_peer(self, error: Exception) -> PeerLost | None:
        """The loss of a process that explains a failed collective; None without one."""
        may_follow = type(error).__module__.split(".")[0] in ("tensorflow", "horovod")
        seconds = SILENCE if may_follow else 0
        if self._process.is_single or not self._has_ended.wait(seconds):
            return None
        return PeerLost(str(self._first_end))

    # -- threads -------------------------------------------------------------

    def _on_hello(self, peer: Peer, rank: int, hello: Mapping[str, Any]) -> None:
        """Replies to a process that has connected, then reads its messages."""
        self._locations[rank] = hello["where"]
        self._peers[rank] = peer
        peer.send({"where": launcher.process_location(), "begun": self._file.begun})
        self._read(peer, rank)

    def _beat(self) -> None:
        """Sends this process's state once a second and watches those of the others."""
        changed, before = time.monotonic(), self._states
        while not self._has_ended.is_set():
            time.sleep(_BEAT)
            with self._lock:
                own = self._states[self._process.rank] = self._state
                states = dict(self._states)
            for peer in list(self._peers.values()):
                peer.send({"state": own})
            if states != before or not all(state.working for state in states.values()):
                changed, before = time.monotonic(), states
            elif self._process.is_first and time.monotonic() - changed > self._patience:
                self._on_loss(*_furthest_behind(states, self._patience))

    def _read(self, peer: Peer, rank: int) -> None:
        """Reads the messages of another process until it or this one ends."""
        while True:
            try:
                message = peer.receive()
                reason, frozen = "its connection broke: it was killed", None
            except TimeoutError:
                message, frozen = None, self._locations.get(rank)
                reason = f"no sign of life for {SILENCE:.0f} s"
            if message is None:
                if not self._closing:
                    self._on_loss(rank, reason, frozen)
                return
            if "bye" in message:
                return
            self._file.begun |= bool(message.get("begun"))
            if "where" in message:
                self._locations[rank] = message["where"]
            if "state" in message:
                with self._lock:
                    self._states[rank] = State(*message["state"])
            if "end" in message:
                self._report(ExitReport(*message["end"]), message.get("frozen"))
                self._end_process()
                return

    # -- the end -------------------------------------------------------------

    def _on_loss(
        self, rank: int | None, reason: str, frozen: Sequence[Any] | None = None
    ) -> None:
        """Reports the loss of a process and ends this one."""
        # The state of the lost process may be a second old, and no process is a step
        # ahead of the others: so the greatest known step is taken.
        with self._lock:
            step = max(state.step for state in (self._state, *self._states.values()))
        end = ExitReport(PeerLost.exit_code, rank, step, reason=reason)
        self._report(end, frozen)
        self._end_process()

    def _report(self, end: ExitReport, frozen: Sequence[Any] | None = None) -> None:
        """Writes the first end to exit.json and sends it to the others, only once.

        frozen: the location of a frozen process, so that a process on the same machine
        kills it.
        """
        with self._lock:
            if self._first_end is not None:
                return
            self._first_end = end
        if not self._can_rejoin(end):
            self._file.write(end)
        if self._process.is_first:
            rendezvous.publish_exit_report(end)
        for peer in list(self._peers.values()):
            peer.send({"end": end, "frozen": frozen})
        if frozen:
            launcher.kill(frozen)
        self._has_ended.set()

    def _end_process(self) -> None:
        """Ends this process, unless it ends by itself within _GRACE seconds."""
        end = self._first_end
        if end is None:
            return
        time.sleep(_GRACE)
        if not self._ending.acquire(blocking=False):
            return  # the process is ending by an error of its own
        self._rejoin_after(end)
        error = end.error()
        self._say(f"{error.label}: {error}")
        os._exit(error.exit_code)

    def _can_rejoin(self, end: ExitReport) -> bool:
        """Whether this is an elastic job that goes on after this end."""
        lost = end.code == PeerLost.exit_code and end.rank is not None
        return self._towers is not None and lost

    def _rejoin_after(self, end: ExitReport) -> None:
        """Restarts this process without the lost one, if the job is elastic."""
        if self._towers is None or not self._can_rejoin(end):
            return
        try:
            if self._process.rank != end.rank:
                self._say(f"{end}: continuing without it")
                os.dup2(self._stderr, 2)  # for the restarted process
                launcher.rejoin(self._towers)
        except launcher.HostAbandoned:
            return  # the others go on without this process
        except OSError:
            pass  # horovodrun is gone too
        self._file.write(end)

    def _say(self, text: str) -> None:
        first = self._first_end
        if self._process.is_first or (first and first.rank == 0):
            with contextlib.suppress(OSError):
                os.write(self._stderr, f"{text}\n".encode())


def _furthest_behind(
    states: Mapping[int, State], patience: float
) -> tuple[int | None, str]:
    """(rank of the process furthest behind, None if all are level; the reason)."""
    last = min(states, key=lambda rank: states[rank])
    idle = f"no process made progress for {patience:g} s, and"
    if len({*states.values()}) == 1:
        return None, f"{idle} none is behind the others: see --peer_timeout"
    return last, f"{idle} this one is the furthest behind: see --peer_timeout"
