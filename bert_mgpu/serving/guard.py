"""Checks the host and the origin of a request before anything else reads it."""

from __future__ import annotations

import urllib.parse
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEALTH = "/healthz"  # it reveals nothing, and probes use any host name
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
    """Refuses foreign host names and origins; adds headers to all responses."""

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

        open_to_all = scope["path"] == HEALTH
        refused = None if open_to_all else self._refusal(Headers(scope=scope))
        if refused is None:
            await self._app(scope, receive, with_headers)
        else:
            response = JSONResponse({"error": refused}, 403)
            await response(scope, receive, with_headers)

    def _refusal(self, headers: Headers) -> str | None:
        """Why a request is refused; None if it is not.

        A foreign web page may make a browser call this server, even by a name of its
        own that resolves to this address.
        """
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name(hosts[0]) not in self._hosts:
            return "requests for this host name are refused: see --allowed_hosts"
        for origin in headers.getlist("origin"):
            if _netloc(origin) != hosts[0].lower():
                return "pages from other sites may not call this server"
        return None


def _netloc(origin: str) -> str | None:
    """The host and port in an Origin header; None if it is malformed."""
    try:
        return urllib.parse.urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _name(host: str) -> str | None:
    """The name in a Host header, without its port; None if it is malformed."""
    try:
        return urllib.parse.urlsplit(f"//{host}").hostname
    except ValueError:
        return None
