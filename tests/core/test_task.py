"""The state of a training."""

import numpy as np

from bert_mgpu.core import tensor_names
from bert_mgpu.core.task import TrainState


def test_averaged_weights_take_the_place_of_the_last_ones():
    last, average = np.float32([1.0]), np.float32([0.5])
    slots = {f"a/{tensor_names.AVERAGE}": average, "a/adam_m": last, "b/adam_m": last}
    averaged = TrainState({"a": last, "b": last}, slots).averaged
    assert averaged == {"a": average, "b": last}
