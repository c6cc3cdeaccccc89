"""Batches of streams and of passes over a set: every row once, and few shapes."""

import numpy as np
import pytest

from bert_mgpu.data import forward_batching, packing
from bert_mgpu.data.forward_batching import PassShape


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


def passed(lengths, targets=None, compiled=(), rows=4):
    """By two towers, each of so many rows of the longest at most, packed."""
    counts = np.zeros(len(lengths), int) if targets is None else np.array(targets)
    placements = forward_batching.forward_placements(
        np.array(lengths),
        2,
        rows,
        packs=True,
        max_length=64,
        target_counts=counts,
        compiled=compiled,
    )
    numbers = np.concatenate([batch.numbers.reshape(-1) for batch in placements])
    assert sorted(numbers[numbers != packing.EMPTY]) == [*range(len(lengths))]
    for batch in placements:
        most = packing.most_targets(batch.numbers, counts)
        assert most.row <= batch.targets and most.tower <= batch.most_real_targets
    return placements


def shapes_of(placements):
    return list(dict.fromkeys(map(PassShape.of, placements)))


def drawn(count, seed=1):
    rng = np.random.default_rng(seed)
    return rng.integers(8, 33, count), rng.integers(1, 9, count)


def test_no_batch_of_a_set_is_nearly_empty():
    """Of packed rows each tower of a batch has one too many at most."""
    several = 0
    for count in range(100, 900, 40):
        lengths, _ = drawn(count)
        placements = passed(lengths, rows=24)
        shape = PassShape.of(placements[0]).rows
        if shape.examples_per_row == 1:
            continue
        several += len(placements) > 1
        filled = packing.fill_rows(lengths, shape.length, shape.examples_per_row)
        rows = 2 * shape.rows * len(placements)
        assert 0 <= rows - len(filled) <= 2 * len(placements)
    assert several > 10


def test_a_later_pass_takes_the_shape_of_an_earlier_one():
    """Over fewer rows, with fewer targets: nothing more is compiled."""
    lengths, targets = drawn(400)
    first = passed([*lengths, 40], [*targets, 8])
    (shape,) = shapes_of(first)
    for count, less in ((390, 1), (170, 4), (40, 8), (3, 8)):
        own = np.maximum(targets[:count] - less, 1)
        assert len(shapes_of(passed(lengths[:count], own))) == 1
        assert shapes_of(passed(lengths[:count], own)) != [shape]
        assert shapes_of(passed(lengths[:count], own, [shape])) == [shape]


def test_what_does_not_fit_or_costs_more_has_a_shape_of_its_own():
    lengths, targets = drawn(400)
    (shape,) = shapes_of(passed(lengths, targets))
    longer, more = [*lengths, 64], [*targets, 64]
    for own, counts in ((longer, [*targets, 1]), ([*lengths, 9], more)):
        assert shapes_of(passed(own, counts, [shape])) == shapes_of(passed(own, counts))
    # Rows of two thirds of its length would leave a third of it empty.
    wide = shape.rows.length * 2 // 3
    wasted = np.full(400, wide)
    found = forward_batching.forward_placements(
        wasted, 2, 32, packs=True, max_length=512, compiled=[shape]
    )
    assert PassShape.of(found[0]) != shape


def test_of_several_shapes_the_cheapest_is_taken():
    lengths, targets = drawn(400)
    (shape,) = shapes_of(passed(lengths, targets))
    rows = shape.rows
    wider = PassShape(rows._replace(length=rows.length + 24), shape.targets)
    for known in ([wider, shape], [shape, wider]):
        assert shapes_of(passed(lengths, targets, known)) == [shape]
