"""Rows of different lengths, and the examples that several rows may belong to."""

import numpy as np
import pytest

from bert_mgpu.core.rows import Features, Ragged, Spliced

ROWS = [[5, 6, 7], [], [8], [9, 10]]


def test_rows_are_taken_in_any_order():
    taken = Ragged.from_rows(ROWS).take(np.array([3, 0, 1, 3]))
    assert [taken.row(row).tolist() for row in range(4)] == [
        [9, 10],
        [5, 6, 7],
        [],
        [9, 10],
    ]


def test_positions_count_in_each_row():
    assert Ragged.from_rows(ROWS).positions.tolist() == [0, 1, 2, 0, 0, 1]


def test_parts_are_joined_in_their_order():
    whole = Ragged.from_rows(ROWS)
    parts = [whole.take(np.array(rows)) for rows in ([0, 1], [2], [3])]
    joined = Ragged.concatenated(parts)
    assert joined.values.tolist() == whole.values.tolist()
    assert joined.offsets.tolist() == whole.offsets.tolist()


@pytest.mark.parametrize(
    ("owners", "first"), [([0, 0, 0, 1], [0, 3]), ([0, 1, 1, 2], [0, 1, 3])]
)
def test_the_first_row_of_each_example(owners, first):
    column = {"input_ids": Ragged.from_rows(ROWS)}
    rows = Features(column, {}, np.zeros(4, np.int64), owners=np.array(owners))
    assert rows.first_rows.tolist() == first


def test_without_owners_every_row_is_an_example():
    rows = Features({"input_ids": Ragged.from_rows(ROWS)}, {}, np.zeros(4, np.int64))
    assert rows.first_rows.tolist() == [0, 1, 2, 3]


def test_rows_of_slices_are_made_when_they_are_taken():
    values = np.arange(10)
    slices = [[[8, 2], [0, 3]], [[4, 0], [5, 1]], [[2, 0], [2, 0]]]
    spliced = Spliced(values, np.array(slices, np.int32))
    wanted = [[8, 9, 0, 1, 2], [5], []]
    assert spliced.lengths.tolist() == [5, 1, 0]
    assert [spliced.row(index).tolist() for index in range(3)] == wanted
    taken = spliced.take(np.array([2, 0, 1, 0]))
    assert [taken.row(index).tolist() for index in range(4)] == [
        wanted[number] for number in (2, 0, 1, 0)
    ]


def test_spliced_columns_are_columns_of_taken_rows():
    slices = np.array([[[0, 2]], [[1, 3]]], np.int32)
    rows = Features(
        {"tag_ids": Ragged.from_rows([[1, 2], [3, 4, 5]])},
        {},
        np.zeros(2, np.int64),
        spliced={"input_ids": Spliced(np.arange(4), slices)},
    )
    assert rows.lengths.tolist() == [2, 3]
    taken = rows.take(np.array([1, 2]))  # row 0 of the next epoch
    assert taken.ragged["input_ids"].values.tolist() == [1, 2, 3, 0, 1]
    assert taken.ragged["tag_ids"].values.tolist() == [3, 4, 5, 1, 2]
    assert taken.lengths.tolist() == [3, 2]
