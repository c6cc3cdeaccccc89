"""What may stand in the place of a file, and what each path of a folder is."""

import hashlib
import os
import shutil


def everything(folder, but):
    """What each path is, links as links, except for what is in `but`."""
    actual = {}
    for path in sorted(folder.rglob("*")):
        if but in path.parents:
            continue
        status = path.lstat()
        if path.is_symlink():
            actual[str(path)] = os.readlink(path)
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            actual[str(path)] = content, status.st_mtime_ns
        else:
            actual[str(path)] = status.st_mode
    return actual


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
