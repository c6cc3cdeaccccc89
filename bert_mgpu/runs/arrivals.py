"""Items that a thread reads, in blocks of those that have arrived so far."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from bert_mgpu.core.errors import RunError

Item = TypeVar("Item")


class _End(NamedTuple):
    """Marks the end of the items, with the error that caused it, if any."""

    error: Exception | None


def blocks(
    read: Callable[[Callable[[Item], None]], None], most: int
) -> Iterator[list[Item]]:
    """The items that `read(put)` puts, in blocks of the 1 to `most` that have arrived.

    A RunError of `read` is raised after the items that precede it.
    """
    received: queue.Queue[Item | _End] = queue.Queue(most)

    def work() -> None:
        error: Exception | None = None
        try:
            read(received.put)
        except Exception as raised:  # raised below, in the thread that takes the blocks
            error = raised
        received.put(_End(error))

    # A daemon, since nothing else ends a read that waits for input.
    threading.Thread(target=work, daemon=True).start()
    end: _End | None = None
    while end is None:
        block: list[Item] = []
        while len(block) < most:
            try:
                item = received.get(block=not block)
            except queue.Empty:
                break
            if isinstance(item, _End):
                end = item
                break
            block.append(item)
        if block:
            yield block
    if isinstance(end.error, RunError):
        raise end.error
    if end.error is not None:
        raise RuntimeError("standard input cannot be read") from end.error
