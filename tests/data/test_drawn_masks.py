"""Masks drawn for rows of records: by seed, epoch and row."""

import dataclasses

import numpy as np
import pytest

from bert_mgpu.data.dynamic_masking import DynamicMasking
from tests.support.record_rows import (
    CLS,
    DYNAMIC,
    MASKING,
    MOST,
    SEP,
    dynamic_record,
    rows_of,
    write,
)


def draw(kind="token", seed=7):
    masking = dataclasses.replace(MASKING, strategy=kind)
    return DynamicMasking(masking, (CLS, SEP), seed)


@pytest.fixture
def unmasked(tmp_path):
    rng = np.random.default_rng(2)
    features = [dynamic_record(rng) for _ in range(40)]
    path = write(tmp_path / "d.tfrecord", features)
    return path, features


def masks_of(rows, number):
    block = rows.take(np.array([number]))
    columns = [block.ragged["input_ids"], *block.targets.values()]
    return [column.row(0).tolist() for column in columns]


def test_masks_follow_from_seed_epoch_and_row_alone(unmasked, tmp_path):
    path, features = unmasked
    rows, _ = rows_of(path, DYNAMIC, tmp_path / "cache", masking=draw())
    together = rows.take(np.arange(40))
    for number in (0, 17, 39):
        ids, places, words = masks_of(rows, number)
        assert ids == together.ragged["input_ids"].row(number).tolist()
        original = features[number]["input_ids"]
        assert words == original[places].tolist() and len(places) <= MOST
        ids = np.array(ids)
        kept = np.delete(np.arange(len(ids)), places)
        assert (ids[kept] == original[kept]).all()
        assert {0, len(ids) - 1} & {*places} == set()
    again, _ = rows_of(path, DYNAMIC, tmp_path / "cache", masking=draw())
    assert all(masks_of(rows, n) == masks_of(again, n) for n in (3, 43))
    other, _ = rows_of(path, DYNAMIC, tmp_path / "cache", masking=draw(seed=8))
    changed = [masks_of(rows, n) != masks_of(rows, 40 + n) for n in range(40)]
    assert sum(changed) > 35  # another epoch
    assert sum(masks_of(rows, n) != masks_of(other, n) for n in range(40)) > 35


@pytest.mark.parametrize("kind", ["token", "span"])
def test_counts_are_bounds(unmasked, tmp_path, kind):
    path, _ = unmasked
    rows, _ = rows_of(path, DYNAMIC, tmp_path / "cache", masking=draw(kind))
    block = rows.take(np.arange(40))
    counts = block.targets["masked_lm_positions"].lengths
    assert (counts <= rows.target_counts).all() and (counts > 0).all()
    assert (counts == rows.target_counts).mean() > 0.9


def test_words_stand_and_fall_together(tmp_path):
    rng = np.random.default_rng(3)
    starts = np.array([1, 0, 1, 0, 1, 0, 1, 0])
    ids = np.array([CLS, 5, 6, 7, 8, 9, 10, SEP])
    starts = np.array([1, 1, 0, 1, 0, 1, 0, 1])
    one = dynamic_record(rng, input_ids=ids, segment_ids=0 * ids, word_starts=starts)
    path = write(tmp_path / "w.tfrecord", [one])
    rows, _ = rows_of(path, DYNAMIC, tmp_path / "cache", masking=draw())
    actual = {tuple(masks_of(rows, epoch)[1]) for epoch in range(200)}
    assert actual == {(1, 2), (3, 4), (5, 6)}
