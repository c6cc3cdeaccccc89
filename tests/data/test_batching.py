"""Which rows a batch holds: every row, once an epoch, by seed and step alone."""

import itertools
import tracemalloc

import numpy as np
import pytest

from bert_mgpu.core.rng import shuffles
from bert_mgpu.data import batching, forward_batching, pipeline
from bert_mgpu.data.packing import EMPTY
from bert_mgpu.model import params
from tests.support.features import make_features

PACKED = pytest.mark.parametrize("padding", batching.POLICIES)


def make_order(features, padding, towers=2, rows=4, seed=7):
    return batching.TrainingOrder(
        features.lengths, towers, rows, padding=padding, max_length=16, seed=seed
    )


def numbers_of(placement):
    return sorted(placement.numbers[placement.numbers != EMPTY].tolist())


def in_file_order(monkeypatch):
    def step(rows, batch, number, *_, **__):
        return np.arange(number * batch, (number + 1) * batch)

    monkeypatch.setattr(batching, "rows_of_step", step)


@PACKED
def test_every_policy_trains_on_every_row_of_an_epoch(padding):
    features = make_features(1000)
    order = make_order(features, padding)
    seen = [numbers_of(order.placement(step)) for step in range(250)]
    assert all(len(numbers) == 8 for numbers in seen)
    for epoch, steps in enumerate((seen[:125], seen[125:])):
        wanted = range(epoch * 1000, (epoch + 1) * 1000)
        assert sorted(itertools.chain(*steps)) == list(wanted)


@PACKED
def test_a_batch_follows_from_seed_and_step_alone(padding):
    features = make_features(300)
    order = make_order(features, padding)
    placements = {step: order.placement(step) for step in range(80)}
    for step in (79, 3, 41, 3):
        again = make_order(features, padding).placement(step)
        assert again.length == placements[step].length
        assert np.array_equal(again.numbers, placements[step].numbers)
        assert np.array_equal(again.offsets, placements[step].offsets)
    other = make_order(features, padding, seed=8).placement(5)
    assert numbers_of(other) != numbers_of(placements[5])


def test_towers_share_the_rows_of_a_larger_batch():
    """2 x 4 and 8 x 1 train on the same rows at the same step, padded alike."""
    features = make_features(300)
    for padding in ("max_length", "longest", "bucket"):
        two, eight = make_order(features, padding), make_order(features, padding, 8, 1)
        for step in range(60):
            a, b = two.placement(step), eight.placement(step)
            assert a.length == b.length
            assert a.numbers.reshape(-1).tolist() == b.numbers.reshape(-1).tolist()


def test_bucket_gives_batches_of_like_length_in_random_order():
    features = make_features(4000, longest=128)
    order = batching.TrainingOrder(
        features.lengths, 2, 4, padding="bucket", max_length=128, seed=1
    )
    spans, longest = [], []
    for step in range(100):
        lengths = features.lengths[numbers_of(order.placement(step))]
        spans.append(np.ptp(lengths))
        longest.append(lengths.max())
    assert np.median(spans) <= 4
    assert abs(np.corrcoef(longest, np.arange(100))[0, 1]) < 0.3


def test_windows_end_with_their_epoch():
    """So a run of whole epochs goes on in the same order when it gets more."""
    windows = {batching.window_of_step(1000, 8, step, size=50) for step in range(250)}
    assert sorted(windows) == [
        (0, 50),
        (50, 100),
        (100, 125),
        (125, 175),
        (175, 225),
        (225, 250),
    ]
    for rows, batch in ((3, 8), (10, 4), (7, 7)):
        for step in range(30):
            first, last = batching.window_of_step(rows, batch, step, size=5)
            assert first <= step < last <= first + 5


def test_policies_pad_less_and_less_and_compile_seldom():
    features = make_features(10_000, longest=60)
    share = {}
    for padding in batching.POLICIES:
        order = batching.TrainingOrder(
            features.lengths, 2, 16, padding=padding, max_length=128, seed=1
        )
        placements = [order.placement(step) for step in range(60)]
        shapes = {(p.numbers.shape, p.length) for p in placements}
        assert len(shapes) <= (8 if padding in ("longest", "bucket") else 1)
        share[padding] = pipeline.padding_fraction(placements, features.lengths)
    assert share["max_length"] > 0.7 > share["longest"] > 0.4
    assert share["bucket"] < 0.3 and share["pack"] < 0.3


@pytest.mark.parametrize(("towers", "most"), [(1, 0.15), (4, 0.2), (8, 0.3)])
def test_packing_saves_in_several_towers_too(towers, most):
    features = make_features(2000, longest=60)
    lengths = features.lengths
    order = batching.TrainingOrder(
        lengths, towers, 64 // towers, padding="pack", max_length=128, seed=1
    )
    placements = [order.placement(step) for step in range(30)]
    assert {p.numbers.shape[2] > 1 for p in placements} == {True}
    assert pipeline.padding_fraction(placements, lengths) < most


