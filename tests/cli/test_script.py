"""Errors that no check foresees become one line with advice."""

import errno
import os
import pathlib

import pytest
import tensorflow as tf

from bert_mgpu.cli import script
from bert_mgpu.core import extras
from bert_mgpu.core.errors import OutOfMemory, UserError

OUT = pathlib.Path("/data/out")


def explained(error):
    return script.explain(error, OUT, "output_dir", memory_hint="pass --device=cpu")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/data/out/x"),
        RuntimeError("{{node save}} /data/out/x; No space left on device"),
        RuntimeError(
            "In save:\n/data/out/x; No space left on device\n\t[[{{node s}}]]"
        ),
    ],
    ids=str,
)
def test_a_full_disk(error):
    reported = explained(error)
    assert isinstance(reported, UserError) and "node" not in str(reported)
    assert str(reported).startswith("/data/out/x")
    assert str(reported).endswith(": free some space, or pass another --output_dir")


def test_a_lack_of_memory():
    reported = explained(MemoryError())
    assert isinstance(reported, OutOfMemory)
    assert str(reported) == "out of memory: pass --device=cpu"


@pytest.mark.parametrize(
    ("message", "reason"),
    [  # of TensorFlow 2.21, where a GPU's XLA lacks files or finds damaged ones
        (
            "libdevice not found at ./libdevice.10.bc\n\t[[{{node step}}]] [Op:__f]",
            "libdevice not found at ./libdevice.10.bc",
        ),
        (
            "Graph execution error:\n\nNo PTX compilation provider is available."
            " Neither ptxas/nvlink nor nvjtlink is available.",
            "No PTX compilation provider is available. Neither ptxas/nvlink nor"
            " nvjtlink is available",
        ),
        ("Failed to launch ptxas", "Failed to launch ptxas"),
    ],
)
def test_a_missing_compiler(message, reason):
    reported = explained(tf.errors.InternalError(None, None, message))
    assert isinstance(reported, UserError)
    assert str(reported) == (
        f"XLA cannot use NVIDIA's compiler: {reason}: {extras.advice('gpu')}, or pass"
        " --xla=off"
    )
    assert explained(RuntimeError("ptxas is fine")) is None


@pytest.mark.parametrize(
    ("path", "advice"),
    [("/data/out/a", "pass another --output_dir"), ("/data/b", "check its name")],
)
def test_a_path_that_refuses(path, advice):
    reported = explained(OSError(errno.EACCES, "Permission denied", path))
    assert str(reported).startswith(
        f"{path}: cannot use it: Permission denied: {advice}"
    )


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "/data/x: {}: free some space"),
        (errno.EACCES, "/data/x: cannot use it: {}: check its name and"),
        (errno.EIO, "/data/x: cannot use it: {}: check its name and"),
    ],
)
def test_a_command_without_settings_tells_them_too(capfd, number, told):
    def work():
        raise OSError(number, os.strerror(number), "/data/x")

    assert script.explained(work, "start it again") == 2
    assert capfd.readouterr().err.startswith(
        f"error: {told.format(os.strerror(number))}"
    )


def test_a_failure_that_names_no_path():
    error = OSError(errno.ENETUNREACH, "Network is unreachable")
    assert str(script.unusable_path_error(error, None, "")) == (
        "Network is unreachable: check the network and the disks, then run the same"
        " command again"
    )


def test_other_errors_are_faults_of_the_program():
    assert explained(ValueError("a shape")) is None


def test_a_message_is_one_line(capfd):
    assert script.fail(UserError("a\nb: no such file")) == 2
    assert capfd.readouterr().err == "error: a b: no such file\n"


def lost(kind):
    """A descriptor that cannot be written to any more."""
    if kind == "full disk":
        return os.open("/dev/full", os.O_WRONLY)
    ours, theirs = os.openpty() if kind == "terminal" else os.pipe()
    os.close(ours)
    return theirs


@pytest.mark.parametrize("kind", ["full disk", "terminal", "pipe"])
@pytest.mark.parametrize("buffering", [1, 1 << 16])
def test_a_log_that_is_lost_ends_nothing(kind, buffering):
    stream = script.FailSafeStream(os.fdopen(lost(kind), "w", buffering=buffering))
    for _ in range(2):
        assert stream.write("a line\n") == 7
        stream.flush()
    stream.write("the rest")
    stream.close()
    assert stream.closed


def test_a_log_that_is_lost_at_its_end_ends_nothing():
    stream = script.FailSafeStream(os.fdopen(lost("full disk"), "w"))
    stream.write("a line\n")
    stream.close()
    assert stream.closed
