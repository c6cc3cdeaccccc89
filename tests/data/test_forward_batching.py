"""Batches of a stream: every row once, and few shapes."""

import numpy as np
import pytest

from bert_mgpu.data import forward_batching, packing


def placed(lengths, targets=0):
    """By two towers of at most 4 rows, rows of at most 50 tokens."""
    counts = np.full(len(lengths), targets)
    return forward_batching.stream_placements(
        np.array(lengths), 2, 4, max_length=50, target_counts=counts
    )


@pytest.mark.parametrize(
    ("count", "longest"), [(1, 3), (5, 9), (8, 40), (3, 50), (9, 20), (17, 33)]
)
def test_a_block_has_every_row_once_and_fits_it(count, longest):
    batches = placed([*[3] * (count - 1), longest])
    assert len(batches) == -(-count // 8)
    numbers = np.concatenate([batch.numbers.reshape(-1) for batch in batches])
    assert sorted(numbers[numbers != packing.EMPTY]) == [*range(count)]
    assert longest <= batches[0].length <= 50
    for batch in batches:
        towers, rows, _ = batch.numbers.shape
        assert towers == 2 and rows <= 4 and rows.bit_count() == 1
        assert batch.length >= 8
        size = batch.length if len(batches) == 1 else batch.length * 4 // 3
        assert batch.length == 50 or 1 in (batch.length.bit_count(), size.bit_count())


def test_rows_of_one_batch_keep_their_order():
    (batch,) = placed([3, 40, 9])
    assert [*batch.numbers.reshape(-1)[:3]] == [0, 1, 2]


def test_rows_of_several_batches_are_sorted():
    """So rows of a length share a batch, and what does not fit shows at once."""
    lengths = [*range(3, 27)]
    batches = placed(lengths)
    assert [batch.length for batch in batches] == [32, 24, 12]
    for batch, own in zip(
        batches, (lengths[16:], lengths[8:16], lengths[:8]), strict=True
    ):
        numbers = batch.numbers.reshape(-1)
        assert sorted(lengths[n] for n in numbers) == own


@pytest.mark.parametrize(("most", "targets"), [(0, 0), (1, 1), (5, 8)])
def test_the_targets_of_a_row_have_their_columns(most, targets):
    (batch,) = placed([9, 20], most)
    assert batch.targets == targets
