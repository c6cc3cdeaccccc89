"""Ragged columns, and which rows belong to an example."""

import numpy as np
import pytest

from bert_mgpu.core.rows import Features, Ragged

ROWS = [[1, 2, 3], [], [4], [5, 6]]


def features(owners):
    column = Ragged.from_rows(ROWS)
    return Features({"input_ids": column}, {}, np.arange(4), owners=owners)


@pytest.mark.parametrize("numbers", [[3, 0, 0, 1], [], [2]], ids=str)
def test_rows_are_taken_in_the_order_asked_for(numbers):
    taken = Ragged.from_rows(ROWS).take(np.array(numbers, np.int64))
    assert [taken.row(i).tolist() for i in range(len(numbers))] == [
        ROWS[number] for number in numbers
    ]
    assert taken.positions.tolist() == [
        position for number in numbers for position in range(len(ROWS[number]))
    ]


def test_parts_keep_their_order():
    parts = [Ragged.from_rows(ROWS[:2]), Ragged.from_rows(ROWS[2:])]
    both, whole = Ragged.concatenated(parts), Ragged.from_rows(ROWS)
    assert both.values.tolist() == whole.values.tolist()
    assert both.offsets.tolist() == whole.offsets.tolist()


def test_the_first_row_of_each_example():
    assert features(np.array([0, 0, 1, 2])).first_rows.tolist() == [0, 2, 3]
    assert features(None).first_rows.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "owners", [[0, 1, 0, 1], [0, 0, 2, 3], [1, 1, 2, 3], [0, 1, 2]], ids=str
)
def test_the_rows_of_an_example_stand_together(owners):
    with pytest.raises(ValueError, match="owners: examples are numbered"):
        features(np.array(owners))
