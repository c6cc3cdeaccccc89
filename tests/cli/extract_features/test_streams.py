"""Pipes, stops and memory of extract_features.py."""

import json
import os
import select
import signal
import subprocess
import sys
import time

import pytest

from bert_mgpu.training.programs import Programs
from bert_mgpu.training.towers import Towers
from tests.support.feature_lines import as_flags, assert_same_lines, model_flags
from tests.support.paths import ROOT
from tests.support.standard_input import typed
from tests.support.tiny import rows


def test_streams(two_layers, lines, extract, tmp_path):
    """A line is answered as soon as it is there, and a file is the same by a pipe."""
    flags = {**model_flags(two_layers.model), "layers": "-1,0,-2"}
    flags |= {"input_file": "-", "output_file": "-"}
    given = as_flags(flags)
    process = subprocess.Popen(
        [sys.executable, "extract_features.py", *given],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    first, *others = lines[0].read_text().split("\n")
    process.stdin.write(f"{first}\n")
    process.stdin.flush()
    assert select.select([process.stdout], [], [], 120)[0]  # not held back
    answer = process.stdout.readline()  # before the next line comes
    assert json.loads(answer)["linex_index"] == 0
    process.stdin.write("\n".join(others))
    process.stdin.close()
    answers = [json.loads(line) for line in [answer, *process.stdout]]
    process.stderr.read()
    assert process.wait(60) == 0
    assert_same_lines(answers, lines[2])


def test_a_line_that_cannot_be_read_is_answered(extract, tmp_path):
    """By its fault, with its number, and the stream goes on; .npy files end there."""
    given = tmp_path / "given"

    def run(output, sent):
        given.write_bytes(sent)
        with typed(given):
            return extract(output, input_file="-", pooling="mean", layers=None)

    bad = b"the sun\nbad \0 line\n\xff\njoy\n"
    code, out, err = run("-", bad)
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and "2 could not be read" in err
    assert [one["linex_index"] for one in found] == [0, 1, 2, 3]
    assert found[1].keys() == found[2].keys() == {"linex_index", "error"}
    assert "NUL byte" in found[1]["error"] and "not UTF-8" in found[2]["error"]
    _, out, _ = run("-", b"the sun\njoy\n")
    good = [json.loads(line) for line in out.splitlines()]
    assert [found[0]["values"], found[3]["values"]] == [one["values"] for one in good]
    assert run(tmp_path / "x.npy", bad)[0] == 2 and not (tmp_path / "x.npy").exists()


def test_a_reader_that_leaves_ends_the_stream(two_layers, lines):
    flags = {**model_flags(two_layers.model), "output_file": "-", "layers": "-1"}
    flags["input_file"] = lines[0]
    given = " ".join(f"--{name}={value}" for name, value in flags.items())
    command = f"{sys.executable} extract_features.py {given} | head -c 20"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout.startswith('{"linex_index": 0')
    assert "Traceback" not in done.stderr


def test_sigterm_leaves_nothing(extract, tmp_path, monkeypatch):
    """Also while a batch is computed whose program XLA has compiled."""
    monkeypatch.setattr(Programs, "stop_compiling_frequent_shapes", lambda self: True)

    def stopped(self, placed):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)

    monkeypatch.setattr(Towers, "launch_outputs", stopped)
    (tmp_path / "v.npz").write_text("old")
    code, _, err = extract(tmp_path / "v.npz")
    assert code == 75 and "stopped: an unfinished output is not kept" in err
    assert [*tmp_path.iterdir()] == [tmp_path / "v.npz"]
    assert (tmp_path / "v.npz").read_text() == "old"


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_lines(tiny, tmp_path):
    """Ten times as many lines take as much, pooled and as tokens."""
    texts = [a for _, a, _ in rows(5000, 4)]

    def peak(count, name, **flags):
        lines = "".join(f"{texts[n % len(texts)]}\n" for n in range(count))
        (tmp_path / "in.txt").write_text(lines)
        flags |= {**model_flags(tiny.model), "layers": "-1", "batch_size": 256}
        flags |= {"input_file": tmp_path / "in.txt", "output_file": tmp_path / name}
        given = as_flags(flags)
        process = subprocess.Popen(
            [sys.executable, "extract_features.py", *given],
            cwd=ROOT,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        )
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0
        return usage.ru_maxrss / 1024  # MB

    for name, flags in (("v.npy", {"pooling": "mean"}), ("v.jsonl", {}), ("v.npz", {})):
        few, many = peak(15_000, name, **flags), peak(150_000, name, **flags)
        assert many < few + 100, name
