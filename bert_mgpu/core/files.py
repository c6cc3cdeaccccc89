"""Safe file access: JSON, files written whole or not at all, locked folders.

Only regular files, or links to them, are read: a pipe could block for ever. Writing
replaces a link instead of following it.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import fcntl
import fnmatch
import glob
import json
import os
import pathlib
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from bert_mgpu.core import log
from bert_mgpu.core.errors import UserError, short_repr

STANDARD_INPUT = STANDARD_OUTPUT = "-"  # in place of a file name
# Bytes that a settings file may have: the largest tokenizer.json of a BERT has 10 MB.
# Once parsed it may take thirty times as much memory.
MOST_JSON = 32 << 20


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a file to read it. Raises OSError for pipes, devices and folders."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return open(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory", os.fspath(path))
    raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def lexists(path: str | os.PathLike[str]) -> bool:
    """Whether a path exists, broken links included; OSError where access is denied."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # NUL in it
        return False
    return True


def expand(name: str) -> list[str]:
    """The paths that a glob matches, sorted; the name of a file stands for itself.

    `**` matches any number of folders.
    """
    return [name] if os.path.exists(name) else sorted(glob.glob(name, recursive=True))


def check_literal(path: str | os.PathLike[str]) -> None:
    """Raises UserError for a checkpoint path that TensorFlow would take for a pattern.

    Its reader looks for files that match the path.
    """
    text = str(path)
    if "\\" in text or not fnmatch.fnmatchcase(text, text):
        raise UserError(
            f"{text}: TensorFlow takes [ ] and \\ in the path of a checkpoint for a"
            " pattern: give the folder another name"
        )


def read_text(path: pathlib.Path, most: int) -> str:
    """The text of a UTF-8 file of at most `most` bytes.

    Raises:
      UserError: it cannot be read, is longer or is not UTF-8.
    """
    try:
        with open_regular(path) as file:
            content = file.read(most + 1)
    except OSError as error:
        raise UserError(f"{path}: cannot read it: {error.strerror}") from None
    if len(content) > most:
        raise UserError(
            f"{path}: more than {most >> 20} MiB, which no such file has: pass the"
            " right one"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: not UTF-8: byte {error.start}: save it as UTF-8"
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = collections.Counter(key for key, _ in pairs)
        repeated = short_repr(counts.most_common(1)[0][0])
        raise ValueError(f"the key {repeated} occurs twice: remove one")
    return value


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """The JSON object of a UTF-8 file of at most MOST_JSON bytes.

    Raises:
      UserError: it cannot be read or is not a JSON object; a key occurs twice; a
        string is not valid Unicode.
    """
    text = read_text(path, MOST_JSON)
    try:
        value = json.loads(text, object_pairs_hook=_object)
        if "\\ud" in text.lower():  # a lone surrogate, which no file can hold
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UserError(
            f"{path}: not a JSON file: it has an unpaired surrogate"
        ) from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not a JSON file: {error}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: not a JSON object")
    return value


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A temporary path to write to, renamed to `path` if all goes well."""
    # Process ids repeat across containers; nobody can plant a link by this name.
    own = f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    temporary = path.with_name(own)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_bytes(path: pathlib.Path, parts: bytes | Iterable[bytes]) -> None:
    """Writes the whole file or leaves the old one, never half of it.

    Raises:
      UserError: it cannot be written.
    """
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            file.writelines([parts] if isinstance(parts, bytes) else parts)
            file.flush()
    except OSError as error:
        raise UserError(f"{path}: cannot write it: {error.strerror}") from None


def write_text(path: pathlib.Path, text: str | Iterable[str]) -> None:
    """Writes a whole UTF-8 file or leaves the old one, like `write_bytes`."""
    lines = [text] if isinstance(text, str) else text
    write_bytes(path, (line.encode() for line in lines))


def make_folder(path: pathlib.Path) -> pathlib.Path:
    """Makes a folder. Returns its path. Raises UserError where that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot make it: {error.strerror}") from None
    return path


@contextlib.contextmanager
def replacing_folder(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """A temporary folder to write to, which replaces `target` if all goes well."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=target.parent, prefix=f".{target.name}."
    ) as scratch:
        new = pathlib.Path(scratch, "new")
        new.mkdir()
        yield new
        old = pathlib.Path(scratch, "old")
        try:
            if target.exists():
                target.rename(old)
            new.rename(target)
        except BaseException:  # a signal, too: the earlier folder stays
            if old.exists() and not target.exists():
                old.rename(target)
            raise


def _takes_files(folder: pathlib.Path) -> bool:
    """Whether files can be created in a folder.

    Tries it: permissions do not reveal a read-only disk, nor do they bind root.
    """
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def check_writable(path: pathlib.Path, flag: str) -> None:
    """Raises UserError where the file that a flag names cannot be written.

    Creates its folder where there is none.
    """
    make_folder(path.absolute().parent)
    if not _takes_files(path.absolute().parent):
        raise UserError(
            f"--{flag}={path}: no file can be written there: pass another name"
        )


def check_replaceable(
    target: pathlib.Path, is_export: Callable[[pathlib.Path, set[str]], bool]
) -> None:
    """Raises UserError unless an export may replace the target.

    It may if the target is absent, empty or nothing but an earlier export, is not a
    mount point, and its parent folder is writable. is_export: gets a folder and the
    names in it, and returns whether it is an earlier export.
    """
    if os.path.ismount(target):
        raise UserError(
            f"{target}: a mount point, which cannot be replaced: pass a folder inside"
            " it"
        )
    above = next(path for path in target.absolute().parents if path.exists())
    if not _takes_files(above):
        raise UserError(f"{target}: cannot export: {above} is not a writable folder")
    names = {p.name for p in target.iterdir()} if target.is_dir() else set()
    if target.is_file() or (names and not is_export(target, names)):
        raise UserError(
            f"{target}: exists and is not just an export of bert_mgpu: pass a new"
            " directory"
        )


def unwritable(name: str, instead: str, error: OSError) -> UserError:
    """The error for a folder that cannot be written to; instead: as in `locked`."""
    return UserError(
        f"{name}: cannot write there: {error.strerror}: pass another {instead}"
    )


@contextlib.contextmanager
def locked(folder: pathlib.Path, name: str, instead: str) -> Iterator[pathlib.Path]:
    """Makes a folder and locks it, until the process ends at the latest.

    Yields the path of the lock file.

    Args:
      name: the folder's name in errors.
      instead: what the errors advise to replace: "folder" for "pass another folder".

    Raises:
      UserError: another process holds the lock, or nothing can be written there.
    """
    lock = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if lock.is_symlink():
            raise UserError(f"{lock}: a link: remove it")
        # Neither follows a link nor waits for a pipe's reader.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = open(os.open(lock, flags, 0o666), "rb", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise unwritable(name, instead, error) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{name}: another run is working in it: wait for it, or pass another"
                f" {instead}"
            ) from None
        except OSError as error:  # a file system without locks
            log.say(
                f"WARNING: {name}: no locks there ({error.strerror}): another run in"
                f" the same {instead} would not be noticed",
                "yellow",
            )
        yield lock
