"""Calls of a function for many items in several processes, completed in order."""

from __future__ import annotations

import collections
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from bert_mgpu.core.errors import OutOfMemory

Item = TypeVar("Item")


def in_order(
    function: Callable[[Item], None], items: Iterable[Item], processes: int
) -> Generator[Item, None, None]:
    """Yields each item, in order, when the function is done with it.

    At most one item per process waits, so that memory use stays flat. A single process
    is the current one; several are spawned, and end with the current one. An error of
    the function is raised here, in place of its item.

    Raises:
      OutOfMemory: if a process was killed from outside.
    """
    if processes == 1:
        for item in items:
            function(item)
            yield item
        return
    waiting: collections.deque[tuple[Item, Future[None]]] = collections.deque()
    with _pool(processes) as pool:
        for item in items:
            with _broken_by_memory():
                waiting.append((item, pool.submit(function, item)))
            if len(waiting) > processes:
                yield _done(*waiting.popleft())
        while waiting:
            yield _done(*waiting.popleft())


def _done(item: Item, future: Future[None]) -> Item:
    with _broken_by_memory():
        future.result()
    return item


@contextlib.contextmanager
def _broken_by_memory() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool:
        raise OutOfMemory(
            "a worker process was killed, as happens when memory runs out: run the same"
            " command again with a smaller --workers"
        ) from None


@contextlib.contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, _start)
    try:
        yield pool
    finally:
        # Results that are still under way are not needed.
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        pool.shutdown(cancel_futures=True)


def _start() -> None:
    """Makes a new process ignore Ctrl-C, which its parent handles, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()  # a parent that is killed cannot stop its processes
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()
