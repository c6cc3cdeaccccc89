"""Packed examples give the logits and gradients of single ones."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.rows import Features, Ragged
from bert_mgpu.core.task import DropoutKey
from bert_mgpu.data import packing, pipeline
from bert_mgpu.model import params as params_lib
from bert_mgpu.tasks.classification.task import Classification
from tests.support.marks import GRAPH_AND_RARELY_XLA
from tests.support.tiny import small_config

CONFIG = small_config(
    dropout=0.0, vocab_size=97, num_hidden_layers=3, max_position_embeddings=40
)
LABELS = ("a", "b", "c")


@pytest.fixture(scope="module")
def features():
    """Pairs and single texts of 2 to 24 tokens."""
    rng = np.random.default_rng(0)
    ids, segments = [], []
    for _ in range(37):
        length = int(rng.integers(2, 25))
        ids.append(rng.integers(1, 97, length).tolist())
        split = int(rng.integers(1, length + 1))
        segments.append([0] * split + [1] * (length - split))
    columns = {
        "input_ids": Ragged.from_rows(ids),
        "segment_ids": Ragged.from_rows(segments),
    }
    labels = rng.integers(0, 3, 37).astype(np.int32)
    return Features(columns, {"label_ids": labels}, np.arange(37))


@pytest.fixture(scope="module")
def weights():
    task = Classification("x", CONFIG, LABELS, max_seq_length=24)
    return params_lib.initialize(task.param_specs(), 0.3, seed=2)


def placements(features):
    numbers = np.arange(37)
    shape = packing.packed_shape([features.lengths], 24)
    packed = packing.pack(numbers, features.lengths, 1, shapes=[shape])
    assert packed.numbers.shape[2] > 1 and packed.numbers.shape[1] < 37 / 1.5
    return packing.one_per_row(numbers, 1, 24), packed


def one_tower(features, placement):
    batch = pipeline.collate(features, placement)
    return {name: tf.constant(value[0]) for name, value in batch.items()}


def by_row(values, placement):
    """Values of places -> values of features, in their order."""
    numbers = placement.numbers.reshape(-1)
    actual = np.empty((37, *values.shape[1:]), values.dtype)
    actual[numbers[numbers >= 0]] = values[numbers >= 0]
    return actual


@pytest.mark.parametrize("compiled", GRAPH_AND_RARELY_XLA)
def test_logits_and_gradients_are_those_of_single_rows(features, weights, compiled):
    task = Classification("x", CONFIG, LABELS, max_seq_length=24)
    tensors = {name: tf.constant(value) for name, value in weights.items()}

    @tf.function(jit_compile=compiled, autograph=False)
    def everything(params, batch):
        with tf.GradientTape() as tape:
            tape.watch(params)
            loss = task.loss_sums(params, batch, None)["loss"]
        return task.outputs(params, batch)["logits"], loss, tape.gradient(loss, params)

    actual = []
    for placement in placements(features):
        logits, loss, grads = everything(tensors, one_tower(features, placement))
        grads = {k: tf.convert_to_tensor(g).numpy() for k, g in grads.items()}
        actual.append((by_row(logits.numpy(), placement), float(loss), grads))
    (logits, loss, grads), (packed_logits, packed_loss, packed_grads) = actual
    np.testing.assert_allclose(packed_logits, logits, rtol=0, atol=1e-5)
    assert packed_loss == pytest.approx(loss, rel=1e-6)
    for name, grad in grads.items():
        if name.endswith("key/bias"):
            continue  # zero in exact arithmetic: nothing but rounding
        limit = 1e-5 * np.abs(grad).max() + 1e-6
        worst = np.abs(packed_grads[name] - grad).max()
        assert worst <= limit, name


def test_gradient_of_one_example_does_not_reach_its_neighbours(features, weights):
    """Block-diagonal: only words of the example itself get a gradient from it."""
    task = Classification("x", CONFIG, LABELS, max_seq_length=24)
    _, placement = placements(features)
    batch = one_tower(features, placement)
    tensors = {name: tf.constant(value) for name, value in weights.items()}
    words = "bert/embeddings/word_embeddings"
    numbers = placement.numbers.reshape(-1)
    for place in np.flatnonzero(numbers >= 0)[:5].tolist():
        alone = tf.one_hot(place, placement.numbers.size)
        with tf.GradientTape() as tape:
            tape.watch(tensors[words])
            one = batch | {"is_real_example": alone}
            loss = task.loss_sums(tensors, one, None)["loss"]
        grad = tf.convert_to_tensor(tape.gradient(loss, tensors[words])).numpy()
        own = set(features.ragged["input_ids"].row(numbers[place]).tolist())
        assert set(np.flatnonzero(np.abs(grad).max(-1)).tolist()) == own


@pytest.mark.parametrize(("encoder", "head"), [(0.5, None), (0.0, 0.5)])
def test_examples_of_different_towers_have_masks_of_their_own(
    features, weights, encoder, head
):
    """With dropout, equal examples in any two places get different logits."""
    config = dataclasses.replace(
        CONFIG, hidden_dropout_prob=encoder, attention_probs_dropout_prob=encoder
    )
    task = Classification(
        "x", config, LABELS, max_seq_length=24, classifier_dropout=head
    )
    same = Features(
        {
            name: Ragged.from_rows([column.row(0).tolist()] * 37)
            for name, column in features.ragged.items()
        },
        features.dense,
        features.lines,
    )
    tensors = {name: tf.constant(value) for name, value in weights.items()}
    _, placement = placements(same)
    rows = placement.numbers.shape[1]
    logits = []
    for tower in range(2):
        dropout_key = DropoutKey(
            tf.constant(1, tf.uint64),
            tf.constant(5, tf.int64),
            tf.constant(tower * rows, tf.int64),
        )
        actual = task._logits(tensors, one_tower(same, placement), dropout_key).numpy()
        logits.append(by_row(actual, placement))
    assert len(np.unique(np.concatenate(logits), axis=0)) == 2 * 37


def test_only_the_first_tokens_go_through_the_last_layer(features):
    """Counts the rows of each layer's product of the intermediate size."""
    inner = 80  # as no other product has it
    config = dataclasses.replace(CONFIG, intermediate_size=inner)
    task = Classification("x", config, LABELS, max_seq_length=24)
    weights = params_lib.initialize(task.param_specs(), 0.3, seed=2)
    batch = one_tower(features, packing.one_per_row(np.arange(6), 1, 24))
    traced = tf.function(task.outputs, autograph=False)
    graph = traced.get_concrete_function(weights, batch).graph
    products = [op for op in graph.get_operations() if op.type == "MatMul"]
    shapes = [product.outputs[0].shape for product in products]
    sizes = [shape.num_elements() // inner for shape in shapes if shape[-1] == inner]
    assert sizes == [6 * 24, 6 * 24, 6]
