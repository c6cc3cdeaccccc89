"""Items come out in their order, errors at their item, and few wait."""

import contextlib
import os
import signal
import time

import pytest

from bert_mgpu.core.errors import OutOfMemory, UserError
from bert_mgpu.data_prep import processes


def late(number):
    """The earlier, the longer it takes."""
    time.sleep(0.05 * (4 - number))


def fails_at_two(number):
    if number == 2:
        raise UserError(f"item {number}")


def refuses_ctrl_c(number):
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        raise UserError("Ctrl-C would end a worker with a traceback")


def is_killed(number):
    if number == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def is_elsewhere(parent):
    if os.getpid() == parent:
        raise UserError("in the parent")


@pytest.mark.parametrize("count", [1, 2, 4])
def test_items_come_in_their_order(count):
    assert list(processes.in_order(late, range(4), count)) == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_comes_out_at_its_item(count):
    made = []
    with pytest.raises(UserError, match="item 2"):
        made.extend(processes.in_order(fails_at_two, range(4), count))
    assert made == [0, 1]


@pytest.mark.parametrize("count", [1, 2])
def test_few_items_are_taken_ahead(count):
    taken = []
    items = (taken.append(number) or number for number in range(50))
    with contextlib.closing(processes.in_order(nothing, items, count)) as done:
        for number in done:
            assert len(taken) <= number + 1 + count


def nothing(number):
    pass


@pytest.mark.parametrize("pause", [0, 2])
def test_a_killed_worker_is_a_lack_of_memory(pause):
    """Whether it ends while another item is handed out, or while one is awaited."""

    def items():
        yield 0
        for number in range(1, 4):
            time.sleep(pause)
            yield number

    with pytest.raises(OutOfMemory, match="a worker process was killed"):
        list(processes.in_order(is_killed, items(), 2))


def test_work_is_done_elsewhere_and_ctrl_c_is_the_parents():
    here = os.getpid()
    assert list(processes.in_order(is_elsewhere, [here], 2)) == [here]
    assert list(processes.in_order(refuses_ctrl_c, [1], 2)) == [1]
    with pytest.raises(UserError, match="in the parent"):
        list(processes.in_order(is_elsewhere, [here], 1))
