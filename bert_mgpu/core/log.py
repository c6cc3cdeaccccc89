"""Output for the user: lines on standard error, results on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

import tqdm


def say(text: str) -> None:
    """One line for the user, on standard error, above any bar."""
    tqdm.tqdm.write(text, file=sys.stderr)


def progress_bar(items: Any, what: str, unit: str = "batch") -> Iterable[Any]:
    """A bar over `items` where there is a terminal, else nothing."""
    return tqdm.tqdm(
        items,
        desc=what,
        unit=unit,
        disable=not sys.stderr.isatty(),
        leave=False,
    )


def print_stdout(text: str) -> int:
    """Prints what was asked for."""
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
