"""The outputs of two processes, put one behind the other, and cut into parts."""

import threading
import types

import numpy as np
import tensorflow as tf

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


def test_no_exchange_has_more_bytes_than_horovod_can_count(monkeypatch):
    """Two processes, of which the other sends each time what is left of its value."""
    values, sent = [b"abcdefghijklm", b"ABCDEFG"], []
    monkeypatch.setattr(collective, "_MAX_BYTES", 10)
    own = object.__new__(collective.Horovod)  # without a horovodrun
    own.size = 2

    def allgather(tensor, name):
        if name == "sizes":
            return tf.constant([13, 7], tf.int64)
        other = values[1][5 * len(sent) :][:5]
        sent.append(tensor.shape[0] + len(other))
        return tf.concat([tensor, np.frombuffer(other, np.uint8)], 0)

    own._hvd = types.SimpleNamespace(allgather=allgather)
    assert own.all_gather(values[0]) == values
    assert sent == [10, 7, 3]
