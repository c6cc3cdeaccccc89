"""The exit codes of scripts, and their one-line messages on standard error."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import pathlib
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TextIO, cast

from bert_mgpu.config import parsing
from bert_mgpu.config.parsing import Settings
from bert_mgpu.core import extras, terminal
from bert_mgpu.core.errors import (
    Interrupted,
    OutOfMemory,
    Preempted,
    RunError,
    UserError,
    message_of,
    out_of_memory,
)
from bert_mgpu.core.log import print_stdout, say

# Errors of the user's disk are not bugs in bert_mgpu.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_NAME_ERRORS = (
    *(errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR),
    *(errno.ENAMETOOLONG, errno.ELOOP),
)
_NO_COMPILER = re.compile(
    r"(no ptx compilation provider|libdevice not found|couldn't get ptxas"
    r"|failed to launch ptxas|ptxas exited with)[^\n]*",
    re.IGNORECASE,
)


class FailSafeStream:
    """A standard error stream whose failure does not end the work.

    Its reader or terminal may go away, or the disk of a log file may be full.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def close(self) -> None:
        self._try(self._stream.close)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except OSError:
            if self._stream.closed:
                return
            # What is left in the buffer goes to /dev/null too.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def fail_safe_stderr() -> Iterator[None]:
    """Keeps the work going, silently, when no one reads standard error any more."""
    before, sys.stderr = sys.stderr, cast("TextIO", FailSafeStream(sys.stderr))
    try:
        yield
    finally:
        sys.stderr = before


@contextlib.contextmanager
def redirect_native_stderr(
    log: pathlib.Path | None, heard: bool = True
) -> Iterator[None]:
    """Sends the output of TensorFlow's C++ code to `log`; None: to standard error.

    That code writes to descriptor 2 before any setting takes effect, so sys.stderr
    moves to a descriptor of its own. heard: False discards what is written to
    sys.stderr. Raises OSError if the file cannot be written.
    """
    sys.stderr.flush()
    descriptor, before = os.dup(2), sys.stderr
    try:
        if log is not None:
            with log.open("wb") as file:
                os.dup2(file.fileno(), 2)
        target = os.dup(descriptor) if heard else os.open(os.devnull, os.O_WRONLY)
        # File names may contain characters that the locale lacks.
        stream = os.fdopen(target, "w", buffering=1, errors="backslashreplace")
        sys.stderr = cast("TextIO", FailSafeStream(stream))
        try:
            yield
        finally:
            os.dup2(descriptor, 2)
            sys.stderr.close()
            sys.stderr = before
    finally:
        os.close(descriptor)


def fail(error: RunError) -> int:
    """Prints the error's line; returns its exit code."""
    line = " ".join(str(error).split())  # a file's name may contain newlines
    label = terminal.coloured(f"{error.label}:", "red", sys.stderr)
    print(f"{label} {line}", file=sys.stderr)
    return error.exit_code


def explained(work: Callable[[], int], stopped: str) -> int:
    """The exit code of a command without settings, whose errors become one line.

    stopped: what Ctrl-C leaves.
    """
    try:
        return work()
    except RunError as error:
        return fail(error)
    except OSError as error:
        if error.errno in _DISK_ERRORS:
            name = error.filename or "cannot write"
            return fail(UserError(f"{name}: {error.strerror}: free some space"))
        return fail(unusable_path_error(error, None, ""))
    except KeyboardInterrupt:
        return fail(Interrupted(f"by Ctrl-C: {stopped}"))


class OneLineParser(argparse.ArgumentParser):
    """The parser of commands without a flag table; it reports a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        sys.exit(fail(UserError(f"{message} (see {self.prog} --help)")))

    def print_help(self, file: Any = None) -> None:
        if code := print_stdout(self.format_help().rstrip()):
            sys.exit(code)


def explain(
    error: Exception, output: pathlib.Path, flag: str, *, memory_hint: str
) -> RunError | None:
    """The RunError for a full disk, an unusable path, lack of memory or a missing
    compiler; None for any other error.

    output: the path to write, which this flag names; memory_hint: advice for a lack of
    memory. TensorFlow reports a full disk only in its messages.
    """
    message = re.sub(r"\{\{.*?\}\} *", "", message_of(error))  # TensorFlow's node names
    full = re.search("no space left|quota exceeded|file too large", message, re.I)
    disk = None
    if full:  # the line, up to these words
        begin = message.rfind("\n", 0, full.start()) + 1
        disk = message[begin : full.end()].strip()
    if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
        disk = f"{error.filename or output}: {error.strerror}"
    if disk:
        return UserError(f"{disk}: free some space, or pass another --{flag}")
    if isinstance(error, OSError) and error.errno in _NAME_ERRORS and error.filename:
        return unusable_path_error(error, output, flag)
    if shortage := out_of_memory(error):
        return OutOfMemory(f"{shortage}: {memory_hint}")
    if no_compiler := _NO_COMPILER.search(message):
        return UserError(
            f"XLA cannot use NVIDIA's compiler: {no_compiler[0].strip().rstrip('.:')}:"
            f" {extras.advice('gpu')}, or pass --xla=off"
        )
    return None


def unusable_path_error(
    error: OSError, output: pathlib.Path | None, flag: str
) -> UserError:
    """The error for a file or folder that cannot be used, or for the network."""
    if error.filename is None:
        return UserError(
            f"{error.strerror or error}: check the network and the disks, then run the"
            " same command again"
        )
    path = pathlib.Path(os.fsdecode(error.filename)).absolute()
    advice = "check its name and its permissions"
    if output and path.is_relative_to(output.absolute()):
        advice = f"pass another --{flag}"
    return UserError(f"{path}: cannot use it: {error.strerror}: {advice}")


@fail_safe_stderr()
def run(
    argv: Sequence[str],
    usage: str,
    table: type[Settings],
    *,
    work: Callable[[Settings], None],
    output: Callable[[Settings], tuple[pathlib.Path, str]],
    memory_hint: str,
    stopped: str,
) -> int:
    """Runs a script that needs no training session; returns the exit code.

    output, memory_hint: see `explain`; stopped: what happens to the work when
    SIGTERM or Ctrl-C stops it.
    """

    def preempt(number: int, frame: object) -> None:
        raise Preempted(stopped)

    before = signal.getsignal(signal.SIGTERM)
    if isinstance(sys.stdout, io.TextIOWrapper):  # file names may not be valid text
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        settings, notes = parsing.parse(argv, usage, table)
        for note in notes:
            say(note)
        signal.signal(signal.SIGTERM, preempt)
        try:
            work(settings)
            sys.stdout.flush()
        except (RunError, BrokenPipeError):
            raise
        except Exception as error:
            path, flag = output(settings)
            if known := explain(error, path, flag, memory_hint=memory_hint):
                raise known from None
            raise
        return 0
    except parsing.HelpRequested as asked:
        return print_stdout(str(asked))
    except RunError as error:
        return fail(error)
    except KeyboardInterrupt:
        # Half-written objects, such as zipfile's, may raise errors when destroyed.
        sys.unraisablehook = lambda unraisable: None
        return fail(Interrupted(f"by Ctrl-C: {stopped}"))
    except BrokenPipeError:  # | head
        return print_stdout("")
    except Exception:
        traceback.print_exc()
        print("this is a bug in bert_mgpu: please report it", file=sys.stderr)
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)
