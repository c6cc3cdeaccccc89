"""JSON that is read, files written whole or not at all, folders for one run."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bert_mgpu.errors import UserError


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """The JSON object of a UTF-8 file.

    Raises:
      UserError: it cannot be read, or is none.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path}: cannot read it: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not a JSON file: {error}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: not a JSON object")
    return value


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A path beside `path` to write to, which takes its place if all went well."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_bytes(path: pathlib.Path, parts: bytes | Iterable[bytes]) -> None:
    """Writes a whole file or leaves the old one: never half of it.

    Raises:
      UserError: the disk refuses.
    """
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            file.writelines([parts] if isinstance(parts, bytes) else parts)
            file.flush()
    except OSError as error:
        raise UserError(f"{path}: cannot write it: {error.strerror}") from None


def write_text(path: pathlib.Path, text: str | Iterable[str]) -> None:
    """The same for text, as UTF-8."""
    lines = [text] if isinstance(text, str) else text
    write_bytes(path, (line.encode() for line in lines))


def make_folder(path: pathlib.Path) -> pathlib.Path:
    """Raises UserError where the disk refuses."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot make it: {error.strerror}") from None
    return path


@contextlib.contextmanager
def replacing_folder(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder to write to, which takes the place of another if all went well."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=target.parent, prefix=f".{target.name}."
    ) as scratch:
        new = pathlib.Path(scratch, "new")
        new.mkdir()
        yield new
        if target.exists():
            target.rename(pathlib.Path(scratch, "old"))
        new.rename(target)


def _takes_files(folder: pathlib.Path) -> bool:
    """Tried, since permissions say nothing of a read-only disk, nor to root."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def check_replaceable(target: pathlib.Path, ours: Callable[[set[str]], bool]) -> None:
    """Lets pass what is empty or absent, and an earlier export with nothing else in it.

    ours: whether it is that, of the names in it.

    Raises:
      UserError: it holds something else, or nothing can be written there.
    """
    above = next(path for path in target.absolute().parents if path.exists())
    if not _takes_files(above):
        raise UserError(f"{target}: cannot export: {above} is no folder to write to")
    found = {p.name for p in target.iterdir()} if target.is_dir() else set()
    if target.is_file() or (found and not ours(found)):
        raise UserError(
            f"{target}: exists and is not just an export of bert_mgpu: pass a new"
            " directory"
        )


def unwritable(name: str, instead: str, error: OSError) -> UserError:
    return UserError(
        f"{name}: cannot write there: {error.strerror}: pass another {instead}"
    )


@contextlib.contextmanager
def locked(folder: pathlib.Path, name: str, instead: str) -> Iterator[pathlib.Path]:
    """Makes a folder and takes it for this process; the lock goes with the process.

    Yields the lock's file.

    Args:
      name: what an error calls the folder. instead: what to pass another one of.

    Raises:
      UserError: another process has it; nothing can be written there.
    """
    lock = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(lock, "w")  # noqa: SIM115
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
        except OSError:
            pass  # a file system without locks
        yield lock
