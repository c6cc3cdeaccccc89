"""Blocks of what has come by now: nothing waits, nothing is lost, errors come last."""

import threading

import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.runs import arrivals


def test_what_is_there_does_not_wait_for_more():
    more, found = threading.Event(), []

    def read(put):
        put(1)
        put(2)
        more.wait(60)
        put(3)

    taken = arrivals.blocks(read, 10)

    def take():
        while sum(map(len, found)) < 2:
            found.append(next(taken))

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    thread.join(5)
    assert [item for block in found for item in block] == [1, 2]
    more.set()
    assert [*taken] == [[3]]


@pytest.mark.parametrize("most", [1, 7, 100])
def test_all_items_come_in_order(most):
    def read(put):
        for number in range(50):
            put(number)

    found = [*arrivals.blocks(read, most)]
    assert [item for block in found for item in block] == [*range(50)]
    assert all(1 <= len(block) <= most for block in found)


@pytest.mark.parametrize("error", [UserError("line 3"), KeyError("x")])
def test_an_error_comes_behind_the_items_before_it(error):
    def read(put):
        put(1)
        raise error

    taken = arrivals.blocks(read, 5)
    assert next(taken) == [1]
    kind = UserError if isinstance(error, UserError) else RuntimeError
    with pytest.raises(kind, match=r"line 3|cannot be read"):
        next(taken)


def test_nothing_gives_no_block():
    assert [*arrivals.blocks(lambda put: None, 5)] == []
