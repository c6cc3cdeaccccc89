"""Hostile files of rows, and how it is checked that they do no harm."""

import gzip
import io
import json
import os
import resource
import subprocess
import sys
import tempfile

import numpy as np

from tests.support.processes import SCRIPT
from tests.support.runs import assert_refused, tree

TSV = {"label": 0, "text_a": 1}  # task.json without its files
NAMED = {"label": "y", "text_a": "t"}
GOOD = {  # rows that are as they should be
    "tsv": b"yes\tsun joy\nno\train loss\n" * 4,
    "csv": b"y,t\n" + b'yes,"sun, joy"\nno,rain\n' * 4,
    "jsonl": b'{"y": "yes", "t": "sun"}\n{"y": "no", "t": "rain"}\n' * 4,
}
CUT = gzip.compress(GOOD["tsv"], mtime=0)  # the same bytes every time
ZEROS = 1 << 24  # bytes of a member of a gzip bomb
# A child counts the memory of whom it was forked from: this one is small.
ALONE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:], timeout=200)
with open(sys.argv[1], "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""


def bomb(members=64, of=b"\0"):
    """1 GB in 1 MB, without a line's end."""
    return gzip.compress(of * (ZEROS // len(of))) * members


def parquet(columns, **options):
    """The bytes of a Parquet file."""
    import pyarrow
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file, **options)
    return file.getvalue()


def run_refused(call, out, root, *fragments):
    """call() ends with exit code 2 and one line, and changes nothing below root.

    out: the run's own folder, in which it may leave its lock and its log.
    """
    before = everything(root, out)
    result = call()
    assert_refused(result, *fragments)
    assert len(result[2].splitlines()[-1]) < 2000
    assert everything(root, out) == before
    assert not out.exists() or not tree(out)


def everything(root, out):
    """What lies below root: sizes, times and contents, but for what is in `out`."""
    actual = {}
    for path in sorted(root.rglob("*")):
        if out not in (path, *path.parents):
            about = path.lstat()
            is_file = path.is_file() and not path.is_symlink()
            content = path.read_bytes() if is_file and about.st_size < 1 << 26 else None
            actual[path] = about.st_size, about.st_mtime_ns, about.st_mode, content
    return actual


def write_own(folder, name, content, task=None, **keys):
    """A folder of data of the task "own", whose train file is this."""
    folder.mkdir()
    (folder / name).write_bytes(content)
    task = {"train": name, **(TSV if task is None else task), **keys}
    (folder / "task.json").write_text(json.dumps(task))
    return folder


def check(tmp_path, tiny, inside, file, task, **keys):
    name, content, *fragments = file
    folder = write_own(tmp_path / "data", name, content, task, **keys)
    out = tmp_path / "out"
    flags = tiny.flags(out, "own", data_dir=folder, do_train=True)
    run_refused(lambda: inside(flags), out, tmp_path, *fragments)


def measured(args, program=SCRIPT, source=None, **limits):
    """A process -> (exit code, stdout, stderr, its largest memory in MB)."""

    def limit():
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, name), (value, value))

    with tempfile.NamedTemporaryFile() as used:
        one = subprocess.run(
            [sys.executable, "-c", ALONE, used.name, sys.executable, program, *args],
            input=source or b"",
            capture_output=True,
            preexec_fn=limit,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        )
        peak = int(used.read())
    return one.returncode, one.stdout.decode(), one.stderr.decode(), peak / 1024


def flipped(content, places):
    """The bytes with some bits turned."""
    changed = np.frombuffer(content, np.uint8).copy()
    changed[places] ^= 0x55
    return changed.tobytes()
