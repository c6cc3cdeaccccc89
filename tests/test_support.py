"""What the tests stand on: their own plugins, and processes that are forks."""

import os
import signal
import subprocess
import sys

import pytest

from tests.support import warm
from tests.support.everything import passed
from tests.support.paths import ROOT
from tests.support.warm import Forked

TESTS = """
import pytest
def test_good(): pass
def test_bad(): assert open("fixed").read() == "yes"
def test_left_out(): pytest.skip("{}")
"""
PLUGINS = {
    "skips": "from tests.support.skips import NoSkips; plugins = [NoSkips()]",
    "passed": "from tests.support.everything import passed; plugins = [passed]",
}


@pytest.fixture
def tests(tmp_path):
    """tests(plugin, reason of a skip) -> (exit code, stdout) of those above."""
    (tmp_path / "fixed").write_text("yes")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(plugin, reason="a cow", **env):
        (tmp_path / "test_some.py").write_text(TESTS.format(reason))
        code = f"import pytest, sys; {PLUGINS[plugin]};"
        code += "sys.exit(pytest.main(['-p', 'no:cacheprovider', '-v'], plugins))"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **env},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run


def test_conftest_loads_no_tensorflow():
    code = "import sys, tests.conftest; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_a_skip_that_nobody_foresaw_fails(tests):
    code, out = tests("skips")
    assert code == 1 and "test_some.py::test_left_out: a cow" in out
    allowed = "real texts and vocabularies are not at /x/shared/data"
    assert tests("skips", allowed)[0] == 0


def test_what_has_passed_is_not_done_again(tests, tmp_path):
    (tmp_path / "fixed").write_text("no")
    before, now = tmp_path / "before", tmp_path / "now"
    before.write_text("")
    env = {passed.BEFORE: str(before), passed.NOW: str(now)}
    code, out = tests("passed", **env)
    assert code == 1 and now.read_text() == "test_some.py::test_good\n"
    why = passed.failures(now).read_text()
    assert why.startswith("test_some.py::test_bad, call\n") and "AssertionError" in why
    before.write_bytes(now.read_bytes())
    (tmp_path / "fixed").write_text("yes")
    code, out = tests("passed", **env)
    assert code == 0 and "test_good" not in out
    assert now.read_text().splitlines()[1:] == ["test_some.py::test_bad"]


ECHO = """
import os, sys
print(sys.argv[1:], os.environ["SAID"], os.getcwd(), "tensorflow" in sys.modules,
      flush=True)
for line in sys.stdin:
    print(line.strip().upper(), flush=True)
sys.exit(7)
"""


@pytest.fixture
def echo(tmp_path):
    (tmp_path / "echo.py").write_text(ECHO)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return Forked([tmp_path / "echo.py", "a b", 1], {"SAID": "x"}, **pipes)


def test_a_fork_is_a_process_as_others_are(echo):
    echo.stdin.write("sun\n")
    echo.stdin.flush()
    assert echo.stdout.readline() == f"['a b', '1'] x {os.getcwd()} True\n"
    assert echo.stdout.readline() == "SUN\n"
    assert echo.poll() is None
    assert echo.communicate("rain\n", 60) == ("RAIN\n", "")
    assert echo.returncode == echo.poll() == 7


def test_a_fork_can_be_ended(echo):
    echo.stdout.readline()
    echo.terminate()
    assert echo.wait(60) == -signal.SIGTERM
    echo.kill()  # of one that is gone, nothing


def stand_in(*command):
    """A process that is for others what its fork would be."""
    warm.address()  # which it finds in the environment
    program = [*warm.PYTHON, "0", *command]
    return subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["-c", "import sys; sys.exit(3)"], 3),
        (["-c", "import os; os.abort()"], -signal.SIGABRT),
        (["-c", "import os; os.kill(os.getpid(), 9)"], -signal.SIGKILL),
        (["-m", "this"], 0),
    ],
)
def test_a_stand_in_ends_as_its_fork_does(command, code):
    with stand_in(*command) as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert ("Namespaces" in output) == ("this" in command)


def test_a_fork_ends_with_the_process_that_wants_it():
    warm.address()  # of a process that stays
    fork = ["-c", "import time; print('sun', flush=True); time.sleep(600)"]
    code = "import os, time; from tests.support.warm import Forked;"
    code += f"Forked({fork}, os.environ); time.sleep(600)"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"sun\n"
        process.kill()
        assert process.stdout.read() == b""  # no one holds the pipe any more


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_fork_ends_with_its_stand_in(number):
    """Where that is killed, what the fork has started ends, too."""
    forks = "os.fork();" if number == signal.SIGKILL else ""
    code = f"import os, time; {forks} print('sun', flush=True); time.sleep(600)"
    with stand_in("-c", code) as process:
        for _ in range(1 + bool(forks)):
            assert process.stdout.readline() == "sun\n"
        process.send_signal(number)
        assert process.stdout.read() == ""  # no one holds the pipe any more
    assert process.returncode == -number
