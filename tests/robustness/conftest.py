"""How a damaged file is checked: one line, and nothing changed anywhere else."""

import pytest

from tests.support.damage import everything
from tests.support.runs import assert_refused, tree


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
