"""Files are whole or left alone; a folder is one run's at a time."""

import contextlib
import errno
import fcntl
import os
import pathlib
import resource

import pytest

from bert_mgpu.core import files
from bert_mgpu.core.errors import UserError


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "target"
    path.write_text("old")
    return path


@contextlib.contextmanager
def full_disk():
    """No file may grow beyond 100 bytes; Python ignores the signal, and is told."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:  # before pytest writes to a log of its own
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("text", ["年\n", ["年", "\n"], iter(["", "年\n"])])
def test_text_is_written_as_utf8(target, text):
    files.write_text(target, text)
    assert target.read_bytes() == b"\xe5\xb9\xb4\n"
    assert names(target.parent) == ["target"]


@pytest.mark.parametrize("parts", [b"x" * 101, [b"x"] * 101])
def test_a_full_disk_leaves_the_old_file(target, parts):
    with pytest.raises(UserError) as caught, full_disk():
        files.write_bytes(target, parts)
    assert str(caught.value) == f"{target}: cannot write it: File too large"
    assert target.read_text() == "old" and names(target.parent) == ["target"]


def test_a_fault_while_it_writes_leaves_the_old_file(target):
    def parts():
        yield b"new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write_bytes(target, parts())
    assert target.read_text() == "old" and names(target.parent) == ["target"]


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError("no memory")])
def test_a_folder_that_cannot_be_replaced_stays(tmp_path, monkeypatch, fault):
    """A signal comes, or a rename fails, when the old folder has gone aside."""
    target, rename = tmp_path / "target", pathlib.Path.rename
    target.mkdir()
    (target / "old").write_text("old")

    def renamed(path, other):
        if path.name == "new":
            raise fault
        return rename(path, other)

    monkeypatch.setattr(pathlib.Path, "rename", renamed)
    with pytest.raises(type(fault)), files.replacing_folder(target) as new:
        (new / "new").write_text("new")
    assert names(tmp_path) == ["target"] and names(target) == ["old"]


def test_two_that_write_one_file_do_not_write_into_each_other(target):
    """Processes of two containers may have one number."""
    with files.replacing(target) as one, files.replacing(target) as other:
        one.write_text("one")
        other.write_text("other")
        assert one.read_text() == "one"
    assert target.read_text() == "one" and names(target.parent) == ["target"]


def test_a_folder_is_taken_once_at_a_time(tmp_path):
    folder = tmp_path / "a" / "b"
    with files.locked(folder, "--flag=b", "folder") as lock:
        assert names(folder) == [lock.name]
        with (
            pytest.raises(
                UserError, match=r"^--flag=b: another run .* another folder$"
            ),
            files.locked(folder, "--flag=b", "folder"),
        ):
            pass
    with files.locked(folder, "--flag=b", "folder"):
        pass


def test_a_folder_without_locks_is_warned_of(tmp_path, monkeypatch, capsys):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with files.locked(tmp_path, "--flag=b", "folder") as lock:
        assert lock.exists()
    (line,) = "".join(capsys.readouterr().err).replace("\n  ", " ").splitlines()
    assert line == (
        "WARNING: --flag=b: no locks there (No locks available): another run in the"
        " same folder would not be noticed"
    )


def test_no_export_takes_the_place_of_a_mount_point(tmp_path, monkeypatch):
    target = tmp_path / "disk"
    target.mkdir()
    files.check_replaceable(target, lambda folder, found: False)
    monkeypatch.setattr(os.path, "ismount", lambda path: path == target)
    files.check_replaceable(target / "inside", lambda folder, found: False)
    with pytest.raises(UserError) as caught:
        files.check_replaceable(target, lambda folder, found: False)
    assert str(caught.value) == (
        f"{target}: a mount point, which cannot be replaced: pass a folder inside it"
    )


def test_a_place_that_cannot_be_written_is_told(target):
    with (
        pytest.raises(UserError) as caught,
        files.locked(target / "b", "--flag=b", "folder"),
    ):
        pass
    assert str(caught.value) == (
        "--flag=b: cannot write there: Not a directory: pass another folder"
    )
