"""The rank of a process in horovodrun's environment, and its restarts."""

import os
import subprocess
import sys

import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.distributed import launcher
from tests.support.processes import python

NAMES = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")


def environment(*values, **more):
    pairs = zip(NAMES, values, strict=True)
    return {f"HOROVOD_{name}": str(value) for name, value in pairs} | more


def test_without_horovodrun_a_process_is_alone():
    own = launcher.process_rank({})
    assert own == (0, 1, 0, 1) and own.is_single and own.is_first


def test_the_rank_is_that_of_the_environment():
    own = launcher.process_rank(environment(5, 8, 1, 4))
    assert (own.rank, own.size, own.local_rank, own.local_size) == (5, 8, 1, 4)
    assert not own.is_single and not own.is_first
    assert launcher.process_rank(environment(0, 8, 0, 4)).is_first


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((8, 8, 0, 4), "HOROVOD_RANK=8 of HOROVOD_SIZE=8"),
        ((-1, 2, 0, 1), "HOROVOD_RANK=-1"),
        (("two", 8, 0, 4), "HOROVOD_RANK=two"),
        ((1, "", 0, 4), "HOROVOD_SIZE="),
    ],
)
def test_an_incomplete_rank_is_refused(values, shown):
    with pytest.raises(UserError, match="unset HOROVOD_RANK") as error:
        launcher.process_rank(environment(*values))
    assert shown in str(error.value)


def test_elastic_jobs_are_those_that_horovodrun_calls_so():
    assert not launcher.is_elastic({"HOROVOD_ELASTIC": "1"})  # left in a shell
    assert not launcher.is_elastic(environment(0, 2, 0, 2))
    assert launcher.is_elastic(environment(0, 2, 0, 2, HOROVOD_ELASTIC="1"))


def test_towers_stay_those_of_the_first_start():
    assert launcher.total_towers({}) is None
    assert launcher.total_towers({launcher.TOWERS: "6"}) == 6


def test_a_process_that_starts_anew_has_all_cores_again():
    """It was bound to its share of them; with its next rank it may get another."""
    code = """if True:
        import os
        from bert_mgpu.distributed import launcher

        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, [min(cores)])
        launcher.get = lambda *_, **__: "0,1,0,1,0,1"
        os.execv = lambda *_: os._exit(os.sched_getaffinity(0) != cores)
        launcher.rejoin(2)
    """
    rank = {"HOROVOD_HOSTNAME": "localhost", "HOROVOD_LOCAL_RANK": "0"}
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **rank})
    assert done.returncode == 0


def test_a_process_alone_does_not_load_horovod():
    code = (
        "import sys; from bert_mgpu.cli import session;"
        "from bert_mgpu.runs import finetune, pretrain;"
        "sys.exit('horovod' in sys.modules)"
    )
    assert python("-c", code)[0] == 0


@pytest.mark.parametrize(("timeout", "seconds"), [("", 120), ("30", 120), ("300", 300)])
def test_a_longer_timeout_of_horovodrun_is_taken(monkeypatch, timeout, seconds):
    monkeypatch.setenv(launcher.GLOO_TIMEOUT, timeout or "0")
    assert launcher.patience() == seconds


@pytest.mark.parametrize("timeout", ["soon", "-1", "1.5"])
def test_a_timeout_that_is_no_number_is_refused(monkeypatch, timeout):
    monkeypatch.setenv(launcher.GLOO_TIMEOUT, timeout)
    with pytest.raises(UserError, match=f"={timeout}: pass a number of seconds"):
        launcher.patience()


@pytest.mark.parametrize("value", ["0", "-1", "two"])
def test_a_number_of_parts_is_positive(value):
    assert (
        launcher.batch_parts({}) == 1
        and launcher.batch_parts({launcher.PARTS: "4"}) == 4
    )
    with pytest.raises(UserError, match="not a number of parts"):
        launcher.batch_parts({launcher.PARTS: value})
