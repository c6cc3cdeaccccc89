"""Runs that are stopped go on, and any number of processes gives the same bytes."""

import os
import pathlib
import signal
import time

import pytest

from bert_mgpu.data_prep import parts, shuffle
from tests.support.preparation import INT, LENGTH, parse, start


def wait_for_parts(process, count):
    while len(list(pathlib.Path("out.tfrecord.parts").glob("*.npz"))) < count:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)


def test_any_number_of_processes_writes_the_same_bytes(prepare, small_blocks):
    prepare(output_file="one")
    process = start(workers=2, output_file="two")
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert pathlib.Path("one").read_bytes() == pathlib.Path("two").read_bytes()
    assert (
        pathlib.Path(".one.json").read_text() == pathlib.Path(".two.json").read_text()
    )


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 75), (signal.SIGINT, 130), (signal.SIGKILL, -9)],
    ids=["SIGTERM", "SIGINT", "SIGKILL"],
)
def test_a_stopped_run_goes_on(prepare, small_blocks, number, code):
    pathlib.Path("out.tfrecord").write_text("an earlier output")
    process = start(seconds=0.2)
    wait_for_parts(process, 2)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert "Traceback" not in err
    if code > 0:
        (line,) = err.splitlines()
        assert line.startswith("stopped: ") and "resume from the finished parts" in line
    assert pathlib.Path("out.tfrecord").read_text() == "an earlier output"
    made = {
        path: path.stat().st_mtime_ns
        for path in pathlib.Path("out.tfrecord.parts").glob("*.npz")
    }
    assert 2 <= len(made) < 8
    assert prepare()[0] == 0
    assert not pathlib.Path("out.tfrecord.parts").exists()
    assert prepare(output_file="straight")[0] == 0
    straight = pathlib.Path("straight").read_bytes()
    assert pathlib.Path("out.tfrecord").read_bytes() == straight


def test_a_folder_of_parts_with_other_files_is_left_alone(prepare, work):
    """All of it is removed at the end."""
    folder = pathlib.Path("out.tfrecord.parts")
    (folder / "mine").mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    code, err = prepare()
    assert code == 2 and "mine: out.tfrecord.parts is for unfinished records" in err
    assert {path.name for path in folder.iterdir()} >= {"mine", "notes.txt"}
    assert not pathlib.Path("out.tfrecord").exists()


def test_parts_that_are_there_are_taken(prepare, small_blocks, monkeypatch):
    made = []
    text = parts.Text

    def spy(job, block):
        made.append(block.number)
        if fails and block.number == 5:
            raise KeyboardInterrupt
        return text(job, block)

    monkeypatch.setattr(parts, "Text", spy)
    fails = True
    assert prepare()[0] == 130
    assert made == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]  # each repeat is a part
    # What is damaged, or of other settings, is made anew.
    files = sorted(pathlib.Path("out.tfrecord.parts").glob("*.rows"))
    with open(files[0], "r+b") as file:
        file.truncate(100)
    made.clear()
    fails = False
    assert prepare()[0] == 0
    assert len(made) == 1 + 6 and made[-6:] == [5, 5, 6, 6, 7, 7]
    fails = True
    assert prepare()[0] == 130
    made.clear()
    fails = False
    assert prepare(max_seq_length=LENGTH + 1)[0] == 0
    assert made == sorted([*range(8), *range(8)])
    assert parse("out.tfrecord", {"input_ids": ([LENGTH + 1], INT)})


def test_text_that_was_changed_meanwhile_is_read_anew(prepare, work, small_blocks):
    process = start(seconds=0.2)
    wait_for_parts(process, 3)
    process.kill()
    process.communicate(timeout=60)
    text = (work / "text").read_text().split("\n\n")
    (work / "text").write_text("\n\n".join([text[1], text[0], *text[2:]]))
    assert prepare()[0] == prepare(output_file="straight")[0] == 0
    straight = (work / "straight").read_bytes()
    assert (work / "out.tfrecord").read_bytes() == straight


def test_ctrl_c_reaches_all_processes_and_ends_with_one_line(work):
    """One worker is at work for a minute, the other has nothing to do any more."""
    text = (work / "text").read_text()
    long = text.replace("\n\n", "\n") * 5 + "\n"
    (work / "text").write_text(long + "x0y0\n\n" * 7 + "x0y0 x0y1\n\n" * 8)
    process = start(workers=2, dupe_factor=2000, start_new_session=True)
    wait_for_parts(process, 1)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.count("\n") == 1 and err.startswith("stopped: by Ctrl-C: ")


def workers_of(pid):
    """Not multiprocessing's own helper, the resource tracker."""
    actual = [
        int(child)
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    return [
        child
        for child in actual
        if b"spawn_main" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def alive(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(
    not pathlib.Path(f"/proc/{os.getpid()}/task").is_dir(),
    reason="which processes are there is read from Linux's /proc",
)
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGKILL], ids=["TERM", "KILL"]
)
def test_no_worker_outlives_the_run(work, number):
    process = start(workers=2, dupe_factor=100_000)
    while len(workers := workers_of(process.pid)) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.5)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (75, -9), err
    assert "Traceback" not in err
    while any(map(alive, workers)):
        time.sleep(0.05)


def test_a_worker_that_is_killed_is_told(work):
    process = start(workers=2, dupe_factor=100_000)
    while len(workers := workers_of(process.pid)) < 2 or not any(
        path.suffix == ".making"
        for path in pathlib.Path("out.tfrecord.parts").iterdir()
    ):
        assert process.poll() is None
        time.sleep(0.01)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "error: a worker process was killed" in err and "Traceback" not in err


def test_two_runs_do_not_work_in_one_folder(prepare):
    process = start(seconds=0.3)
    wait_for_parts(process, 1)
    code, err = prepare()
    process.terminate()
    process.communicate(timeout=60)
    assert code == 2 and process.returncode == 75
    assert "out.tfrecord.parts: another run is working in it: wait for it" in err
    assert prepare()[0] == 0


def test_a_full_disk_ends_with_one_line_and_loses_nothing(prepare, work, monkeypatch):
    (work / "out.tfrecord").write_text("an earlier output")

    def full(*args, **named):
        raise OSError(28, "No space left on device", "out.tfrecord.parts/x")

    monkeypatch.setattr(shuffle, "merge", full)
    code, err = prepare()
    assert code == 2
    assert err.splitlines()[-1] == (
        "error: out.tfrecord.parts/x: No space left on device: free some space, or"
        " pass another --output_file"
    )
    assert (work / "out.tfrecord").read_text() == "an earlier output"
    assert not list(work.glob(".out*"))
