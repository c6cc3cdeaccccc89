"""The rendezvous of a run's processes, through horovodrun's key-value store."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from bert_mgpu.core.errors import PeerLost
from bert_mgpu.distributed import launcher
from bert_mgpu.distributed.launcher import ProcessRank
from bert_mgpu.distributed.peers import ExitReport, Peer

_SCOPE = "bert_mgpu"
_POLL = 0.2  # seconds


def start_thread(work: Callable[..., None], *arguments: Any) -> None:
    """Starts a thread that does not keep the process alive."""
    threading.Thread(target=work, args=arguments, daemon=True).start()


def read_exit_report() -> ExitReport | None:
    """The report of a process that has ended, from the store; None without one."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        if stored := launcher.get(_SCOPE, "end"):
            return ExitReport(*json.loads(stored))
    return None


def publish_exit_report(end: ExitReport) -> None:
    """Puts the report into the store, for processes that have not connected yet."""
    with contextlib.suppress(OSError):
        launcher.put(_SCOPE, "end", json.dumps(end))


def accept_peers(
    own: ProcessRank,
    on_hello: Callable[[Peer, int, dict[str, Any]], None],
    on_missing: Callable[[int, str], None],
) -> None:
    """Lets the other processes connect to this one, the first, in the background.

    on_hello: called for each in a thread of its own, with its connection, rank and
    first message. on_missing: called with the rank of a process that did not connect in
    time, and the reason. Raises PeerLost if the store cannot be reached or does not
    answer.
    """
    seconds = launcher.patience()
    try:
        server = socket.create_server((launcher.own_address(), 0), backlog=64)
    except OSError as error:  # an unknown name, or a network that is down
        host, port = launcher.store_address() or ("", 0)
        raise PeerLost(
            f"horovodrun's key-value store at {host}:{port} cannot be reached: {error}"
        ) from None
    server.settimeout(_POLL)
    token = secrets.token_hex(16)  # known only to processes that can read the store
    connected = {own.rank}

    def welcome(peer: Peer) -> None:
        with contextlib.suppress(TimeoutError):
            hello = peer.receive() or {}
            if hello.get("token") == token and hello.get("size") == own.size:
                connected.add(hello["rank"])
                on_hello(peer, hello["rank"], hello)

    def accept() -> None:
        deadline = time.monotonic() + seconds
        with server:
            while len(connected) < own.size:
                with contextlib.suppress(TimeoutError):
                    start_thread(welcome, Peer(server.accept()[0]))
                if time.monotonic() > deadline:
                    missing = min(set(range(own.size)) - connected)
                    on_missing(missing, f"it did not start within {seconds} s")
                    return

    start_thread(accept)
    address, port = server.getsockname()[:2]
    try:
        launcher.put(_SCOPE, "first", f"{token} {address}:{port}")
    except OSError as error:
        raise PeerLost(
            f"horovodrun's key-value store does not answer: {error}"
        ) from None


def connect(own: ProcessRank) -> Peer:
    """Connects to the first process, from any other.

    Raises PeerLost after too long a wait, or the error of a process that has already
    reported its end to the store.
    """
    seconds = launcher.patience()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if ended := read_exit_report():
            raise ended.error()
        # The store may still have the address of an earlier first process.
        with contextlib.suppress(OSError, ValueError):
            token, address = (launcher.get(_SCOPE, "first") or "").split(" ")
            name, _, port = address.rpartition(":")
            peer = Peer(socket.create_connection((name, int(port)), timeout=10))
            hello = {"rank": own.rank, "size": own.size, "token": token}
            peer.send(hello | {"where": launcher.process_location()})
            return peer
        time.sleep(_POLL)
    raise PeerLost(f"the first process did not start within {seconds} s")
