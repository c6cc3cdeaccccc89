"""The order of sums, also in the graphs that users have."""

import types

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.distributed import collective, pairwise, strategies


def terms(count):
    """Vectors of values of many sizes: each other order of adding has other bits."""
    rng = np.random.default_rng(count)
    values = rng.standard_normal((count, 500)) * 10.0 ** rng.integers(-3, 3, (500,))
    return values.astype(np.float32)


def test_pairwise_sum_is_a_balanced_tree():
    letters = ["a", "b", "c", "d", "e", "f", "g"]

    class Term(str):
        def __add__(self, other):
            return Term(f"({str(self)}{str(other)})")

    assert pairwise.pairwise_sum([Term(x) for x in letters[:4]]) == "((ab)(cd))"
    assert pairwise.pairwise_sum([Term(x) for x in letters]) == "(((ab)(cd))((ef)g))"
    assert pairwise.pairwise_sum([Term("a")]) == "a"


@pytest.mark.parametrize("count", range(1, 20))
def test_sum_in_turn_is_the_pairwise_sum(count):
    values = terms(count)
    summed = tf.function(
        lambda rows: pairwise.sequential_pairwise_sum(
            lambda index: rows[index], count, 500
        )
    )
    total = summed(tf.constant(values))
    assert np.array_equal(total.numpy(), pairwise.pairwise_sum(values))


@pytest.mark.parametrize("count", [4, 6])
def test_devices_add_in_pairs(usual_graphs, count):
    """TensorFlow's graph optimizer would add all of them from left to right."""
    values = terms(count)
    assert not np.array_equal(sum(values), pairwise.pairwise_sum(values))
    strategy = strategies.make_strategy([f"CPU:{index}" for index in range(count)])

    def own_sum(rows):
        own = rows[strategies.replica_id()]
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, own)

    summed = tf.function(lambda rows: strategy.run(own_sum, (rows,)), autograph=False)
    totals = strategy.experimental_local_results(summed(tf.constant(values)))
    assert len(totals) == count
    for total in totals:
        assert np.array_equal(total.numpy(), pairwise.pairwise_sum(values))


@pytest.mark.parametrize("count", [4, 6])
def test_processes_add_in_pairs(usual_graphs, count):
    """The part of a step's sum that one of so many processes adds."""
    values = terms(count)
    own = object.__new__(collective.Horovod)  # without a horovodrun
    own.size, own.uses_nccl = count, False
    received = tf.constant(values)

    def alltoall(sent, splits, name):
        padded = tf.pad(received, [[0, 0], [0, splits[0] - 500]])
        return tf.reshape(padded, [-1]), splits

    def allgather(summed, name):
        return tf.concat([summed] * count, 0)

    own._hvd = types.SimpleNamespace(alltoall=alltoall, allgather=allgather)
    summed = tf.function(
        lambda flat: own._pairwise_sum(flat, "step", tf.float32), autograph=False
    )
    total = summed(tf.zeros([500 * count]))
    assert np.array_equal(total[:500].numpy(), pairwise.pairwise_sum(values))
