"""Output for the user: lines on standard error, results on standard output."""

from __future__ import annotations

import codecs
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


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """What cannot be encoded, as the escapes of JSON; the place after it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


_JSON_ESCAPES = "json_escapes"  # an error handler of codecs
codecs.register_error(_JSON_ESCAPES, _escaped)


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


def print_stdout(text: str) -> int:
    """Prints to standard output. Returns the exit code: 0, or that of a full disk."""
    try:
        write_stdout(f"{text}\n")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def write_stdout(text: str) -> bool:
    """Writes to standard output at once. Returns whether anybody still reads it.

    Characters that its encoding lacks are written as JSON has them. Raises UserError
    where it cannot be written.
    """
    encoding = sys.stdout.encoding or "utf-8"
    text = text.encode(encoding, _JSON_ESCAPES).decode(encoding)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Python flushes the rest at exit, and would complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # --help | head
            raise UserError(f"cannot write standard output: {error.strerror}") from None
        return False
    return True