def test_where_packing_saves_nothing_rows_are_padded_to_the_longest():
    lengths = make_features(2000, longest=60).lengths
    for towers, padding in ((64, "pack"), (64, "longest")):
        order = batching.TrainingOrder(
            lengths, towers, 1, padding=padding, max_length=128, seed=1
        )
        placed = [order.placement(step) for step in range(30)]
        shares = pipeline.padding_fraction(placed, lengths)
        assert shares == pytest.approx(0.5, abs=0.1)
        assert {p.numbers.shape for p in placed} == {(64, 1, 1)}


def test_a_step_longer_than_the_sample_is_packed_into_some_more_rows(monkeypatch):
    monkeypatch.setattr(batching, "_SAMPLE", 1)
    lengths = np.array([16] * 8 + [9] + [8] * 7 + [9] * 8)
    in_file_order(monkeypatch)
    order = batching.TrainingOrder(
        np.append(lengths[8:], 16), 1, 8, padding="pack", max_length=16, seed=1
    )
    usual, longer = order.placement(0).numbers.shape, order.placement(1).numbers.shape
    assert usual[2] > 1 and longer[1] > usual[1]
    assert order.widest().numbers.shape[1] > usual[1]


@PACKED
def test_no_row_is_longer_than_the_model_has_positions(padding):
    """30 places are no multiple of 8; in a packed row, positions start again."""
    features = make_features(200, longest=30)
    order = batching.TrainingOrder(
        features.lengths, 2, 4, padding=padding, max_length=30, seed=1
    )
    placements = [order.placement(step) for step in range(25)]
    placements += forward_batching.forward_placements(
        features.lengths, 2, 4, packs=padding == "pack", max_length=30
    )
    for placement in placements:
        batch = pipeline.collate(features, placement)
        if "position_ids" in batch:
            assert batch["position_ids"].max() < 30
        else:
            assert batch["input_ids"].shape[2] <= 30


def test_a_batch_too_long_to_pack_stands_one_in_a_row(monkeypatch):
    monkeypatch.setattr(batching, "_SAMPLE", 1)
    lengths = np.array([3] + [1] * 7 + [16] * 8)
    in_file_order(monkeypatch)
    order = batching.TrainingOrder(lengths, 1, 8, padding="pack", max_length=16, seed=1)
    assert order.placement(0).numbers.shape == (1, 1, 8)
    assert order.placement(1).numbers.shape == (1, 8, 1)
    assert numbers_of(order.placement(1)) == list(range(8, 16))


def test_epochs_run_on_without_a_gap():
    rows, batch, seed = 10, 4, 7
    numbers = [batching.rows_of_step(rows, batch, s, seed=seed) for s in range(10)]
    epochs = np.concatenate(numbers).reshape(4, rows)
    for number, epoch in enumerate(epochs):
        assert sorted(epoch) == list(range(number * rows, (number + 1) * rows))
    assert len({tuple(epoch % rows) for epoch in epochs}) == 4


def test_rows_follow_from_seed_and_step_alone():
    def place(step, seed):
        return batching.rows_of_step(1000, 24, step, seed=seed).tolist()

    later = [place(step, 1) for step in (90, 3, 41)]
    assert later == [place(step, 1) for step in (90, 3, 41)]
    assert place(5, 1) != place(5, 2)


def test_batch_may_hold_more_than_an_epoch():
    numbers = batching.rows_of_step(3, 8, 0, seed=0)
    assert sorted(numbers[:3]) == [0, 1, 2] and sorted(numbers[3:6]) == [3, 4, 5]


def test_numpy_is_not_asked_for_an_order(monkeypatch):
    """Its Generator may draw otherwise in any version (NEP 19)."""

    def refuse(*_):
        raise AssertionError("numpy.random is asked")

    monkeypatch.setattr(np.random, "default_rng", refuse)
    lengths = np.arange(400) % 16 + 1
    for padding in batching.POLICIES:
        batching.TrainingOrder(
            lengths, 2, 4, padding=padding, max_length=16, seed=7
        ).placement(3)
        forward_batching.forward_placements(
            lengths, 2, 4, packs=padding == "pack", max_length=16
        )
    assert len(shuffles.sample_rows(400, 30, 7)) == 30
    specs = {"a/kernel": ((3, 4), "truncated_normal"), "a/bias": ((4,), "zeros")}
    assert params.initialize(specs, 0.02, 7)["a/kernel"].all()


