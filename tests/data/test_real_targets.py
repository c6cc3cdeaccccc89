"""Places for targets: in each row for the most of any row, of which few are real."""

import numpy as np
import pytest

from bert_mgpu.core.rows import POSITIONS, Features, Ragged
from bert_mgpu.data import batching, forward_batching, packing, pipeline
from bert_mgpu.data.forward_batching import PassShape

ROWS, TOWERS, LENGTH = 400, 2, 40


def features(most):
    """Rows of 8 to 40 tokens; half of them have targets, few of these up to `most`."""
    draw = np.random.default_rng(0)
    lengths = draw.integers(8, LENGTH + 1, ROWS)
    counts = draw.geometric(0.4, ROWS).clip(max=most) * draw.integers(0, 2, ROWS)
    columns = [np.sort(draw.permutation(8)[:count]) for count in counts.tolist()]
    return Features(
        {"input_ids": Ragged.from_rows([[*range(1, size + 1)] for size in lengths])},
        {},
        np.arange(ROWS),
        targets={POSITIONS: Ragged.from_rows([own.tolist() for own in columns])},
    )


def order_of(rows, padding, per_tower=16):
    return batching.TrainingOrder(
        rows.lengths,
        TOWERS,
        per_tower,
        padding=padding,
        max_length=LENGTH,
        seed=3,
        target_counts=rows.target_counts,
    )


def check(rows, placement):
    """Every real target has one place, and they come in the order of the batch."""
    batch = pipeline.collate(rows, placement)
    weights = batch["masked_lm_weights"].reshape(TOWERS, -1)
    for tower in range(TOWERS):
        places = np.flatnonzero(weights[tower])
        own = batch["masked_lm_real"][tower]
        assert own.shape == (placement.real_targets,)
        assert own[: len(places)].tolist() == places.tolist()
        assert (own[len(places) :] == -1).all()
    return int(weights.sum())


@pytest.mark.parametrize("padding", batching.POLICIES)
def test_a_step_has_places_for_its_real_targets(padding):
    """In three epochs, although the places were chosen from fewer steps."""
    rows = features(8)
    order = order_of(rows, padding)
    found, seen = [order.placement(step) for step in range(3 * ROWS // 32)], 0
    for placement in found:
        if placement.real_targets is not None:
            rows_of_tower = placement.numbers.shape[1]
            assert placement.real_targets < rows_of_tower * placement.targets
            check(rows, placement)
            seen += 1
    assert seen >= 0.95 * len(found)
    shapes = {(p.numbers.shape, p.length, p.targets, p.real_targets) for p in found}
    assert len(shapes) <= order.compilations + 2


def test_more_real_targets_than_places_are_all_computed():
    """Such a step has twice the places, or one for each target of any row."""
    rows = features(8)
    order = order_of(rows, "max_length")
    (usual,) = {order.placement(step).real_targets for step in range(20)}
    placed = packing.one_per_row(np.arange(32), TOWERS, LENGTH)._replace(targets=12)
    for each, wanted in ((4, usual), (5, 2 * usual), (9, None)):
        order._target_counts = np.full(ROWS, each)
        assert order._with_real(placed).real_targets == wanted
    assert usual == 16 * 4


@pytest.mark.parametrize("padding", batching.POLICIES)
def test_rare_targets_need_few_more_shapes(padding):
    """Of 20,000 rows 0.5 % have up to 40; a sample of 300 steps sees few of them."""
    draw = np.random.default_rng(1)
    lengths = draw.integers(8, 129, 20_000)
    counts = np.where(draw.random(20_000) < 0.005, np.minimum(lengths // 3, 40), 0)
    made = [
        batching.TrainingOrder(
            lengths,
            1,
            32,
            padding=padding,
            max_length=128,
            seed=seed,
            target_counts=counts,
        )
        for seed in (1, 2)
    ]
    shapes = set()
    for order in made:
        for placed in map(order.placement, range(1200)):
            most = packing.most_targets(placed.numbers, counts)
            assert most.tower <= placed.most_real_targets
            assert most.row <= placed.targets
            shapes.add(PassShape.of(placed))
        widest = order.widest().most_real_targets
        usual = (order.placement(step).most_real_targets for step in range(300))
        assert widest >= np.percentile([*usual], 99)
    assert len(shapes) <= made[0].compilations + 3  # of both seeds together


def test_there_are_places_for_more_than_the_sample_has():
    """A quarter more, or another row with the most targets, in multiples of 8."""
    assert packing.with_spare(100) == packing.with_spare(100, 20) == 128
    assert packing.with_spare(100, 40) == 144
    assert packing.with_spare(0, 3) == 8 and packing.with_spare(0) == 0
    rows = features(8)
    order = order_of(rows, "max_length")
    towers = [
        packing.most_targets(order_of(rows, "max_length").placement(s).numbers,
                             rows.target_counts).tower for s in range(50)
    ]  # fmt: skip
    assert order.placement(0).real_targets >= 1.2 * max(towers)


@pytest.mark.parametrize("padding", batching.POLICIES)
def test_a_process_has_its_towers_part(padding):
    rows = features(8)
    placement = order_of(rows, padding).placement(0)
    whole = pipeline.collate(rows, placement)
    for tower in range(TOWERS):
        share = placement.share(range(tower, tower + 1), TOWERS)
        for name, values in pipeline.collate(rows, share).items():
            np.testing.assert_array_equal(values, whole[name][tower : tower + 1])


def test_rows_with_equally_many_targets_have_no_other_places():
    rows = features(8)
    same = Ragged.from_rows([[1, 2, 3]] * ROWS)
    rows = Features(rows.ragged, {}, rows.lines, targets={POSITIONS: same})
    for padding in ("max_length", "bucket"):
        placement = order_of(rows, padding).placement(0)
        assert placement.real_targets is None
        assert "masked_lm_real" not in pipeline.collate(rows, placement)


@pytest.mark.parametrize("packs", [False, True])
def test_a_pass_has_places_for_all_of_its_targets(packs):
    rows = features(8)
    placements = forward_batching.forward_placements(
        rows.lengths,
        TOWERS,
        16,
        packs=packs,
        max_length=LENGTH,
        target_counts=rows.target_counts,
    )
    assert sum(check(rows, each) for each in placements) == rows.target_counts.sum()


def test_a_later_pass_with_more_of_them_computes_all_places():
    """Of the shape that is compiled; the next passes take whichever suffices."""
    rows = features(8)
    counts, more = rows.target_counts, np.minimum(rows.target_counts + 2, 8)

    def shapes(counts, compiled=()):
        placements = forward_batching.forward_placements(
            rows.lengths,
            TOWERS,
            16,
            packs=True,
            max_length=LENGTH,
            target_counts=counts,
            compiled=compiled,
        )
        return list(dict.fromkeys(map(PassShape.of, placements)))

    (few,), (many,) = shapes(counts), shapes(more)
    assert few.real_targets < many.real_targets
    first = many._replace(real_targets=few.real_targets)
    second = first._replace(real_targets=None)
    assert shapes(more, [first]) == [second]
    for known in ([first, second], [second, first]):
        assert shapes(counts, known) == [first] and shapes(more, known) == [second]
