"""Batches: every row, once, in an order that follows from the seed alone."""

import itertools
import threading
import types

import numpy as np
import pytest

from bert_mgpu.data import orders, packing, pipeline
from bert_mgpu.data.packing import EMPTY, Placement
from bert_mgpu.task import Features, Ragged
from tests.data.conftest import make_features

PACKED = pytest.mark.parametrize("padding", orders.POLICIES)


@pytest.mark.parametrize("rows", range(1, 68))
def test_outputs_of_every_row_in_order(rows):
    """The whole grid of rows x batch x towers, with a stub for the model."""
    features = make_features(rows)
    grid = itertools.product(range(1, 10), range(1, 9))
    for batch, towers in grid:  # each policy with every batch and number of towers
        padding = orders.POLICIES[(rows + batch + towers) % len(orders.POLICIES)]
        check_forward(features, batch, towers, padding)


@PACKED
def test_outputs_of_every_row_under_each_policy(padding):
    features = make_features(150, longest=16)
    for batch, towers in ((1, 1), (4, 3), (64, 2), (100, 7)):
        check_forward(features, batch, towers, padding)


def check_forward(features, batch, towers, padding):
    args = (features.lengths, towers, batch, padding, 16)
    placements = orders.forward_placements(*args)

    def stub(inputs):
        """What a model could know of each example, from its own tokens alone."""
        ids, mask = inputs["input_ids"], inputs["input_mask"]
        tower, rows, length = ids.shape
        assert tower == towers and rows * length <= batch * 16
        assert (ids > 0).tolist() == (mask > 0).tolist()
        shape = (tower, rows, 1)
        starts = inputs.get("first_tokens", np.zeros(shape, np.int32))
        first = np.take_along_axis(ids, starts, -1)
        own = ids[..., None] == first[..., None, :]  # [N, R, T, S]
        real = inputs["is_real_example"].reshape(first.shape) > 0
        if "position_ids" in inputs:
            ends = np.where(own, inputs["position_ids"][..., None] + 1, 0).max(-2)
            assert (ends == own.sum(-2))[real].all()
        return {"row": first.reshape(-1) - 1, "tokens": own.sum(-2).reshape(-1)}

    def ask(batch):
        return types.SimpleNamespace(read=lambda: stub(batch))

    ways = dict, ask  # a batch is asked about as it is
    found = pipeline.in_order(pipeline.forward_all(features, placements, *ways))
    assert found["row"].tolist() == list(range(len(features)))
    assert found["tokens"].tolist() == features.lengths.tolist()


def test_forward_pads_little_and_compiles_seldom():
    features = make_features(4000, longest=128)
    share = {}
    for padding in orders.POLICIES:
        args = (features.lengths, 2, 4, padding, 128)
        placements = orders.forward_placements(*args)
        lengths = [placement.length for placement in placements]
        assert lengths == sorted(lengths, reverse=True)  # a lack of memory shows first
        shapes = {(p.numbers.shape, p.length) for p in placements}
        assert len(shapes) <= (1 if padding == "pack" else 4)
        share[padding] = pipeline.padding_share(placements, features.lengths)
    assert share["pack"] < 0.02
    assert share["longest"] == share["bucket"] == share["max_length"] < 0.2


FEATURES = Features(
    {
        "input_ids": Ragged.from_rows([[5, 6], [7, 8, 9]]),
        "segment_ids": Ragged.from_rows([[0, 1], [0, 0, 1]]),
    },
    {"label_ids": np.array([3, 4], np.int32)},
    np.array([1, 2]),
)


def test_collate_pads_with_zeros_and_masks():
    placement = packing.one_a_row(np.array([1, 0, EMPTY, EMPTY]), 2, 4)
    batch = pipeline.collate(FEATURES, placement)
    assert batch["input_ids"].tolist() == [
        [[7, 8, 9, 0], [5, 6, 0, 0]],
        [[0, 0, 0, 0], [0, 0, 0, 0]],
    ]
    assert batch["segment_ids"][0].tolist() == [[0, 0, 1, 0], [0, 1, 0, 0]]
    assert batch["input_mask"].tolist() == [
        [[1, 1, 1, 0], [1, 1, 0, 0]],
        [[0, 0, 0, 0], [0, 0, 0, 0]],
    ]
    assert batch["label_ids"].tolist() == [[4, 3], [0, 0]]
    assert batch["is_real_example"].tolist() == [[1, 1], [0, 0]]
    assert {value.dtype.name for value in batch.values()} == {"int32", "float32"}
    assert not {"position_ids", "first_tokens"} & set(batch)  # Google's own batch


def test_collate_packs_examples_into_a_row():
    numbers = np.array([[[1, 0, EMPTY]]])
    batch = pipeline.collate(FEATURES, Placement(numbers, np.array([[[0, 3, 0]]]), 6))
    assert batch["input_ids"].tolist() == [[[7, 8, 9, 5, 6, 0]]]
    assert batch["segment_ids"].tolist() == [[[0, 0, 1, 0, 1, 0]]]
    assert batch["input_mask"].tolist() == [[[1, 1, 1, 2, 2, 0]]]
    assert batch["position_ids"].tolist() == [[[0, 1, 2, 0, 1, 0]]]
    assert batch["first_tokens"].tolist() == [[[0, 3, 0]]]
    assert batch["label_ids"].tolist() == [[4, 3, 0]]
    assert batch["is_real_example"].tolist() == [[1, 1, 0]]
    assert {value.dtype.name for value in batch.values()} == {"int32", "float32"}


def test_ahead_gives_the_same_items_and_stops():
    made = []

    def count():
        for number in itertools.count():
            made.append(number)
            yield number

    with pipeline.ahead(count(), depth=2) as items:
        assert list(itertools.islice(items, 5)) == [0, 1, 2, 3, 4]
    after = len(made)
    assert after <= 5 + 2 + 2
    assert len(made) == after  # the thread has ended


def test_ahead_works_while_the_consumer_does():
    """The next items are made while the first one is worked on, not when asked for."""
    third = threading.Event()

    def items():
        yield 1
        yield 2
        third.set()
        yield 3

    with pipeline.ahead(items()) as made:
        assert next(made) == 1
        assert third.wait(60)
        assert list(made) == [2, 3]


def test_ahead_hands_errors_over():
    def broken():
        yield 1
        raise ValueError("row 2 is broken")

    with (
        pipeline.ahead(broken()) as items,
        pytest.raises(ValueError, match="row 2"),
    ):
        list(items)


def test_ahead_ends_with_its_items():
    with pipeline.ahead(range(3)) as items:
        assert list(items) == [0, 1, 2]
