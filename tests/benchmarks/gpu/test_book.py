"""What `make gpu` starts, keeps and shows, with rows that are made up."""

import json
import os
import pathlib
import re
import select
import subprocess
import sys

import pytest

from benchmarks.gpu import __main__ as program
from benchmarks.gpu import book as book_lib
from benchmarks.gpu import process, report, rows
from benchmarks.gpu.book import DONE, FAILED, NOT_RUN, Book, Row
from tests.support.paths import ROOT

A, B, C = (Row(name, f"{name}?", "module:function", 30) for name in "abc")
HEAD = {"card": "NVIDIA H200", "cards": 1, "tensorflow": "2.21.0", "dry run": False}
ANSWER = {"told": "5 ms", "figures": {"ms": 5}, "met": True}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results" / "gpu.json"


def ended(answer=ANSWER, code=0, log=""):
    return process.Ended(code, answer, log)


class Machine:
    """Rows take as long as they say; some have another end than the usual."""

    def __init__(self, monkeypatch, ends=None):
        self.now, self.started, self.ends = 0.0, [], ends or {}
        monkeypatch.setattr(process, "run", self.run)
        monkeypatch.setattr(program.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(program, "ROWS", (A, B, C))

    def run(self, work, options, seconds, *, session):
        assert session and seconds > 0
        if work == "machine:facts":
            self.now += 10
            return ended(HEAD)
        self.started.append(options["name"])
        self.now += 30
        return self.ends.get(options["name"], ended())


@pytest.fixture
def measure(path, monkeypatch):
    """measure(minutes, ends, ...) -> (exit code, names of rows that were started)."""
    monkeypatch.delenv(process.DRY, raising=False)

    def run(minutes, ends=None, words=(), changed=()):
        machine = Machine(monkeypatch, ends)
        fakes = [row._replace(options={"name": row.name}) for row in (A, B, C)]
        fakes = [dict(changed).get(row.name, lambda r: r)(row) for row in fakes]
        monkeypatch.setattr(program, "ROWS", tuple(fakes))
        code = program.main([f"--minutes={minutes}", f"--out={path}", *words])
        return code, machine.started

    return run


def statuses(path):
    actual = json.loads(path.read_text())["rows"]
    return {name: record["status"] for name, record in actual.items()}


def test_rows_start_as_long_as_they_fit_and_the_same_command_goes_on(
    measure, path, capsys
):
    assert measure(80 / 60) == (0, ["a", "b"])
    assert (
        "no time for c: run the same command again to resume (0.5 min)"
        in capsys.readouterr().out
    )
    assert statuses(path) == {"a": DONE, "b": DONE}
    assert measure(80 / 60) == (0, ["c"])
    assert measure(80 / 60) == (0, [])


def test_a_shorter_row_takes_the_time_that_a_longer_one_leaves(measure):
    longer = {"b": lambda row: row._replace(seconds=100)}
    assert measure(80 / 60, changed=longer)[1] == ["a", "c"]


def test_what_failed_is_tried_again_behind_what_is_missing(measure, path):
    ends = {"a": ended(None, 1, "no such thing")}
    assert measure(80 / 60, ends) == (1, ["a", "b"])
    assert measure(5) == (0, ["c", "a"])
    assert set(statuses(path).values()) == {DONE}


def test_what_is_missing_is_no_failure_and_looked_for_again(measure, path):
    lacks = {
        "a": lambda row: row._replace(cards=2),
        "b": lambda row: row._replace(needs=("no_such_package",)),
    }
    ends = {"c": ended({"not run": "tqdm is not installed"})}
    assert measure(5, ends, changed=lacks) == (0, ["c"])
    reasons = {n: r["reason"] for n, r in Book(path).rows.items()}
    assert reasons == {
        "a": "1 visible card",
        "b": "no_such_package not installed",
        "c": "tqdm is not installed",
    }
    assert measure(5) == (0, ["a", "b", "c"])


def test_only_measures_anew(measure):
    measure(5)
    assert measure(5, words=["--only=b"]) == (0, ["b"])


def test_a_figure_that_is_missed_is_told_by_the_exit_code(measure, path):
    assert measure(5, {"b": ended(ANSWER | {"met": False})})[0] == 1
    lines = path.with_suffix(".md").read_text().splitlines()
    assert "| b | b? | 5 ms |  | **no** | 30 |" in lines


@pytest.mark.parametrize("changed", [{"card": "Tesla T4"}, {"tensorflow": "2.22.0"}])
def test_rows_of_two_machines_do_not_mix(measure, path, changed, capsys):
    measure(80 / 60)
    book = Book(path)
    book.head |= changed
    book.write()
    assert measure(5) == (2, [])
    assert "is of another machine" in capsys.readouterr().err


def test_without_a_card_nothing_is_measured(measure, monkeypatch, capsys):
    monkeypatch.setitem(HEAD, "cards", 0)
    assert measure(5) == (2, [])
    assert "TensorFlow sees no GPU" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1, "exit code 1: last words"),
        (-9, "ended by SIGKILL: last words"),
        (None, "it took too long and was ended: last words"),
    ],
)
def test_how_a_row_failed_is_kept(code, reason):
    record = program.record_of(A, ended(None, code, "last words"), 12.34)
    assert record == {"status": FAILED, "reason": reason, "seconds": 12.3}


