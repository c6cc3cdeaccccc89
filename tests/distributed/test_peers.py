"""The first end of a run of several processes: its text, and what the others end by."""

import pytest

from bert_mgpu.core.errors import PeerLost
from bert_mgpu.distributed.peers import ExitReport


@pytest.mark.parametrize(("code", "others"), [(75, 75), (130, 130), (1, 5), (5, 5)])
def test_the_others_end_by_its_code_where_all_were_stopped(code, others):
    assert ExitReport(code, 1, 7, reason="why").error().exit_code == others


def test_an_end_names_process_step_and_reason():
    assert str(ExitReport(PeerLost.exit_code, 2, 7, reason="its end")) == (
        "process 2 was lost at step 7: its end"
    )
    assert str(ExitReport(PeerLost.exit_code, None, 7, reason="none moves")) == (
        "all processes hang at step 7: none moves"
    )
    assert (
        str(ExitReport(3, 2, 7, reason="NaN"))
        == "process 2 ended at step 7 with exit code 3: NaN"
    )
