"""How a damaged file is checked: one line, and nothing changed anywhere else."""

import signal

import pytest

from tests.support.damage import everything
from tests.support.runs import assert_refused, tree

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


@pytest.fixture
def watched(work, inside):
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
def refused(work, watched):
    """refused(*fragments, **flags): exit code 2, one line, nothing lost or written."""

    def check(*fragments, **flags):
        before = tree(work.root / "out")
        result = watched(**flags)
        assert_refused(result, *fragments)
        longest = max(map(len, result[2].splitlines()))
        assert longest < 2000, longest
        assert tree(work.root / "out") == before

    return check
