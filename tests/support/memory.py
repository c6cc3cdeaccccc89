"""TensorFlow's error where memory lacks, without the 10 s that it waits before it."""

import tensorflow as tf

SHAPE = [2**30, 2**20]
_CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
TEXT = (
    f"{{{{function_node __wrapped__Fill_device_{_CPU}}}}} OOM when allocating tensor "
    f"with shape[{SHAPE[0]},{SHAPE[1]}] and type float on {_CPU} by allocator mklcpu "
    "[Op:Fill] name: "
)


def no_memory(*_):
    raise tf.errors.ResourceExhaustedError(None, None, TEXT)
