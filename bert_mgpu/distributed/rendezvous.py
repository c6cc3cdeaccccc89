"""How the processes of a run find each other: by horovodrun's store of values."""

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
    """One that does not keep the process alive."""
    threading.Thread(target=work, args=arguments, daemon=True).start()


def read_exit_report() -> ExitReport | None:
    """The end of another process, which the store knows before any connection."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        if ended := launcher.get(_SCOPE, "end"):
            return ExitReport(*json.loads(ended))
    return None


def publish_exit_report(end: ExitReport) -> None:
    """Puts it there."""
    with contextlib.suppress(OSError):
        launcher.put(_SCOPE, "end", json.dumps(end))


def accept_peers(
    place: ProcessRank,
    joined: Callable[[Peer, int, dict[str, Any]], None],
    missing: Callable[[int, str], None],
) -> None:
    """The first process lets the others find it, from now on.

    joined: called for each of them, in a thread of its own, with its rank and what it
    said. missing: called with one that did not come in time, and why that is an end.
    Raises Lost where the store does not answer.
    """
    seconds = launcher.patience()
    server = socket.create_server((launcher.own_address(), 0), backlog=64)
    server.settimeout(_POLL)
    token = secrets.token_hex(16)  # whoever may read the store is one of us
    there = {place.rank}

    def welcome(peer: Peer) -> None:
        with contextlib.suppress(TimeoutError):
            hello = peer.receive() or {}
            if hello.get("token") == token and hello.get("size") == place.size:
                there.add(hello["rank"])
                joined(peer, hello["rank"], hello)

    def accept() -> None:
        deadline = time.monotonic() + seconds
        with server:
            while len(there) < place.size:
                with contextlib.suppress(TimeoutError):
                    start_thread(welcome, Peer(server.accept()[0]))
                if time.monotonic() > deadline:
                    lacking = min(set(range(place.size)) - there)
                    missing(lacking, f"it did not start within {seconds} s")
                    return

    start_thread(accept)
    address, port = server.getsockname()[:2]
    try:
        launcher.put(_SCOPE, "first", f"{token} {address}:{port}")
    except OSError as error:
        raise PeerLost(
            f"horovodrun's store of values does not answer: {error}"
        ) from None


def connect(place: ProcessRank) -> Peer:
    """Any other process finds the first one.

    Raises Lost where that takes too long, and the end of another process that the
    store knows of.
    """
    seconds = launcher.patience()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if ended := read_exit_report():
            raise ended.error()
        # The store may have the address of an earlier first process.
        with contextlib.suppress(OSError, ValueError):
            token, address = (launcher.get(_SCOPE, "first") or "").split(" ")
            name, _, port = address.rpartition(":")
            peer = Peer(socket.create_connection((name, int(port)), timeout=10))
            own = {"rank": place.rank, "size": place.size, "token": token}
            peer.send(own | {"where": launcher.process_location()})
            return peer
        time.sleep(_POLL)
    raise PeerLost(f"the first process did not start within {seconds} s")
