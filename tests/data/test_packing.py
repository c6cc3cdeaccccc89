"""Where examples stand: nothing lost, nothing twice, little padding."""

import itertools

import numpy as np
import pytest

from bert_mgpu.data import packing
from bert_mgpu.data.packing import EMPTY, Shape


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("places", [1, 2, 5])
def test_rows_hold_every_example_once_and_no_more_than_they_can(seed, places):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 33, rng.integers(1, 200))
    rows = packing.fill_rows(lengths, 32, places)
    assert sorted(itertools.chain(*rows)) == list(range(len(lengths)))
    assert all(1 <= len(row) <= places for row in rows)
    assert all(lengths[row].sum() <= 32 for row in rows)
    # Best fit decreasing needs at most 11/9 of the fewest rows, and 4 (Johnson 1973).
    if places == 5:
        least = max(lengths.sum() / 32, len(lengths) / 5, (lengths > 16).sum())
        assert len(rows) <= 11 / 9 * least + 4 + len(lengths) / 5


def test_a_row_is_filled_to_its_last_token():
    assert packing.fill_rows(np.array([3, 5, 8, 4, 4]), 8, 8) == [[2], [1, 0], [3, 4]]


def test_pack_places_every_example_once():
    lengths = np.random.default_rng(1).integers(2, 17, 100)
    numbers = np.random.default_rng(2).permutation(100)[:24]
    shape = Shape(rows=22, length=24, examples_per_row=6)
    placement = packing.pack(numbers, lengths[numbers], 3, shapes=[shape])
    assert placement.numbers.shape == placement.offsets.shape == (3, 8, 6)
    assert sorted(placement.numbers[placement.numbers != EMPTY]) == sorted(numbers)
    for packed, offsets in zip(
        placement.numbers.reshape(24, 6), placement.offsets.reshape(24, 6), strict=True
    ):
        real = packed[packed != EMPTY]
        ends = offsets[: len(real)] + lengths[real]
        assert offsets[: len(real)].tolist() == [0, *ends][: len(real)]
        assert (ends <= 24).all()


@pytest.mark.parametrize("towers", [2, 3, 8, 12])
def test_rows_and_their_places_do_not_depend_on_the_towers(towers):
    """So neither do dropout masks, which follow a row's place in the batch."""
    lengths = np.random.default_rng(1).integers(2, 17, 24)
    shapes = [
        Shape(rows=10, length=24, examples_per_row=6),
        Shape(rows=24, length=24, examples_per_row=6),
    ]
    numbers = np.arange(24)
    one = packing.pack(numbers, lengths, 1, shapes=shapes)
    split = packing.pack(numbers, lengths, towers, shapes=shapes)
    for actual, wanted in ((split.numbers, one.numbers), (split.offsets, one.offsets)):
        rows, of_one = actual.reshape(-1, 6), wanted.reshape(-1, 6)
        shared = min(len(rows), len(of_one))
        assert (rows[:shared] == of_one[:shared]).all()
    assert (split.numbers.reshape(-1, 6)[len(one.numbers[0]) :] == EMPTY).all()


def test_pack_says_when_there_is_no_room():
    lengths = np.full(10, 9)
    numbers = np.arange(10)
    assert packing.pack(numbers, lengths, 1, shapes=[Shape(4, 18, 2)]) is None
    assert packing.pack(numbers, lengths, 1, shapes=[Shape(5, 18, 2)]) is not None
    both = packing.pack(numbers, lengths, 2, shapes=[Shape(4, 18, 2), Shape(5, 18, 2)])
    assert both.numbers.shape == (2, 3, 2)


def best_widths(longest, most, multiple):
    """All choices of widths, tried one by one."""
    units = sorted({packing.rounded(n, multiple) for n in longest})
    sizes = range(1, most + 1)
    choices = [c for size in sizes for c in itertools.combinations(units, size)]
    choices = [c for c in choices if c[-1] == units[-1]]
    return min(sum(min(w for w in c if w >= n) for n in longest) for c in choices)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("most", "multiple"), [(1, 2), (2, 8), (3, 2), (4, 8)])
def test_few_widths_are_the_best_ones(seed, most, multiple):
    rng = np.random.default_rng(seed)
    longest = rng.integers(2, 80, rng.integers(1, 40))
    widths = packing.few_widths(longest, most, multiple)
    assert len(widths) <= most and widths == sorted(set(widths))
    assert all(width % multiple == 0 for width in widths)
    tokens = sum(min(w for w in widths if w >= n) for n in longest)
    assert tokens == best_widths(longest, most, multiple)


def test_each_width_more_has_to_be_worth_it():
    longest = np.array([8] * 10 + [12] * 5 + [16] * 85)  # 1,600 tokens at one width
    assert packing.few_widths(longest, worth=0.0) == [8, 12, 16]
    # A width of 8 saves 80 tokens, as many as 5 batches have; then 12 saves 20, of 1.3.
    assert packing.few_widths(longest, worth=1.3) == [8, 12, 16]
    assert packing.few_widths(longest, worth=1.4) == [8, 16]
    assert packing.few_widths(longest, worth=5.1) == [16]


def test_packed_shape_holds_its_groups_with_little_padding():
    rng = np.random.default_rng(0)
    groups = [rng.integers(10, 31, 32) for _ in range(50)]
    shape = packing.packed_shape(groups, 32)
    numbers = np.arange(32)
    assert all(
        packing.pack(numbers, group, 1, shapes=[shape]) is not None for group in groups
    )
    tokens = max(group.sum() for group in groups)
    assert tokens <= shape.rows * shape.length <= 1.15 * tokens


@pytest.mark.parametrize(("longest", "most"), [(24, 96), (200, 512), (600, 600)])
def test_rows_are_packed_to_no_more_than_512_tokens(longest, most):
    rng = np.random.default_rng(0)
    groups = [rng.integers(longest // 3, longest + 1, 32) for _ in range(20)]
    shape = packing.packed_shape(groups, longest)
    assert longest <= shape.length <= most
