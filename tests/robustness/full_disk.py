"""A disk that is full at a chosen place, by the kernel's own errors.

A file that is opened to write gets some bytes, and then what /dev/full answers: ENOSPC.
Those of TensorFlow and safetensors, which Python does not open, meet a limit on their
size: EFBIG.
"""

import builtins
import contextlib
import io
import os
import pathlib
import resource
import signal

import safetensors.numpy
import tensorflow as tf

from bert_mgpu.checkpoints import google_read

HALF = b'{"step'  # what gets to the disk before it is full
EVENTS = ".tfevents."  # a file that TensorFlow keeps open
SAVED = 1000  # bytes that fit of a file of TensorFlow's


@contextlib.contextmanager
def little_room(size=SAVED):
    """No file of this process can grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@contextlib.contextmanager
def full_at(monkeypatch, part):
    """The disk is full for every file whose path has this part. Yields those files."""
    met: list[str] = []

    def is_it(path):
        actual = isinstance(path, (str, os.PathLike)) and part in os.fspath(path)
        if actual:
            met.append(os.fspath(path))
        return actual

    def opening(file, mode="r", *rest, **named):
        opened = real_open(file, mode, *rest, **named)
        if set(mode) & set("wax+") and is_it(file):
            os.write(opened.fileno(), HALF)
            os.dup2(full.fileno(), opened.fileno())
        return opened

    def limited(work):
        def call(*args, **named):
            where = [one for one in args if isinstance(one, (str, os.PathLike))]
            room = little_room() if any(map(is_it, where)) else contextlib.nullcontext()
            with room:
                return work(*args, **named)

        return call

    def scalar(name, *rest, **named):
        for link in pathlib.Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):  # that of this listing is gone
                if EVENTS in os.readlink(link) and is_it(os.readlink(link)):
                    os.dup2(full.fileno(), int(link.name))
        return real_scalar(name, *rest, **named)

    real_open, real_scalar = builtins.open, tf.summary.scalar
    save = safetensors.numpy.save_file
    with real_open("/dev/full", "wb") as full, monkeypatch.context() as patch:
        patch.setattr(builtins, "open", opening)
        patch.setattr(io, "open", opening)
        patch.setattr(safetensors.numpy, "save_file", limited(save))
        patch.setattr(google_read, "write", limited(google_read.write))
        patch.setattr(tf.saved_model, "save", limited(tf.saved_model.save))
        patch.setattr(tf.summary, "scalar", scalar)
        yield met
