"""Values that are gathered in parts, by real processes."""

import pathlib

from tests.support.paths import ROOT

PROGRAM = pathlib.Path(__file__).with_name("gathered.py")


def test_large_values_are_gathered_in_parts(cluster):
    """Horovod counts bytes in 32 bits: two outputs of 1 GiB would be too many."""
    code, out = cluster.run(2, [], program=PROGRAM, env={"PYTHONPATH": str(ROOT)})
    assert code == 0 and out.count("whole") == 2, out
