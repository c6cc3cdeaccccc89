"""Output for the user: lines on standard error, results on standard output."""

from __future__ import annotations

import contextlib
import contextvars
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

import tqdm

from bert_mgpu.core import terminal
from bert_mgpu.core.errors import UserError

Item = TypeVar("Item")


NAMES = 14  # terminal columns for the names of facts
_WARNING = "WARNING: "
_quiet = contextvars.ContextVar("quiet", default=False)
_last = contextvars.ContextVar("last", default="")  # the name of the last fact


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silences `say` and `fact` in this thread, where the caller is another program."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def say(text: str, colour: str | None = None) -> None:
    """Writes a message to standard error, above any progress bar.

    One line is wrapped at the terminal's width; several lines stay as they are.
    """
    _last.set("")
    indent = len(text) - len(text.lstrip()) + 2
    _write([text] if "\n" in text else _wrapped(text, indent), colour)


def begin() -> None:
    """Makes the next fact show its name, whatever was written before."""
    _last.set("")


def fact(name: str, text: str) -> None:
    """Writes a fact about a run: its name in one column, the text in a second one.

    The name is left out where it repeats that of the fact before. A text that begins
    with "WARNING: " gets WARNING as its name.
    """
    colour, detail = None, text.removeprefix(_WARNING)
    if detail != text:
        name, colour = _WARNING.strip(": "), "yellow"
    elif name == _last.get():
        name = ""
    _last.set("" if colour else name or _last.get())
    _write(_wrapped(f"{name:>{NAMES}}  {detail}", NAMES + 2), colour)


def weights_fact(text: str) -> None:
    """Writes a fact about the weights that a run starts from."""
    fact("weights", text)


def _wrapped(text: str, indent: int) -> list[str]:
    return terminal.hanging(text, terminal.columns_of(sys.stderr), indent)


def _write(lines: list[str], colour: str | None) -> None:
    if _quiet.get():
        return
    text = terminal.visible("\n".join(lines), "\n\t")
    if colour:
        text = terminal.coloured(text, colour, sys.stderr)
    tqdm.tqdm.write(text, file=sys.stderr)


def progress_bar(
    items: Iterable[Item], title: str, unit: str, *, total: int | None = None
) -> Iterable[Item]:
    """The items, with a progress bar where standard error is a terminal.

    unit: in the plural. total: the number of items, where they have no length.
    """
    return tqdm.tqdm(
        items,
        desc=title,
        total=total,
        unit=f" {unit}",
        disable=not sys.stderr.isatty(),
        leave=False,
    )


def show(text: str) -> None:
    """Prints to standard output. Raises UserError where it cannot be written."""
    write_stdout(f"{text}\n")


def print_stdout(text: str) -> int:
    """Prints to standard output. Returns the exit code: 0, or that of a full disk."""
    try:
        show(text)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _escaped(text: str, encoding: str) -> str:
    """The text with JSON's escapes for the characters that an encoding changes."""

    def is_kept(part: str) -> bool:
        try:
            return part.encode(encoding).decode(encoding) == part
        except UnicodeError:
            return False

    if is_kept(text):
        return text
    return "".join(one if is_kept(one) else json.dumps(one)[1:-1] for one in text)


def write_stdout(text: str) -> bool:
    """Writes to standard output at once. Returns whether anybody still reads it.

    Characters that its encoding lacks are written as JSON has them. Raises UserError
    where it cannot be written.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        sys.stdout.write(_escaped(text, encoding))
        sys.stdout.flush()
    except OSError as error:
        # Python flushes the rest at exit, and would complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # --help | head
            raise UserError(f"cannot write standard output: {error.strerror}") from None
        return False
    return True
