"""Batches: every row, once, in an order that follows from the seed alone."""

import itertools

import numpy as np
import pytest

from bert_mgpu.data import pipeline
from bert_mgpu.task import Features, Ragged


def make_features(rows, longest=16, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, longest + 1, rows)
    ids = [[index + 1] * length for index, length in enumerate(lengths)]
    return Features(
        {"input_ids": Ragged.from_rows(ids)},
        {"label_ids": np.arange(rows, dtype=np.int32)},
        np.arange(1, rows + 1),
    )


@pytest.mark.parametrize("rows", range(1, 68))
def test_outputs_of_every_row_in_order(rows):
    """The whole grid of rows x batch x towers, with a stub for the model."""
    features = make_features(rows)
    for batch, towers in itertools.product(range(1, 10), range(1, 9)):
        shapes = set()

        def stub(inputs, shapes=shapes, batch=batch, towers=towers):
            ids = inputs["input_ids"]
            assert ids.shape[:2] == (towers, batch)
            shapes.add(ids.shape)
            flat = ids.reshape(-1, ids.shape[-1])
            real = inputs["is_real_example"].reshape(-1)
            assert (real == (flat[:, 0] > 0)).all()
            return {"row": flat[:, 0] - 1, "tokens": (flat > 0).sum(-1)}

        found = pipeline.forward_all(features, towers, batch, 16, stub)
        assert found["row"].tolist() == list(range(rows))
        assert found["tokens"].tolist() == features.lengths.tolist()
        assert len(shapes) == 1


def test_forward_pads_little_and_compiles_seldom():
    features = make_features(400, longest=128)
    batches = pipeline.forward_batches(features.lengths, 2, 4, 128)
    widths = [length for _, length in batches]
    assert widths == sorted(widths, reverse=True)  # a lack of memory shows first
    assert set(widths) <= {16, 32, 64, 128}
    for numbers, length in batches:
        longest = features.lengths[numbers[numbers >= 0]].max()
        assert longest <= length and (length == 16 or longest > length // 2)


def test_longest_length_need_not_be_a_power_of_two():
    lengths = np.array([70, 3])
    widths = [b.length for b in pipeline.forward_batches(lengths, 1, 1, 70)]
    assert widths == [70, 16]


def test_epochs_run_on_without_a_gap():
    rows, batch, seed = 10, 4, 7
    numbers = [pipeline.rows_of_step(rows, batch, s, seed) for s in range(10)]
    epochs = np.concatenate(numbers).reshape(4, rows)
    for epoch in epochs:
        assert sorted(epoch) == list(range(rows))
    assert len({tuple(epoch) for epoch in epochs}) == 4


def test_rows_follow_from_seed_and_step_alone():
    def place(step, seed):
        return pipeline.rows_of_step(1000, 24, step, seed).tolist()

    later = [place(step, 1) for step in (90, 3, 41)]
    assert later == [place(step, 1) for step in (90, 3, 41)]
    assert place(5, 1) != place(5, 2)


def test_batch_may_hold_more_than_an_epoch():
    numbers = pipeline.rows_of_step(3, 8, 0, seed=0)
    assert sorted(numbers[:3]) == sorted(numbers[3:6]) == [0, 1, 2]


def test_collate_pads_with_zeros_and_masks():
    features = Features(
        {
            "input_ids": Ragged.from_rows([[5, 6], [7, 8, 9]]),
            "segment_ids": Ragged.from_rows([[0, 1], [0, 0, 1]]),
        },
        {"label_ids": np.array([3, 4], np.int32)},
        np.array([1, 2]),
    )
    numbers = np.array([1, 0, pipeline.EMPTY, pipeline.EMPTY])
    batch = pipeline.collate(features, numbers, 2, 4)
    assert batch["input_ids"].tolist() == [
        [[7, 8, 9, 0], [5, 6, 0, 0]],
        [[0, 0, 0, 0], [0, 0, 0, 0]],
    ]
    assert batch["segment_ids"][0].tolist() == [[0, 0, 1, 0], [0, 1, 0, 0]]
    assert batch["input_mask"].sum(-1).tolist() == [[3, 2], [0, 0]]
    assert batch["label_ids"].tolist() == [[4, 3], [0, 0]]
    assert batch["is_real_example"].tolist() == [[1, 1], [0, 0]]
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
