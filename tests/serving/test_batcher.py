"""Rows of many requests in shared batches: everyone gets the own answers."""

import random
import threading
import time

import pytest

from bert_mgpu.serving.batcher import Batcher, QueueFull


class Doubler:
    """Answers numbers by their doubles; waits where it is told to."""

    def __init__(self):
        self.batches = []
        self.may_go = threading.Event()
        self.may_go.set()
        self.began = threading.Event()

    def __call__(self, rows):
        self.began.set()
        self.may_go.wait(30)
        self.batches.append([*rows])
        if "fault" in rows:
            raise ValueError("a fault")
        return [2 * row for row in rows]


@pytest.fixture
def doubler():
    return Doubler()


@pytest.fixture
def batcher(doubler):
    made = Batcher(doubler, batch=4, most_waiting=10)
    yield made
    doubler.may_go.set()
    made.close()


def held(doubler, batcher):
    """The batcher works on a row, and does not go on before `may_go`."""
    doubler.may_go.clear()
    first = batcher.submit([0])
    assert doubler.began.wait(30)
    return first


def test_rows_that_wait_share_batches(doubler, batcher):
    first = held(doubler, batcher)
    futures = [batcher.submit(rows) for rows in ([1, 2], [3], [4, 5, 6])]
    assert batcher.waiting == 6
    doubler.may_go.set()
    assert [future.result(30) for future in [first, *futures]] == [
        [0],
        [2, 4],
        [6],
        [8, 10, 12],
    ]
    assert doubler.batches == [[0], [1, 2, 3, 4], [5, 6]]
    assert batcher.waiting == 0


def test_too_many_rows_are_refused_at_once(doubler, batcher):
    held(doubler, batcher)
    batcher.submit([1] * 6)
    with pytest.raises(QueueFull):
        batcher.submit([1] * 5)
    batcher.submit([1] * 4)  # the last that fit


def test_rows_of_those_who_left_are_not_answered(doubler, batcher):
    held(doubler, batcher)
    gone, stays = batcher.submit([1] * 5), batcher.submit([2])
    assert gone.cancel()
    doubler.may_go.set()
    assert stays.result(30) == [4]
    assert doubler.batches == [[0], [2]] and batcher.waiting == 0


def test_one_who_leaves_in_the_middle(doubler, batcher):
    """Of a request whose first rows are in a batch, the others are left out."""
    held(doubler, batcher)
    doubler.began.clear()
    large = batcher.submit([1] * 9)
    doubler.may_go.set()
    time.sleep(0.01)
    large.cancel()
    assert batcher.submit([5]).result(30) == [10]
    assert batcher.waiting == 0


@pytest.mark.parametrize("rows", [[1, 2], ["fault"]])
def test_one_who_leaves_while_the_answer_comes(doubler, batcher, monkeypatch, rows):
    """Cancelled after all checks: the thread lives on and answers the others."""
    held(doubler, batcher)
    gone = batcher.submit(rows)
    monkeypatch.setattr(gone, "cancelled", lambda: False)  # asked a moment too early
    monkeypatch.setattr(gone, "done", lambda: False)
    gone.cancel()
    doubler.may_go.set()
    batcher.submit([5]).exception(30)  # which may share the batch
    assert batcher.submit([7]).result(30) == [14]


def test_an_error_reaches_the_request_that_causes_it_alone(doubler, batcher):
    held(doubler, batcher)
    futures = [batcher.submit(rows) for rows in ([1] * 3, ["fault"], [2])]
    doubler.may_go.set()
    with pytest.raises(ValueError, match="a fault"):
        futures[1].result(30)
    assert [futures[0].result(30), futures[2].result(30)] == [[2] * 3, [4]]


def test_a_large_request_that_fails_is_left_out_of_later_batches(doubler, batcher):
    held(doubler, batcher)
    large = batcher.submit(["fault", 1, 1, 1, 1, 1])
    doubler.may_go.set()
    with pytest.raises(ValueError, match="a fault"):
        large.result(30)
    assert batcher.submit([5]).result(30) == [10]
    assert doubler.batches[-1] == [5]


def test_it_answers_what_it_took_before_it_ends(doubler, batcher):
    held(doubler, batcher)
    futures = [batcher.submit([number] * 3) for number in range(3)]
    threading.Timer(0.2, doubler.may_go.set).start()
    batcher.close()
    assert [future.result(0) for future in futures] == [[0] * 3, [2] * 3, [4] * 3]
    with pytest.raises(QueueFull):
        batcher.submit([1])


def test_everyone_gets_the_own_answers(doubler):
    batcher = Batcher(doubler, batch=8, most_waiting=10_000)
    wrong = []

    def ask(seed):
        rng = random.Random(seed)
        for _ in range(50):
            rows = [rng.randrange(10**6) for _ in range(rng.randint(1, 20))]
            if batcher.submit(rows).result(30) != [2 * row for row in rows]:
                wrong.append(rows)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    batcher.close()
    assert wrong == [] and max(map(len, doubler.batches)) == 8
