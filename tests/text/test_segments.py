"""The segments of a long text: as sliding a window over its tokens would give them."""

import itertools

import pytest

from bert_mgpu.text.segments import Segments

CLS, SEP = -1, -2


@pytest.mark.parametrize(
    ("length", "stride"),
    [(3, None), (3, 1), (6, None), (6, 1), (6, 3), (9, None), (9, 4), (9, 7)],
)
def test_rows_are_those_of_a_sliding_window(length, stride):
    segments = Segments(length, 4, stride)
    for count in range(segments.budget + 1):
        ids = [*range(count)]
        row = segments.row(ids, CLS, SEP)
        parts = [row[first : first + length] for first in range(0, len(row), length)]
        assert len(parts) <= 4
        assert all(len(part) == length for part in parts[:-1])
        texts = [part[1:-1] for part in parts]
        assert all(part[0] == CLS and part[-1] == SEP for part in parts)
        # By hand: windows until one reaches the end, each `stride` after the last.
        step, wanted, first = stride or length - 2, [], 0
        while True:
            wanted.append(ids[first : first + length - 2])
            if first + length - 2 >= count:
                break
            first += step
        assert texts == wanted
        assert {*itertools.chain(*texts)} == {*ids}


def test_a_row_has_room_for_its_budget_and_no_more():
    segments = Segments(8, 3, 5)
    assert segments.budget == 6 + 2 * 5
    assert len(segments.row(range(segments.budget), CLS, SEP)) == 3 * 8
    assert len(segments.row(range(segments.budget + 1), CLS, SEP)) > 3 * 8


def test_one_segment_is_a_row_as_ever():
    assert Segments(5).budget == 3
    assert Segments(5).row([7, 8], CLS, SEP) == [CLS, 7, 8, SEP]
    assert Segments(5).row([], CLS, SEP) == [CLS, SEP]