def test_the_file_is_whole_at_any_moment(path, monkeypatch):
    book = Book(path)
    book.add(A, {"status": DONE} | ANSWER)

    def full(self, text):
        path.with_name("gpu.json.tmp").open("w").write(text[:10])
        raise OSError("no space left")

    monkeypatch.setattr(pathlib.Path, "write_text", full)
    with pytest.raises(OSError, match="no space"):
        book.add(B, {"status": DONE} | ANSWER)
    assert [*Book(path).rows] == ["a"]


def test_the_table_has_every_row_and_no_broken_cells(path):
    book = Book(path)
    book.head = HEAD | {"driver_version": "570.86"}
    book.add(A, {"status": DONE, "seconds": 3.6, "told": "a|b\nc", "met": True})
    book.add(B, {"status": NOT_RUN, "reason": "1 visible card"})
    lines = report.markdown(book, (A, B, C._replace(wanted="much"))).splitlines()
    assert lines[0] == (
        "Measured on: 1 x NVIDIA H200, driver_version 570.86, tensorflow 2.21.0."
    )
    assert lines[4:] == [
        r"| a | a? | a\|b c |  | yes | 4 |",
        "| b | b? | not run: 1 visible card |  |  |  |",
        "| c | c? | - | much |  |  |",
    ]


# -- the rows that there are ------------------------------------------------------


def test_the_first_nine_minutes_hold_what_matters_most():
    one_card = [row for row in rows.ROWS if row.cards == 1]
    names = [row.name for row in one_card]
    first = one_card[: names.index(rows.LAST_OF_FIRST) + 1]
    assert [row.name for row in first][:3] == ["selftest", "out-of-memory", "trace"]
    speeds = {f"{p}-{t}" for p in ("bfloat16", "tf32") for t in (128, 512)}
    assert {row.name for row in first} == speeds | {
        "selftest",
        "out-of-memory",
        "trace",
    }
    assert rows.FACTS_SECONDS + sum(row.seconds for row in first) <= rows.FIRST - 30


def test_all_rows_of_one_card_take_at_most_45_minutes():
    all_ = sum(row.seconds for row in rows.ROWS if row.cards == 1)
    assert rows.FACTS_SECONDS + all_ <= rows.ALL_OF_ONE_CARD


def test_every_row_has_a_name_of_its_own_and_a_work_that_is_there():
    names = [row.name for row in rows.ROWS]
    assert len(set(names)) == len(names)
    for row in rows.ROWS:
        module, function = row.work.split(":")
        text = (ROOT / "benchmarks" / "gpu" / f"{module}.py").read_text()
        assert re.search(rf"^def {function}\(", text, re.MULTILINE), row.work
        assert not row.like or row.like in names
        json.dumps(row.options)


def ends(pid, seconds=30):
    """A signal may take a moment."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with open(descriptor):
        return bool(select.select([descriptor], [], [], seconds)[0])


def test_a_part_that_hangs_ends_with_its_row():
    """SIGKILL reaches the whole session."""
    command = ["sh", "-c", "sleep 60 & echo $!; wait"]
    done = process.call(command, 2, session=True)
    assert done.code is None
    assert ends(int(done.log))


# -- only TensorFlow --------------------------------------------------------------

BLOCK = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
def find_others(name, path=None, target=None):
    return None if name.split(".")[0] in {names!r} else find(name, path, target)
PathFinder.find_spec = find_others
"""
ABSENT = {
    *("safetensors", "sklearn", "tqdm", "google_crc32c", "matplotlib", "tensorboard"),
    *("rjieba", "psutil", "scipy", "pyarrow", "onnx", "onnxruntime", "tf2onnx"),
    *("torch", "transformers", "tokenizers", "tensorflow_text", "horovod", "pytest"),
}


@pytest.fixture
def only_tensorflow(tmp_path):
    """The environment of a machine with TensorFlow and nothing else."""
    (tmp_path / "sitecustomize.py").write_text(BLOCK.format(names=ABSENT))
    return os.environ | {"PYTHONPATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": "-1"}


def test_the_rows_need_tensorflow_alone(only_tensorflow):
    """All that the rows import; the dry run shows that they work."""
    code = """
import sys
try:
    import tqdm
except ModuleNotFoundError:
    pass
else:
    sys.exit("tqdm is not blocked")
from benchmarks.gpu import absent
print(*absent.stand_in())
import google_crc32c, safetensors.numpy
assert absent.missing(["tqdm", "google_crc32c", "numpy"]) == ["tqdm", "google_crc32c"]
from benchmarks.gpu import engine, exact, failing, memory, several, speed, trace
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=only_tensorflow,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["safetensors", "tqdm", "google_crc32c"]


@pytest.mark.nightly
def test_a_dry_run_measures_every_row(tmp_path, only_tensorflow):
    out = tmp_path / "gpu.json"
    words = ["--dry-run", "--minutes=20", f"--out={out}"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", *words],
        cwd=ROOT,
        env=only_tensorflow,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    actual = Book(out).rows
    assert set(actual) == {row.name for row in rows.ROWS}
    why = {n: r["reason"] for n, r in actual.items() if r["status"] != DONE}
    assert not any(r["status"] == FAILED for r in actual.values())
    allowed = r"as .*, in a dry run|4 logical devices|.* not installed"
    assert all(re.fullmatch(allowed, reason) for reason in why.values()), why
    assert len(actual) - len(why) >= 14
    for name, record in actual.items():
        assert name in why or (record["told"] and record["figures"])
    assert out.with_suffix(".md").read_text().count("\n") == len(rows.ROWS) + 4
    assert book_lib.next_row(Book(out).open(rows.ROWS), 0) is None
