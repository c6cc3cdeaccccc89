"""Output for the user: lines on standard error, results on standard output."""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

import tqdm

Item = TypeVar("Item")


_quiet = contextvars.ContextVar("quiet", default=False)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Nothing is said here, in this thread: the caller is another program."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def say(text: str) -> None:
    """One line for the user, on standard error, above any bar."""
    if _quiet.get():
        return
    tqdm.tqdm.write(text, file=sys.stderr)


def progress_bar(
    items: Iterable[Item], title: str, unit: str = "batch"
) -> Iterable[Item]:
    """The items, with a progress bar where standard error is a terminal."""
    return tqdm.tqdm(
        items,
        desc=title,
        unit=unit,
        disable=not sys.stderr.isatty(),
        leave=False,
    )


def print_stdout(text: str) -> int:
    """Prints to standard output; the exit code 0."""
    write_stdout(f"{text}\n")
    return 0


def write_stdout(text: str) -> bool:
    """Writes to standard output at once; false where nobody reads it any more."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # --help | head
        # Python flushes what is left when it exits, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True
