"""A look at the hidden states of a pass, from outside of the task that makes it."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Observer = Callable[[Sequence[Any]], None]
_observer = contextvars.ContextVar[Observer | None]("observer", default=None)


@contextlib.contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Within it, the observer gets the hidden states of each pass of the encoder."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def show(hidden: Sequence[Any]) -> None:
    """To the observer, where there is one."""
    if observer := _observer.get():
        observer(hidden)
