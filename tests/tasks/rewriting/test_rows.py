"""Where tokens of a context, a source and what is written stand in a row."""

import pytest

from bert_mgpu.tasks.rewriting.rows import Special, layout

CLS, SEP, MASK = 101, 102, 103
SPECIAL = Special(CLS, SEP, MASK, unk=100)


def test_a_row_that_is_tagged():
    row = layout([1, 2], [5, 6], SPECIAL, max_length=9)
    assert row.input_ids == [CLS, 1, 2, SEP, 5, 6, SEP]
    assert row.segment_ids == [0, 0, 0, 0, 1, 1, 1]
    assert row.tokens == [4, 5, 6] and row.written == []
    alone = layout(None, [5, 6], SPECIAL, max_length=9)
    assert alone.input_ids == [CLS, 5, 6, SEP] and alone.segment_ids == [0, 1, 1, 1]
    empty = layout([], [], SPECIAL, max_length=9)
    assert empty.input_ids == [CLS, SEP, SEP] and empty.tokens == [2]


def test_deleted_tokens_stay_where_they_were():
    """In the segment of what is only read; what is written comes out."""
    row = layout(
        [1], [5, 6], SPECIAL, max_length=12, keeps=[False, True],
        counts=[2, 0, 1], written=[MASK, 9, MASK],
    )  # fmt: skip
    assert row.input_ids == [CLS, 1, SEP, MASK, 9, 5, 6, MASK, SEP]
    assert row.segment_ids == [0, 0, 0, 1, 1, 0, 1, 1, 1]
    assert row.tokens == [5, 6, 8] and row.written == [3, 4, 7]
    out = [t for t, s in zip(row.input_ids, row.segment_ids, strict=True) if s]
    assert out == [MASK, 9, 6, MASK, SEP]


@pytest.mark.parametrize(
    ("length", "context", "source"),
    [
        (9, [1, 2, 3], [5, 6, 7]),
        (8, [2, 3], [5, 6, 7]),  # the context loses its beginning
        (6, [], [5, 6, 7]),
        (5, [], [5, 6]),  # then the source its end
    ],
)
def test_what_does_not_fit(length, context, source):
    row = layout([1, 2, 3], [5, 6, 7], SPECIAL, max_length=length)
    assert row.input_ids == [CLS, *context, SEP, *source, SEP]
    ends = [len(row.input_ids) - 1] * (len(source) == 3)
    assert row.tokens == [*range(len(context) + 2, len(row.input_ids) - 1), *ends]


def test_places_are_whole_or_left_out():
    """Two tokens before the second one of the source, and room for one."""
    short = layout(None, [5, 6], SPECIAL, max_length=5, counts=[0, 2, 0],
                   keeps=[True, True], written=[MASK] * 2)  # fmt: skip
    assert short.input_ids == [CLS, 5, SEP] and short.written == []
    assert short.tokens == [1]
    fits = layout(None, [5, 6], SPECIAL, max_length=6, counts=[0, 2, 0],
                  keeps=[True, True], written=[MASK] * 2)  # fmt: skip
    assert fits.input_ids == [CLS, 5, MASK, MASK, 6, SEP] and fits.tokens == [1, 4, 5]
