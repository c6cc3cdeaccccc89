"""The outputs of two processes, put one behind the other."""

import threading

import numpy as np

from bert_mgpu.core.rows import Ragged
from bert_mgpu.distributed import collective

OWN = (
    {"logits": np.eye(2, 3, dtype=np.float32), "tags": Ragged.from_rows([[1, 2], []])},
    {"logits": np.ones((1, 3), np.float32), "tags": Ragged.from_rows([[3, 4, 5]])},
)


class Pair:
    """One of two processes, which here are threads."""

    size = 2

    def __init__(self, rank, sent, barrier):
        self.rank, self._sent, self._barrier = rank, sent, barrier

    def all_gather(self, value):
        self._barrier.wait(timeout=60)
        self._sent[self.rank] = value
        self._barrier.wait(timeout=60)
        return [*self._sent]


def test_rows_of_values_and_of_tokens():
    sent, barrier, gathered = [b"", b""], threading.Barrier(2), {}

    def work(rank):
        group = Pair(rank, sent, barrier)
        gathered[rank] = collective.all_gather_rows(group, OWN[rank])

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rows in gathered.values():
        np.testing.assert_array_equal(rows["logits"][:2], OWN[0]["logits"])
        np.testing.assert_array_equal(rows["logits"][2:], OWN[1]["logits"])
        tags = [rows["tags"].row(row).tolist() for row in range(3)]
        assert tags == [[1, 2], [], [3, 4, 5]]
    assert len(gathered) == 2
