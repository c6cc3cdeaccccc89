"""How a damaged file is checked: one line, and nothing changed anywhere else."""

import hashlib
import os
import shutil
import signal

import pytest

from tests.end_to_end.conftest import assert_refused, resumed, trained, tree, work  # noqa: F401

_LONGEST = 300  # seconds: a pipe that is waited for would stand still for ever


@pytest.fixture(autouse=True)
def ends():
    def stop(*_):
        raise AssertionError(f"it waits for {_LONGEST} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_LONGEST)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def everything(folder, but):
    """What each path is, links as links, except for what is in `but`."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if but in path.parents:
            continue
        status = path.lstat()
        if path.is_symlink():
            found[str(path)] = os.readlink(path)
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path)] = content, status.st_mtime_ns
        else:
            found[str(path)] = status.st_mode
    return found


@pytest.fixture
def watched(work, inside):  # noqa: F811
    """watched(flags) runs the script; nothing outside of output_dir may change."""

    def call(out=None, **flags):
        out = out or work.root / "out"
        before = everything(work.root, out)
        args = work.flags(out, **{"do_train": True, **flags})
        code, printed, err = inside(args)
        assert "Traceback" not in err
        assert everything(work.root, out) == before
        return code, printed, err

    return call


@pytest.fixture
def refused(work, watched):  # noqa: F811
    """refused(*fragments, **flags): exit code 2, one line, nothing lost or written."""

    def check(*fragments, **flags):
        before = tree(work.root / "out")
        result = watched(**flags)
        assert_refused(result, *fragments)
        longest = max(map(len, result[2].splitlines()))
        assert longest < 2000, longest
        assert tree(work.root / "out") == before

    return check


def _link(path, to):
    path.symlink_to(to)


# What may stand in the place of a file.
KINDS = {
    "empty": lambda path: path.write_bytes(b""),
    "binary": lambda path: path.write_bytes(bytes(range(256)) * 40),
    "folder": lambda path: path.mkdir(),
    "pipe": os.mkfifo,
    "dangling link": lambda path: _link(path, path.with_name("nowhere")),
    "link loop": lambda path: _link(path, path),
    "device": lambda path: _link(path, "/dev/zero"),
}


def put(path, kind):
    """Puts one of KINDS in the place of what was there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    KINDS[kind](path)
