"""The masks of a training: some of a row's written tokens, anew in each epoch."""

import collections

import numpy as np
import pytest

from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.rewriting import dataset
from bert_mgpu.tasks.rewriting.training_rows import TrainingRows
from tests.support.tiny import VOCAB

MASK = VOCAB.index("[MASK]")


@pytest.fixture
def features(tokenizer):
    pairs = [("win", "win"), ("win joy sun rain", "win"), ("joy fear", "joy loss")]
    pairs.insert(0, ("sun sun sun sun sun", "[SLOT] win"))  # teaches nothing
    examples = [
        Example("x", text, label=label, line=line)
        for line, (label, text) in enumerate(pairs)
    ]
    return dataset.featurise(
        examples, tokenizer, max_seq_length=16, max_insert=4, slot_marker="[SLOT]"
    )


def filled(rows, row):
    """The tokens of a row with its targets at their places."""
    ids = rows.ragged["input_ids"].row(row).copy()
    ids[rows.targets["masked_lm_positions"].row(row)] = rows.targets[
        "masked_lm_ids"
    ].row(row)
    return ids.tolist()


def test_rows_that_teach_nothing_are_left_out(features):
    rows = TrainingRows(features, 1)
    assert len(features) == 6 and len(rows) == 5  # 3 of tags, 2 of masks
    assert rows.lengths.tolist() == features.lengths[1:].tolist()
    assert rows.target_counts.tolist() == [0, 0, 3, 0, 1]


def test_masks_and_what_is_shown_make_the_same_text(features):
    rows = TrainingRows(features, 1)
    for epoch in range(30):
        taken = rows.take(np.arange(5) + 5 * epoch)
        whole = features.take(np.arange(1, 6))
        for row in range(5):
            assert filled(taken, row) == filled(whole, row)
            count = taken.targets["masked_lm_positions"].lengths[row]
            assert (taken.ragged["input_ids"].row(row) == MASK).sum() == count
            assert (count > 0) == (rows.target_counts[row] > 0)


def test_each_number_of_masks_is_as_likely(features):
    rows = TrainingRows(features, 1)
    drawn = rows.take(2 + 5 * np.arange(3000)).targets["masked_lm_positions"]
    assert np.bincount(drawn.lengths).tolist()[1:] == pytest.approx([1000] * 3, rel=0.1)
    places = np.bincount(drawn.values)
    assert places[places > 0].tolist() == pytest.approx([2000] * 3, rel=0.1)


def test_masks_follow_from_seed_and_number(features):
    def positions(seed, numbers):
        taken = TrainingRows(features, seed).take(np.array(numbers))
        column = taken.targets["masked_lm_positions"]
        return [tuple(column.row(row).tolist()) for row in range(len(numbers))]

    numbers = [2, 7, 12, 17, 22, 27, 32, 37]
    assert positions(1, numbers) == positions(1, numbers[::-1])[::-1]
    assert positions(1, numbers) != positions(2, numbers)
    assert len(collections.Counter(positions(1, numbers))) > 2
