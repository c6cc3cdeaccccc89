"""The objective infill: as many tokens of an ad are masked as its phrase has."""

import collections
import dataclasses
import itertools

import pytest

from bert_mgpu.text.masking import Masking
from tests.support.masked_rows import MASK, WIDE, close, draws, make_row, runs


def infill_spans(phrase, ad_sizes, most):
    """Every span of words that "infill" may choose, in words of the ad's tokens."""
    edges = [0, *itertools.accumulate(ad_sizes)]
    spans = set()
    for start in edges[:-1]:
        if start + phrase > edges[-1]:
            continue
        ends = [edge for edge in edges if start < edge <= start + most]
        long = [end for end in ends if end - start >= min(phrase, most)]
        if ends:
            spans.add((start, min(long) if long else max(ends)))
    return spans


@pytest.mark.parametrize(
    ("phrase", "ad", "most"),
    [
        ([1, 1], [1] * 3, 20),
        ([1] * 5, [1] * 12, 20),
        ([1] * 6, [1] * 9, 4),  # longer than `most`: the first 4 are masked
        ([2, 1], [2, 3, 1, 1, 4, 2], 20),
        ([3], [2, 5, 1, 3, 1], 3),  # ends move back, one start is impossible
        ([4], [1, 1, 1, 9], 8),
        ([2, 2], [5, 5], 5),
        ([2], [3], 20),
    ],
)
def test_infill_is_uniform_over_the_places_where_the_phrase_fits(phrase, ad, most):
    options = Masking("infill", MASK, WIDE, most=most)
    row = make_row(phrase, ad)
    expected = infill_spans(sum(phrase), ad, most)
    count = 4_000
    actual = collections.Counter()
    for masked in draws(options, row, count):
        ((start, end),) = runs(masked.positions)
        actual[start - sum(phrase) - 2, end - sum(phrase) - 2] += 1
    assert actual.keys() == expected
    chance = 1 / len(expected)
    close([*actual.values()], count * chance, count * chance * (1 - chance))


def test_infill_masks_as_many_tokens_as_the_phrase_has():
    # bert-ad's rule, for all lengths at which there is something to mask.
    for phrase, ad, most in itertools.product(range(2, 8), range(3, 12), (3, 20)):
        if ad <= phrase:
            continue
        options = Masking("infill", MASK, WIDE, probability=0.01, most=most)
        row = make_row([1] * phrase, [1] * ad)
        for masked in draws(options, row, 5):
            assert len(runs(masked.positions)) == 1
            assert len(masked.positions) == min(phrase, most)
            assert row[1][masked.positions].all()


@pytest.mark.parametrize("unknown", [(0,), (3, 4, 5), (8,), (1, 6)])
def test_infill_never_masks_a_slot(unknown):
    """bert-ad's slot is a run of quotation marks, which become [UNK]."""
    ids, segments, words = make_row([1, 1], [1] * 9)
    ids[[4 + place for place in unknown]] = 1
    options = Masking("infill", MASK, WIDE, unk_id=1)
    starts = {s for s in range(8) if not {s, s + 1} & {*unknown}}
    count = 500 * len(starts)
    actual = collections.Counter(
        int(masked.positions[0]) - 4
        for masked in draws(options, (ids, segments, words), count)
    )
    assert actual.keys() == starts  # and all of them as often as another
    close([*actual.values()], 500, count / len(starts) * (1 - 1 / len(starts)))
    without = dataclasses.replace(options, unk_id=None)
    assert any(
        1 in masked.labels for masked in draws(without, (ids, segments, words), 99)
    )


def test_an_unknown_token_in_the_phrase_counts_as_one():
    ids, segments, words = make_row([1, 1, 1], [1] * 9)
    ids[2] = 1
    options = Masking("infill", MASK, WIDE, unk_id=1)
    for masked in draws(options, (ids, segments, words), 9):
        assert len(masked.positions) == 3


def test_infill_masks_nothing_where_slots_leave_no_place():
    ids, segments, words = make_row([1, 1, 1], [1] * 5)
    ids[[7, 8]] = 1  # of the ad 1 word, 2 that are unknown, 2 words
    assert draws(Masking("infill", MASK, WIDE), (ids, segments, words), 1) != [None]
    options = Masking("infill", MASK, WIDE, unk_id=1)
    assert draws(options, (ids, segments, words), 3) == [None] * 3


def test_infill_draws_for_each_token():
    options = Masking("infill", MASK, WIDE)
    count = 8_000
    actual = draws(options, make_row([1, 1], [1] * 9), count)
    both = sum((m.input_ids[m.positions] == MASK).all() for m in actual)
    close(both, 0.64 * count, count * 0.64 * 0.36)
