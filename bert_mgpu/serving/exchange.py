"""The slow parts of a request under one deadline: reading it, awaiting the answer.

Nothing cancels a handler whose client has left, so both also watch for that.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Awaitable
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

T = TypeVar("T")
_GONE = 499  # the client left: nginx's status for it, which only the metrics show


class Deadline:
    """The moment at which a request must be answered."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    async def wait(self, work: Awaitable[T]) -> T:
        """Awaits work; at the deadline cancels it and raises asyncio.TimeoutError."""
        return await asyncio.wait_for(work, max(0.0, self._end - time.monotonic()))


async def read_body(request: Request, most: int, deadline: Deadline) -> bytes:
    """The body of a request, of at most `most` bytes.

    Raises HTTPException: 413 (too long), 408 (too slow), 499 (the client left).
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
        await deadline.wait(read())
    except asyncio.TimeoutError:
        raise HTTPException(
            408, f"the body took more than {deadline.seconds:g} s"
        ) from None
    except ClientDisconnect:
        raise HTTPException(_GONE, "the client disconnected") from None
    return b"".join(parts)


async def answer_of(
    future: concurrent.futures.Future[T], request: Request, deadline: Deadline
) -> T:
    """The result of a batcher's future, which is cancelled once nobody waits for it.

    The request's body must have been read. Raises HTTPException: 499 (the client left),
    503 (the deadline); and whatever the future raises.
    """
    answer = asyncio.wrap_future(future)
    gone = asyncio.ensure_future(_gone(request))
    both: list[asyncio.Future[Any]] = [answer, gone]
    try:
        await deadline.wait(asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED))
    except asyncio.TimeoutError:
        raise HTTPException(503, f"no answer within {deadline.seconds:g} s") from None
    else:
        if answer.done():
            return answer.result()
        raise HTTPException(_GONE, "the client disconnected")
    finally:
        gone.cancel()
        answer.cancel()


async def _gone(request: Request) -> None:
    message: dict[str, Any] = {"type": ""}
    while message["type"] != "http.disconnect":
        message = {**await request.receive()}
