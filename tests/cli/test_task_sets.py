"""The faults of a file: as many are kept as are shown."""

import pytest

from bert_mgpu.cli.doctor.task_sets import FoundFaults


@pytest.mark.parametrize("count", [0, 1, 19, 20, 21, 500])
def test_first_and_last_faults_are_kept(count):
    found = FoundFaults()
    for line in range(1, count + 1):
        found.add(line, f"a.tsv:{line}: wrong")
    lines = [f"a.tsv:{line}: wrong" for line in range(1, count + 1)]
    if count > 20:
        more = f"and {count - 20} more that cannot be read, before this one:"
        lines = [*lines[:19], more, lines[-1]]
    assert found.lines == lines and len(found) == count
    assert len(found._first) <= 20
