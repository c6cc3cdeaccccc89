"""Batches: every row, once, in an order that follows from the seed alone."""

import itertools
import threading
import types

import numpy as np
import pytest

from bert_mgpu.core.rows import Features, Ragged
from bert_mgpu.data import forward_batching, packing, pipeline
from bert_mgpu.data.packing import EMPTY, Placement
from tests.support.features import make_features


@pytest.mark.parametrize("rows", range(1, 68))
def test_outputs_of_every_row_in_order(rows):
    """The whole grid of rows x batch x towers, with a stub for the model; outputs of
    examples and of tokens.
    """
    features = make_features(rows)
    for batch, towers in itertools.product(range(1, 10), range(1, 5)):
        for packs in (False, True):
            check_forward(features, batch, towers, packs=packs)
    for batch, towers in itertools.product(range(1, 10), range(5, 9)):
        check_forward(features, batch, towers, packs=(rows + batch + towers) % 2 == 0)


@pytest.mark.parametrize("packs", [False, True])
def test_outputs_of_many_rows(packs):
    features = make_features(150, longest=16)
    for batch, towers in ((1, 1), (4, 3), (64, 2), (100, 7)):
        check_forward(features, batch, towers, packs)


def check_forward(features, batch, towers, packs):
    placements = forward_batching.forward_placements(
        features.lengths, towers, batch, packs=packs, max_length=16
    )

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
        return {
            "row": first.reshape(-1) - 1,
            "tokens": own.sum(-2).reshape(-1),
            "pair": np.stack([ids, -ids], -1).reshape(tower * rows, length, 2),
            "same": np.full((first.size, 3), 7),
        }

    def ask(batch):
        return types.SimpleNamespace(read=lambda: stub(batch))

    shared = frozenset({"same"})
    found = pipeline.forward_all(
        features,
        placements,
        dict,
        ask=ask,
        token_outputs=frozenset({"pair"}),
        shared_outputs=shared,
    )
    assert found["same"].tolist() == [[7, 7, 7]]  # not one for each row
    found["same"] = np.tile(found["same"], [2, 1])  # as two processes give it
    actual = pipeline.in_order(found, shared)
    assert actual.pop("same").tolist() == [[7, 7, 7]]
    wanted, pair = features.ragged["input_ids"], actual["pair"]
    assert pair.offsets.tolist() == wanted.offsets.tolist()
    assert (
        pair.values.tolist() == np.stack([wanted.values, -wanted.values], -1).tolist()
    )
    assert actual["row"].tolist() == list(range(len(features)))
    assert actual["tokens"].tolist() == features.lengths.tolist()


def test_an_output_that_is_not_of_tokens_is_refused():
    placements = forward_batching.forward_placements(
        make_features(3).lengths, 1, 4, packs=False, max_length=16
    )
    answer = types.SimpleNamespace(read=lambda: {"logits": np.zeros((4, 2))})
    with pytest.raises(ValueError, match=r"logits is \[4, 2\]: an output of tokens is"):
        pipeline.forward_all(
            make_features(3),
            placements,
            dict,
            ask=lambda _: answer,
            token_outputs=frozenset({"logits"}),
        )


def test_forward_pads_little_and_compiles_seldom():
    features = make_features(4000, longest=128)
    share = {}
    for packs, most in ((False, 8), (True, 1)):
        placements = forward_batching.forward_placements(
            features.lengths, 2, 4, packs=packs, max_length=128
        )
        lengths = [placement.length for placement in placements]
        assert lengths == sorted(lengths, reverse=True)  # a lack of memory shows first
        shapes = {(p.numbers.shape, p.length) for p in placements}
        assert len(shapes) <= most
        share[packs] = pipeline.padding_fraction(placements, features.lengths)
    assert share[True] < 0.02 and share[False] < 0.15


@pytest.mark.parametrize(("length", "places"), [(30, 1), (25, 5)])
def test_rows_are_packed_only_where_that_saves_tokens(length, places):
    """30 tokens need 30 alone; 25 need 26, but five of them 128."""
    placements = forward_batching.forward_placements(
        np.full(640, length), 2, 8, packs=True, max_length=128
    )
    assert {placed.numbers.shape[2] for placed in placements} == {places}


def test_a_larger_set_is_worth_more_widths():
    widths = []
    for rows in (100, 1000, 10_000, 100_000):
        lengths = make_features(1000, longest=128).lengths.repeat(rows // 100)[::10]
        placements = forward_batching.forward_placements(
            lengths, 1, 8, packs=False, max_length=128
        )
        widths.append(len({placed.length for placed in placements}))
    assert widths == sorted(widths) and widths[0] == 1 and 4 < widths[-1] <= 8


FEATURES = Features(
    {
        "input_ids": Ragged.from_rows([[5, 6], [7, 8, 9]]),
        "segment_ids": Ragged.from_rows([[0, 1], [0, 0, 1]]),
    },
    {"label_ids": np.array([3, 4], np.int32)},
    np.array([1, 2]),
)


def test_collate_pads_with_zeros_and_masks():
    placement = packing.one_per_row(np.array([1, 0, EMPTY, EMPTY]), 2, 4)
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

    with pipeline.prefetch(count(), depth=2) as items:
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

    with pipeline.prefetch(items()) as made:
        assert next(made) == 1
        assert third.wait(60)
        assert list(made) == [2, 3]


def test_ahead_hands_errors_over():
    def broken():
        yield 1
        raise ValueError("row 2 is broken")

    with (
        pipeline.prefetch(broken()) as items,
        pytest.raises(ValueError, match="row 2"),
    ):
        list(items)


def test_ahead_ends_with_its_items():
    with pipeline.prefetch(range(3)) as items:
        assert list(items) == [0, 1, 2]
