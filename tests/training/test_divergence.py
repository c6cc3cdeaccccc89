"""Steps with a number that is not finite: they move nothing, and the place is found."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core import tensor_names
from bert_mgpu.distributed import devices
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training import divergence
from bert_mgpu.training.towers import Towers
from tests.support.batches import LABELS, LENGTH, TWO_LAYERS, make_batch, split
from tests.support.compare import assert_same_bits
from tests.support.marks import rarely
from tests.support.nonfinite import GRADIENTS, break_layer, break_loss

CULPRIT = 60  # a token that one row has
ROWS = 8
PLACES = ["the data", "the weights", "the embeddings", "layer 0", "layer 1", "the loss"]
PLACES += [f"the gradient of {part}" for part in GRADIENTS]
# towers, micro-batches, devices
LAYOUTS = [(1, 1, 1), (2, 4, 1), (4, 4, 2)]


def planted(place, params, monkeypatch):
    """The weights, after a fault at a place was planted in these or in the code."""
    params = {name: value.copy() for name, value in params.items()}
    words = params["bert/embeddings/word_embeddings"]
    if place == "the weights":
        words[CULPRIT, 3] = np.nan
    elif place == "the embeddings":
        words[CULPRIT] = 3e38  # their sum is infinite
    elif place.startswith("layer"):
        break_layer(int(place[-1]), CULPRIT, monkeypatch)
    elif place != "the data":
        break_loss(place.removeprefix("the gradient of "), CULPRIT, monkeypatch)
    return params


def made(params, layout, *, xla=False, precision="float32"):
    n_towers, _, n_devices = layout
    visible = devices.configure("cpu", n_devices)
    task = Classification("x", TWO_LAYERS, LABELS, max_seq_length=LENGTH)
    towers = Towers(task, n_towers, visible, seed=3, xla=xla, precision=precision)
    towers.load(params, towers.initial_slots(params))
    return towers


def batch_with(row, place):
    batch = make_batch(np.random.default_rng(1), ROWS, ragged=False)
    batch["input_ids"][batch["input_ids"] == CULPRIT] = 7
    batch["input_ids"][row, 1] = CULPRIT
    if place == "the data":
        batch["is_real_example"][row] = np.nan
    return batch


CASES = [(place, layout, "float32") for place in PLACES for layout in LAYOUTS[1:]]
CASES += rarely(
    *((place, LAYOUTS[0], "float32") for place in PLACES),
    *((place, LAYOUTS[1], "bfloat16") for place in PLACES),
)


@pytest.mark.parametrize(("place", "layout", "precision"), CASES)
def test_the_place_is_found(two_layer_params, monkeypatch, place, layout, precision):
    params = planted(place, two_layer_params, monkeypatch)
    towers = made(params, layout, precision=precision)
    row = 5
    batch = split(batch_with(row, place), layout[1])
    found = towers.find_nonfinite(batch, 4)
    tower = row // (ROWS // layout[0])
    wanted = {*range(layout[0])} if place == "the weights" else {tower}
    assert found.keys() == wanted, found
    assert all(own.startswith(place) for own in found.values()), found


@pytest.mark.parametrize("xla", [False, True])
def test_such_a_step_moves_nothing(two_layer_params, monkeypatch, xla):
    """Whatever is done behind it, as long as it is done with such rows."""
    params = planted("the loss", two_layer_params, monkeypatch)
    towers = made(params, (2, 2, 1), xla=xla)
    batch = split(batch_with(5, ""), 2)
    before = towers.snapshot()
    for step in range(2):
        assert not towers.train_step(batch, step, 1e-3).finite
    for own, other in zip(towers.snapshot(), before, strict=True):
        assert_same_bits(own, other)
    batch["input_ids"][batch["input_ids"] == CULPRIT] = 7
    assert towers.train_step(batch, 2, 1e-3).finite
    assert not towers.find_nonfinite(batch, 2)
    moved = towers.snapshot()[0]
    assert any((moved[name] != before[0][name]).any() for name in moved)


def test_the_search_itself_overflows_nothing(two_layer_params):
    """Its losses are sums, which a step's loss scale is not made for."""
    towers = made(two_layer_params, LAYOUTS[0], precision="float16")
    params, slots = towers.snapshot()
    towers.load(params, slots | {tensor_names.SCALE: np.float32(2.0**24)})
    assert towers.find_nonfinite(split(batch_with(5, ""), 1), 4) == {}


@pytest.mark.parametrize(
    ("faulty", "place"),
    [
        (["embeddings/x", "encoder/layer_0/x", "encoder/layer_1/x"], "layer 1"),
        (["embeddings/x", "encoder/layer_0/x"], "layer 0"),
        (["embeddings/x", "pooler/x"], "the pooler"),
        (["embeddings/x"], "embeddings"),
    ],
)
def test_gradients_are_followed_backwards(faulty, place):
    names = ["embeddings/x", "encoder/layer_0/x", "encoder/layer_1/x", "pooler/x"]
    grads = {
        f"bert/{name}": tf.constant(np.inf if name in faulty else 0.0) for name in names
    }
    found = divergence.first_place({}, {}, [], losses={}, grads=grads)
    assert found.startswith(f"the gradient of {place} (")


@pytest.mark.parametrize(
    ("found", "towers", "words"),
    [
        ({}, 4, ""),
        ({0: "layer 3"}, 1, "layer 3"),
        ({2: "layer 3"}, 4, "layer 3 of tower 2"),
        ({3: "x", 1: "x"}, 4, "x of towers 1, 3"),
        ({0: "x", 1: "x"}, 2, "x of all 2 towers"),
        (
            {2: "the loss", 3: "x", 0: "x"},
            4,
            "x of towers 0, 3; the loss of tower 2",
        ),
    ],
)
def test_places_in_words(found, towers, words):
    assert divergence.in_words(found, towers) == words
