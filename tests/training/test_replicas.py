"""What forward passes read of a replica: averages, in the precision of the run."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core import tensor_names
from bert_mgpu.training.replicas import Replicas

KERNEL = "bert/encoder/layer_0/output/dense/kernel"
BIAS = "output_bias"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_forward_passes_read_the_averages(dtype):
    params = {KERNEL: np.full([2, 2], 3.0, "f"), BIAS: np.full([2], 4.0, "f")}
    average = f"{KERNEL}/{tensor_names.AVERAGE}"
    replicas = Replicas(["CPU:0"], dtype, xla=False)
    replicas.load(params, {average: np.full([2, 2], 1.5, "f")})
    replicas.refresh()
    forward = replicas[0].forward_params
    assert forward[KERNEL].dtype == tf.as_dtype(dtype)
    assert forward[BIAS].dtype == tf.float32
    assert float(forward[KERNEL][0, 0]) == 1.5 and float(forward[BIAS][0]) == 4.0
    replicas[0].slots[average].assign(tf.fill([2, 2], 2.5))
    replicas.refresh()
    assert float(replicas[0].forward_params[KERNEL][0, 0]) == 2.5
    np.testing.assert_array_equal(replicas.snapshot()[0][KERNEL], params[KERNEL])


def test_the_loss_has_a_factor_where_it_is_scaled():
    replicas = Replicas(["CPU:0"], "float16", xla=False)
    replicas.load({}, {tensor_names.SCALE: np.float32(8)})
    assert float(replicas[0].loss_scale()) == 8
    replicas.load({}, {})
    assert float(replicas[0].loss_scale()) == 1
