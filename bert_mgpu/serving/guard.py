"""What a request must be before anything reads it: its host, its origin, its size."""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Refuses requests of foreign hosts and origins; adds headers to all answers."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]):
        """hosts: names, without ports, by which clients may call this server."""
        self._app, self._hosts = app, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refusal(Headers(scope=scope))
        if refused is None:
            await self._app(scope, receive, with_headers)
        else:
            response = PlainTextResponse(f"{refused}\n", 403)
            await response(scope, receive, with_headers)

    def _refusal(self, headers: Headers) -> str | None:
        """A page elsewhere may make a browser call this server, by its own name too."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name(hosts[0]) not in self._hosts:
            return "this host is not served here: see --allowed_hosts"
        for origin in headers.getlist("origin"):
            if urllib.parse.urlsplit(origin).netloc.lower() != hosts[0].lower():
                return "a page elsewhere may not call this server"
        return None


def _name(host: str) -> str | None:
    """The name in a Host header, without its port; None where it is none."""
    try:
        return urllib.parse.urlsplit(f"//{host}").hostname
    except ValueError:
        return None


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """The body of a request of at most `most` bytes, which comes in this time.

    Raises HTTPException: 413, 408.
    """
    too_large = HTTPException(413, f"the body has more than {most} bytes")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > most:
        raise too_large
    parts: list[bytes] = []

    async def read() -> None:
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise too_large
            parts.append(part)

    try:
        await asyncio.wait_for(read(), seconds)
    except asyncio.TimeoutError:
        raise HTTPException(408, f"the body took more than {seconds:g} s") from None
    return b"".join(parts)
