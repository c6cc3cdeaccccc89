"""Plants a lack of memory inside the graph of one tower; also a script that does.

    python tests/end_to_end/failing.py classifier '{"tower": 3, "step": 0, ...}' FLAGS

The failure is there for as long as a tower has more than `most` rows at once.
"""

import dataclasses
import json
import pathlib
import sys

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from bert_mgpu.cli import run_classifier, run_pretraining
from bert_mgpu.distributed import strategies
from bert_mgpu.training import towers

TEXT = "OOM when allocating tensor with shape[4,2] and type float"


@dataclasses.dataclass(frozen=True)
class Failure:
    """Where: a tower; when: from a training step on, or -1 in every forward pass."""

    tower: int
    step: int
    most: int
    default: bool = False  # the strategy that GPUs get
    real: bool = False  # an allocation that no machine has room for

    def nothing(self, step):
        """0, but fails from this step on, an int64 scalar; always if that is None.

        What is only waited for, and has no effect of its own, TensorFlow leaves out.
        """
        hits = tf.constant(True) if step is None else tf.greater_equal(step, self.step)
        if self.real:
            size = tf.where(hits, tf.constant(1 << 50, tf.int64), 1)
            zeros = tf.fill(size[None], tf.constant(0, tf.int8))
            return tf.cast(tf.reduce_max(zeros), tf.int32)
        nothing = tf.numpy_function(_fail, [hits], tf.int32, stateful=True)
        return tf.ensure_shape(nothing, [])


def _fail(hits):
    if hits:
        raise MemoryError(TEXT)
    return np.int32(0)


def plant(failure, patch=setattr):
    """patch: as pytest's monkeypatch.setattr."""
    if failure.default:
        patch(strategies, "make_strategy", strategies.mirrored)
    train = towers.Towers._device_sums
    forward = towers.Towers._device_outputs

    def failing(self, replica, columns, step):
        own = columns[replica]
        here = failure.tower - self.own_towers.start in self._device_towers[replica]
        if not here or own["input_ids"].shape[1] <= failure.most:
            return columns
        nothing = failure.nothing(step)
        own = {n: value + tf.cast(nothing, value.dtype) for n, value in own.items()}
        return (*columns[:replica], own, *columns[replica + 1 :])

    def sums(self, replica, inputs):
        if failure.step >= 0:
            columns = failing(self, replica, inputs.columns, inputs.numbers[0])
            inputs = inputs._replace(columns=columns)
        return train(self, replica, inputs)

    def outputs(self, program, replica, columns):
        if failure.step < 0:
            columns = failing(self, replica, columns, None)
        return forward(self, program, replica, columns)

    patch(towers.Towers, "_device_sums", sums)
    patch(towers.Towers, "_device_outputs", outputs)


def main():
    kind, failure, *rest = sys.argv[1:]
    plant(Failure(**json.loads(failure)))
    start = {"classifier": run_classifier.main, "pretraining": run_pretraining.main}[
        kind
    ]
    sys.argv[1:] = rest
    return start()


if __name__ == "__main__":
    sys.exit(main())
