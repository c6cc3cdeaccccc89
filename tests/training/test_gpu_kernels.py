"""Every operation of a step has a kernel for GPUs: TensorFlow's wheel lists them."""

import numpy as np
import pytest
from tensorflow.python.framework import kernels

from bert_mgpu.distributed import devices, strategies
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training.towers import Towers
from tests.support.batches import CONFIG, LABELS, LENGTH, RATE, make_batch, split

# Not run on a device: arguments, calls, what a loop is made of before it is lowered.
CONTROL = {
    *("Placeholder", "NoOp", "StatefulPartitionedCall", "PartitionedCall"),
    *("While", "StatelessWhile", "_Arg", "_Retval"),
}


def all_operations(graph):
    """Of the graph and of all functions that it calls, by their type attributes."""
    actual = set()
    for holder in [graph.as_graph_def().node] + [
        function.node_def for function in graph.as_graph_def().library.function
    ]:
        for node in holder:
            types = sorted(
                (name, value.type)
                for name, value in node.attr.items()
                if value.WhichOneof("value") == "type"
            )
            actual.add((node.op, tuple(types)))
    return actual


def has_kernel(operation, types):
    known = kernels.get_registered_kernels_for_op(operation).kernel
    for kernel in known:
        if kernel.device_type not in ("GPU", "DEFAULT"):
            continue
        allowed = {c.name: set(c.allowed_values.list.type) for c in kernel.constraint}
        if all(value in allowed.get(name, {value}) for name, value in types):
            return True
    return False


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("parts", [2, 6], ids=["one part", "parts in turn"])
def test_nothing_of_a_step_moves_to_the_cpu(
    first_params, monkeypatch, precision, parts
):
    """Without XLA, which has kernels of its own."""
    monkeypatch.setattr(strategies, "make_strategy", strategies.mirrored)
    task = Classification("x", CONFIG, LABELS, max_seq_length=LENGTH)
    visible = devices.configure("cpu", 2)
    towers = Towers(task, 2, visible, seed=1, xla=False, precision=precision)
    towers.load(first_params, towers.initial_slots(first_params))
    batch = split(make_batch(np.random.default_rng(0), 12, ragged=False), parts)
    towers.train_step(batch, 0, RATE)
    towers.outputs({name: values[:2] for name, values in batch.items()})
    actual = set()
    for function in (towers._train_step, towers._outputs):
        for traced in function._list_all_concrete_functions():
            actual |= all_operations(traced.graph)
    lacking = sorted(
        operation
        for operation, types in actual
        if operation not in CONTROL and not has_kernel(operation, types)
    )
    assert len(actual) > 60
    assert not lacking
