"""Lets code outside of a task see the hidden states of the task's forward passes."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Observer = Callable[[Sequence[Any]], None]
_observer = contextvars.ContextVar[Observer | None]("observer", default=None)


@contextlib.contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """While it lasts, the observer gets the hidden states of each encoder pass."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def show(hidden: Sequence[Any]) -> None:
    """Passes the hidden states to the observer, if there is one."""
    if observer := _observer.get():
        observer(hidden)
