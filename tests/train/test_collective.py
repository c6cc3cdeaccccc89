"""What processes compare; the sums themselves are tested by real processes."""

import json

import numpy as np
import pytest

from bert_mgpu.errors import RunError, UserError
from bert_mgpu.train import checkpoint, collective
from bert_mgpu.train.checkpoint import TrainState


class Two:
    """A group whose other process says something of its own."""

    rank, size = 0, 2

    def __init__(self, other=None):
        self._other = other

    def gather(self, value):
        said = value if self._other is None else json.dumps(self._other).encode()
        return [value, said]


def state(value):
    return TrainState({"a/kernel": np.full(3, value, np.float32)}, {}, 7)


def test_other_weights_in_a_process_are_an_error():
    seen = []

    class Listening(Two):
        def gather(self, value):
            seen.append(json.loads(value))
            return super().gather(value)

    checkpoint.check_same(state(1.0), Listening())
    checkpoint.check_same(
        state(np.nextafter(np.float32(1), np.float32(2))), Listening()
    )
    assert seen[0] != seen[1]  # one bit of one value
    with pytest.raises(RunError, match="step 7: process 1 holds other weights"):
        checkpoint.check_same(state(1.0), Two(seen[1]))


def test_what_a_process_has_otherwise_is_named():
    collective.agree(Two(), {"--seed": 3})
    with pytest.raises(UserError, match=r"--seed: process 1 .* \(4, there 3\)"):
        collective.agree(Two({"--seed": 4}), {"--seed": 3})
