"""A tiny model with data for several tasks, and ways to run the script on them.

TensorFlow is imported where a test asks for it: those of texts and files take a second.
"""

import functools
import gc
import importlib.metadata
import os
import shutil
import sys

import pytest

from tests.support import quick
from tests.support import tiny as tiny_lib
from tests.support.processes import Cluster, process
from tests.support.runs import assert_refused, tree
from tests.support.skips import NoSkips
from tests.support.tiny import Tiny
from tests.support.trained import Trained

EARLIER = {"predict.txt": "1\n0\n", "eval_results.txt": "eval_accuracy = 0.5\n"}


def pytest_addoption(parser):
    parser.addoption(
        "--no-skips", action="store_true", help="see tests/support/skips.py"
    )
    parser.addoption("--quick", action="store_true", help="see tests/support/quick.py")


def pytest_configure(config):
    if config.getoption("--no-skips") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(NoSkips())
    if config.getoption("--quick"):
        quick.ask()


def pytest_collection_finish():
    """What is imported stays: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def wide_screen():
    """No line of a log is wrapped."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "2000"
    yield
    os.environ["COLUMNS"] = before or ""


# Folders whose files take minutes: xdist hands them out first, so that its processes
# end together.
FIRST = ("distributed", "end_to_end", "pretraining", "evaluation", "robustness")
THEN = ("training", "export", "classification", "checkpoints")


def pytest_collection_modifyitems(items):
    def turn(item):
        folder = item.path.parent.name
        return 0 if folder in FIRST else 1 if folder in THEN else 2

    items.sort(key=turn)
    for item in items:
        long = any(map(item.get_closest_marker, ("nightly", "faults")))
        if long and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(1200))


@functools.cache
def _divide():
    """Before TensorFlow works: a process can divide its CPU only once."""
    from bert_mgpu.distributed import devices

    devices.configure("cpu", 6)
    quick.apply()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Where a test file has imported TensorFlow: before fixtures of any scope."""
    if "tensorflow" in sys.modules:
        _divide()


@pytest.fixture(scope="session")
def logical_cpus():
    """What asks for this imports TensorFlow."""
    _divide()


@pytest.fixture
def usual_graphs(logical_cpus):
    """The graphs that users have, also with --quick: where their optimizer matters."""
    with quick.undone():
        yield


@pytest.fixture(scope="session")
def tiny(logical_cpus, tmp_path_factory):
    """Of one layer: a step is traced in half the time."""
    return tiny_lib.make(tmp_path_factory.mktemp("tiny"), layers=1)


@pytest.fixture(scope="session")
def two_layers(logical_cpus, tmp_path_factory):
    """The same with two layers, where those are the point."""
    return tiny_lib.make(tmp_path_factory.mktemp("two-layers"), layers=2)


@pytest.fixture(scope="session")
def trained(tiny, tmp_path_factory):
    """trained(task, **flags) -> the output_dir of a training, to look at only."""
    return Trained(tiny, tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="session")
def script():
    """script(flags) -> (exit code, stdout, stderr) of a process."""

    def run(args, **options):
        started = process(args, **options)
        out, err = started.communicate(timeout=300)
        return started.returncode, out, err

    return run


@pytest.fixture
def inside(started):
    """inside(flags) -> (exit code, stdout, stderr), in this process: faster."""
    from bert_mgpu.cli import run_classifier

    return functools.partial(started, run_classifier.main)


@pytest.fixture
def started(capfd, monkeypatch):
    """started(work, flags) -> (exit code, stdout, stderr).

    What a script does by starting itself anew is done in this process too.
    """
    from bert_mgpu.distributed import launcher as launcher_lib

    def call(work, args):
        def anew(parts):
            monkeypatch.setenv(launcher_lib.PARTS, str(parts))
            return work()

        monkeypatch.setattr(sys, "argv", ["script.py", *args])
        monkeypatch.setattr(launcher_lib, "restart_in_parts", anew)
        monkeypatch.delenv(launcher_lib.PARTS, raising=False)
        capfd.readouterr()
        code = work()
        monkeypatch.delenv(launcher_lib.PARTS, raising=False)
        return code, *capfd.readouterr()

    return call


@pytest.fixture
def work(tiny, tmp_path):
    """A copy of the workspace, with an output_dir that holds earlier results."""
    for name in ("model", "data"):
        shutil.copytree(tiny.root / name, tmp_path / name)
    (tmp_path / "out").mkdir()
    for name, text in EARLIER.items():
        (tmp_path / "out" / name).write_text(text)
    return Tiny(tmp_path)


@pytest.fixture
def resumed(work, trained):
    """The workspace, whose output_dir holds model.ckpt-4 and model.ckpt-6."""
    run = trained(save_checkpoints_steps=4)
    shutil.copytree(run, work.root / "out", dirs_exist_ok=True)
    return work


@pytest.fixture
def expect_refused(inside):
    """expect_refused(work, *fragments, **flags) asserts: one line, no file changed."""

    def check(work, *fragments, **flags):
        out = work.root / "out"
        before = tree(out)
        assert_refused(
            inside(work.flags(out, **{"do_train": True, **flags})), *fragments
        )
        assert tree(out) == before

    return check


@pytest.fixture(scope="session")
def cluster():
    try:
        importlib.metadata.version("horovod")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("Horovod is not installed: make horovod")
    return Cluster()
