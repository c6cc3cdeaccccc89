"""What is frozen keeps its bits, has no slots, and costs no backward pass."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.distributed import devices
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training import rules
from bert_mgpu.training.towers import Towers
from tests.support.batches import (
    LABELS,
    LENGTH,
    TWO_LAYERS,
    TWO_LAYERS_NO_DROPOUT,
    make_batch,
    split,
)


def frozen_names(params, layers):
    return rules.frozen([*params], None, layers, count=TWO_LAYERS.num_hidden_layers)


def make(params, frozen, config=TWO_LAYERS):
    task = Classification("x", config, LABELS, max_seq_length=LENGTH)
    visible = devices.configure("cpu", 1)
    towers = Towers(task, 1, visible, seed=1, xla=False, frozen=frozen)
    towers.load(params, towers.initial_slots(params))
    return towers


def test_frozen_parameters_keep_their_bits_and_have_no_slots(two_layer_params):
    frozen = frozen_names(two_layer_params, "embeddings,0")
    towers = make(two_layer_params, frozen)
    batch = make_batch(np.random.default_rng(1), 8, ragged=True)
    for step in range(5):
        towers.train_step(split(batch, 1), step, 1e-3)
    params, slots = towers.snapshot()
    moved = {n for n, v in params.items() if not np.array_equal(v, two_layer_params[n])}
    assert moved == set(params) - set(frozen)
    assert {name.rpartition("/")[0] for name in slots} == moved


def test_the_rest_learns_as_without(two_layer_params):
    """Below the clip a frozen bottom changes nothing for what is above."""
    small = {name: value * 0.1 for name, value in two_layer_params.items()}
    frozen = frozen_names(small, "embeddings,0")
    batch = make_batch(np.random.default_rng(1), 8, ragged=False)
    results = []
    for names in ((), frozen):
        towers = make(small, names, TWO_LAYERS_NO_DROPOUT)
        done = towers.train_step(split(batch, 1), 0, 1e-3)
        assert float(done.norm) < 1
        results.append((float(done.norm), towers.snapshot()[0]))
    (norm, params), (less, others) = results
    assert less < norm
    for name in params.keys() - frozen:
        if "key/bias" not in name:  # rounding noise
            np.testing.assert_allclose(others[name], params[name], atol=1e-6)


@pytest.mark.parametrize(
    ("layers", "backward"),
    [
        (None, 2),
        ("embeddings", 2),
        ("embeddings,0", 1),
        ("0", 2),
        ("embeddings,0-1", 0),
    ],
)
def test_no_backward_pass_through_a_frozen_bottom(two_layer_params, layers, backward):
    """Counts the score products: one a layer forward, two where it is gone back."""
    towers = make(
        two_layer_params, frozen_names(two_layer_params, layers) if layers else ()
    )
    batch = make_batch(np.random.default_rng(1), 4, ragged=False)
    inputs = towers.place(split(batch, 1))
    rows = {name: value[0] for name, value in inputs.columns[0].items()}
    numbers, weights = tf.constant([0, 1], tf.int64), tf.constant([4.0])
    part = towers.programs.micro_batch._function.get_concrete_function(
        ("loss",),
        two_layer_params,
        rows,
        first_row=tf.constant(0),
        numbers=numbers,
        weights=weights,
        scale=1.0,
    )
    operations = part.graph.get_operations()
    products = [op for op in operations if op.type == "BatchMatMulV2"]
    # Scores and context: two products a layer, each of which has two gradients.
    assert len(products) == TWO_LAYERS.num_hidden_layers * 2 + backward * 4
