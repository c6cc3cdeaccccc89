"""Errors that end a run with one line and a documented exit code.

A message says what is wrong, where (file:line), which value was seen and what
to pass instead. Any other exception is a bug in bert_mgpu: exit code 1.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Sequence
from typing import Any

_LONGEST = 200  # characters of a value in a message
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = _LONGEST


def short_repr(value: Any) -> str:
    """The value's repr, short enough for a message."""
    return _SHORT.repr(value)


def shortened(value: object, most: int = 80) -> str:
    """The value as text, cut after `most` characters."""
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}..."


def listed(items: Sequence[str], most: int = 10, *, quoted: bool = False) -> str:
    """The first names, for a message, and how many more there are.

    Names may come from a file: long ones are cut, and those with the comma of a list,
    line ends, colours or outer whitespace, which could pass for several names or for a
    part of the message, are quoted. quoted: whether all are.
    """

    def is_plain(name: str) -> bool:
        clean = name.isprintable() and name == name.strip() and ", " not in f"{name} "
        return clean and len(name) <= _LONGEST and not quoted

    names = [name if is_plain(name) else short_repr(name) for name in items[:most]]
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(names) + more


class RunError(Exception):
    """Ends the run: `session.run` prints its message as one line."""

    exit_code = 1
    label = "error"


class UserError(RunError):
    """Bad usage or bad data."""

    exit_code = 2


class Unreadable(UserError):
    """A file that cannot be read at present; its contents may be intact."""

    def __init__(self, path: object, reason: object):
        super().__init__(
            f"{path}: cannot be read: {reason}: check its permissions and its disk,"
            " then run the same command again"
        )


class Diverged(RunError):
    """The loss or a gradient is NaN or infinite."""

    exit_code = 3


class NotFinite(Diverged):
    """Outputs of some rows are not finite numbers, so they predict nothing."""

    def __init__(self, message: str, row: int, precision: str):
        """row: the first such row, from 0, among those that were computed together."""
        super().__init__(message)
        self.row, self._precision = row, precision

    def of(self, place: str) -> Diverged:
        """This error for the text at `place`, advising the user of a trained model."""
        halves = self._precision not in ("float32", "tf32")
        advice = "--precision=float32" if halves else "another model"
        return Diverged(f"{place}: its outputs are not finite numbers: pass {advice}")


class DivergedStep(Diverged):
    """A training step that diverged."""

    def __init__(self, step: int, seen: str, advice: str):
        """step: from 1; seen: such as "loss nan"; advice: the end of the message."""
        super().__init__(f"step {step}: {seen}: the training diverged{advice}")
        self.step, self.seen, self.advice = step, seen, advice

    def first_at(self, place: str) -> DivergedStep:
        """This error with the place of the first non-finite number; "": unknown."""
        seen = f"{self.seen}, first in {place}" if place else self.seen
        return DivergedStep(self.step, seen, self.advice)


def memory_advice(training: bool, recompute: str) -> str:
    """The flags to recommend where not even one row at a time fits."""
    if not training:
        return "pass --device=cpu, --precision=bfloat16 or a lower --max_seq_length"
    advice = (
        "with another --output_dir, --precision=bfloat16, --slot_bits=8, some"
        " --freeze_layers or a lower --max_seq_length"
    )
    first = "" if recompute == "block" else "--recompute=block; or, "
    return f"pass {first}{advice}"


class OutOfMemory(RunError):
    """A device ran out of memory."""

    exit_code = 4


class DoesNotFit(OutOfMemory):
    """This many rows at once do not fit; the same steps in smaller parts may.

    A script then restarts itself: see `launcher.restart_in_parts`.
    """

    def __init__(self, message: str, notice: str, parts: int):
        """notice: logged by a script that restarts; parts: how many per batch."""
        super().__init__(message)
        self.notice, self.parts = notice, parts


class PeerLost(RunError):
    """Another process failed or was lost (see exit.json); if lost, resumable."""

    exit_code = 5


class Preempted(RunError):
    """Stopped by SIGTERM; a training saves first, and the same command resumes it."""

    exit_code = 75
    label = "stopped"


class Interrupted(RunError):
    """Stopped by Ctrl-C; a training saves first, and the same command resumes it."""

    exit_code = 130
    label = "stopped"


_SEARCHED = 10_000  # characters to search at each end of an error
_NO_MEMORY = re.compile(
    r"(out of memory|\boom\b|\b\w*alloc_failed|dst tensor is not initialized"
    # The last: a constant that the graph optimizer would have computed.
    r"|(unable|failed) to allocate|cannot parse tensor from proto"
    # NVIDIA's libraries say this when they get no memory for their own buffers.
    r"|failed to create cu\w+ handle|nccl[^\n]*unhandled cuda error)[^\n]*",
    re.IGNORECASE,
)


def message_of(error: Exception) -> str:
    """The message of an error; only the beginning and the end of a very long one.

    TensorFlow says first where an operation was created, often in many lines of Python,
    and what went wrong last.
    """
    message = str(getattr(error, "message", error))
    if len(message) <= 2 * _SEARCHED:
        return message
    return f"{message[:_SEARCHED]}\n{message[-_SEARCHED:]}"


def out_of_memory(error: Exception) -> str | None:
    """The line that says which memory ran out; None for any other error.

    Only the message can tell: TensorFlow's error classes cover other causes too. A
    RunError is never one, since it may quote anything, such as the name of a file.
    """
    if isinstance(error, RunError):
        return None
    match = _NO_MEMORY.search(message_of(error))
    if match:
        return match[0].rstrip(". ")
    return "out of memory" if isinstance(error, MemoryError) else None
