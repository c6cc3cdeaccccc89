"""uvicorn, configured for a server that untrusted clients may reach."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

_HEAD_SECONDS = 20.0  # until a request must begin, on a new or an idle connection
_CONNECTIONS = 1000
_LAST_TURNS = 10  # of the event loop, to accept and read waiting connections


class _IdleTimeoutProtocol(H11Protocol):
    """Closes connections, idle or with unread answers, that uvicorn would keep forever.

    `cycle` is uvicorn's object for the latest request.
    """

    head_seconds = _HEAD_SECONDS

    def connection_made(self, transport) -> None:  # type: ignore[no-untyped-def]
        super().connection_made(transport)
        self._last = self.cycle
        self._unread, self._drained = 0, False  # bytes waiting to be sent
        self.loop.call_later(self.head_seconds, self._look)

    def _look(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if 0 < self._unread <= unread and not self._drained:
            self.transport.abort()  # nothing has been read for this long
        if self.transport.is_closing() and not unread:
            return
        if self.cycle is self._last and (
            not self.cycle or self.cycle.response_complete
        ):
            self.transport.close()  # when all is read
        self._last, self._unread, self._drained = self.cycle, unread, False
        self.loop.call_later(self.head_seconds, self._look)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._drained = True


class _ServerWithoutSignals(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures none: the caller ends the server by `should_exit`."""
        yield

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        """First accepts the connections that are waiting, which uvicorn would reset."""
        for _ in range(_LAST_TURNS):
            await asyncio.sleep(0.01)
        await super().shutdown(sockets)


def make_server(app: ASGIApp, timeout: float) -> uvicorn.Server:
    """Returns a server that the caller runs.

    timeout: seconds in which each request is answered; before it ends, the server
    answers those that it has accepted.
    """
    return _ServerWithoutSignals(
        uvicorn.Config(
            app,
            http=_IdleTimeoutProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=math.ceil(timeout) + 5,
        )
    )