def test_a_run_of_before_keeps_numpys_order():
    """As version 0.1.0 drew it before its runs were drawn by counters."""
    epochs = [np.random.default_rng([7, e]).permutation(100) + 100 * e for e in (0, 1)]
    wanted = np.concatenate(epochs)
    for step in range(8):
        actual = batching.rows_of_step(100, 24, step, seed=7, random_numbers="numpy")
        assert np.array_equal(actual, wanted[24 * step : 24 * (step + 1)])
    lengths = make_features(96).lengths
    order = batching.TrainingOrder(
        lengths, 2, 4, padding="bucket", max_length=16, seed=7, random_numbers="numpy"
    )
    rows = np.random.default_rng([7, 0]).permutation(96)  # a window of 12 steps
    rows = rows[np.argsort(lengths[rows], kind="stable")].reshape(12, 8)
    wanted = np.random.default_rng([7, 0, 12]).permutation(rows)
    for step in range(12):
        assert order.placement(step).numbers.reshape(-1).tolist() == [*wanted[step]]
    wanted = np.sort(np.random.default_rng(7).choice(100, 10, replace=False))
    assert np.array_equal(
        shuffles.sample_rows(100, 10, 7, random_numbers="numpy"), wanted
    )


def test_a_run_of_before_keeps_its_widths():
    """Multiples of 8, four at most; dropout masks follow from them."""
    lengths = np.random.default_rng(0).integers(10, 27, 4000)
    widths = {}
    for random_numbers in ("numpy", "counters"):
        order = batching.TrainingOrder(
            lengths,
            1,
            2,
            padding="longest",
            max_length=64,
            seed=7,
            random_numbers=random_numbers,
        )
        widths[random_numbers] = {order.placement(n).length for n in range(200)}
    assert widths["numpy"] == {16, 24, 32}
    assert 26 in widths["counters"] and max(widths["counters"]) == 26


def test_a_step_of_a_hundred_million_rows_holds_no_array_of_them():
    tracemalloc.start()
    try:
        numbers = batching.rows_of_step(
            10**8, 4096, 10**8 // 4096, seed=7
        )  # two epochs
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4e7
    assert {*(numbers // 10**8)} == {0, 1} and len({*numbers}) == 4096


@PACKED
def test_the_widest_batch_is_known(padding):
    """Also where a single long row comes long after the first steps."""
    lengths = np.full(20_000, 10)
    lengths[batching.rows_of_step(20_000, 20_000, 0, seed=3)[-1]] = 120
    order = batching.TrainingOrder(
        lengths, 2, 4, padding=padding, max_length=128, seed=3
    )
    widest = order.widest()
    rows, length = widest.numbers.shape[1], widest.length
    assert length == {"max_length": 128}.get(padding, 120) or padding == "pack"
    for step in (*range(20), *range(2480, 2500)):
        placed = order.placement(step)
        if placed.numbers.shape[2] == widest.numbers.shape[2]:  # packed like it
            assert placed.numbers.shape[1] * placed.length <= rows * length


@PACKED
def test_no_row_is_longer_than_the_model_has_places(padding):
    """30 places: a multiple of 8 would be too many."""
    lengths = np.full(50, 30)
    order = batching.TrainingOrder(
        lengths, 1, 1, padding=padding, max_length=30, seed=3
    )
    placements = forward_batching.forward_placements(
        lengths, 1, 1, packs=padding == "pack", max_length=30
    )
    for placed in (order.placement(0), order.widest(), *placements):
        assert placed.length == 30 and placed.numbers.shape[2] == 1


@pytest.mark.parametrize("segment", [None, 6])
def test_long_batches_are_of_whole_segments(segment):
    """So a few shapes serve all, and what they pad is known. None is packed."""
    features = make_features(400, longest=10)
    settings = batching.Batching(
        "pack",
        parts=2,
        rows=16,
        max_length=24,
        seed=1,
        random_numbers="counters",
        segment=segment,
    )
    orders = batching.training_orders(settings, features)
    widths = {
        (one.length, one.numbers.shape[2])
        for policy in ("bucket", "pack")
        for one in map(orders[policy].placement, range(12))
    }
    lengths = {length for length, _ in widths}
    if segment is None:
        assert any(length > 6 and length % 6 for length in lengths)
        assert max(examples for _, examples in widths) > 1
        return
    assert {examples for _, examples in widths} == {1}
    assert {length for length in lengths if length > 6} == {12}
    own = batching.whole_segments(np.array([2, 5, 6, 7, 12, 13]), segment)
    assert own.tolist() == [2, 5, 6, 12, 12, 18]


@pytest.mark.parametrize(
    ("longest", "width"),
    [(2, 8), (9, 10), (10, 10), (11, 20), (20, 20), (21, 40), (41, 70), (70, 70)],
)
def test_a_stream_has_whole_segments(longest, width):
    """1, 2, 4, or all seven of ten tokens; a text of one segment is read as one."""
    lengths = np.array([longest])
    placed = forward_batching.stream_placements(
        lengths, 1, 1, max_length=70, target_counts=0 * lengths, segment=10
    )
    assert [one.length for one in placed] == [width]
