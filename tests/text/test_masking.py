"""Masks against Google's own counts, exact enumeration and the papers' laws."""

import collections
import dataclasses
import itertools
import json
import math
import pickle

import numpy as np
import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.text import masking
from bert_mgpu.text.masking import Masking
from tests.support.masked_rows import MASK, WIDE, close, draws, make_row, runs
from tests.support.paths import GOLDEN

GOLDEN = json.loads((GOLDEN / "masks.json").read_text())
OPTIONS = Masking("token", mask_id=MASK, vocab_size=WIDE)


@pytest.mark.parametrize(
    "case", GOLDEN["cases"], ids=lambda case: str(case["segments"])
)
def test_tokens_are_masked_as_by_googles_code(case):
    rows, vocab = GOLDEN["rows"], GOLDEN["vocab"]
    first, count = vocab.index("[MASK]") + 1, len(vocab)
    ids, segment_ids, words = make_row(*([1] * n for n in case["segments"]))
    places = np.arange(len(ids))
    ids = np.where(words < 0, ids, first + places * 7 % (count - first))
    options = Masking(
        "token", MASK, count, probability=case["probability"], most=case["most"]
    )
    at, drawn, sizes = np.zeros(len(ids)), np.zeros(1 + count), set()
    for masked in draws(options, (ids, segment_ids, words), rows):
        sizes.add(len(masked.positions))
        at[masked.positions] += 1
        put = masked.input_ids[masked.positions]
        np.add.at(drawn, np.where(put == masked.labels, 0, 1 + put), 1)
    assert sorted(sizes) == case["sizes"]
    for ours, theirs, total in (
        (at, np.array(case["masked_at"]), rows),
        (drawn, np.array(case["drawn"]), rows * case["sizes"][0]),
    ):
        share = (ours + theirs) / (2 * total)
        close(ours, theirs, 2 * total * share * (1 - share))


def test_budgets_are_googles():
    for probability, expected in GOLDEN["budgets"].items():
        options = dataclasses.replace(OPTIONS, probability=float(probability))
        lengths = range(*GOLDEN["lengths"])
        assert [masking.budget(options, length) for length in lengths] == expected


def shuffled_greedy(sizes, left):
    """Set of words -> its chance, by trying every order."""
    chances = collections.Counter()
    orders = list(itertools.permutations(range(len(sizes))))
    for order in orders:
        free, taken = left, set()
        for word in order:
            if sizes[word] <= free:
                taken.add(word)
                free -= sizes[word]
        chances[frozenset(taken)] += 1 / len(orders)
    return chances


@pytest.mark.parametrize(
    ("first", "second", "most"),
    [
        ((1, 2, 3, 1), (2, 5), 4),
        ((2, 2), (2, 2, 2), 5),  # one token of the budget always stays free
        ((6, 1), (1, 3), 2),  # some words never fit
    ],
)
def test_whole_words_are_taken_in_random_order_while_they_fit(first, second, most):
    options = dataclasses.replace(OPTIONS, probability=1.0, most=most)
    row = make_row(first, second)
    count = 20_000
    actual = collections.Counter()
    for masked in draws(options, row, count):
        taken = row[2][masked.positions]
        assert np.isin(row[2], taken).nonzero()[0].tolist() == [*masked.positions]
        actual[frozenset(taken.tolist())] += 1
    expected = shuffled_greedy(first + second, most)
    assert actual.keys() <= expected.keys()
    for words, chance in expected.items():
        close(actual[words], count * chance, count * chance * (1 - chance))


def test_whole_words_draw_for_each_token():
    options = dataclasses.replace(OPTIONS, probability=1.0, most=2)
    actual = collections.Counter()
    count = 20_000
    for masked in draws(options, make_row([2, 2, 2]), count):
        put = masked.input_ids[masked.positions]
        kinds = np.where(put == MASK, "mask", np.where(put < 1000, "keep", "random"))
        actual[tuple(kinds)] += 1
    shares = {"mask": 0.8, "keep": 0.1, "random": 0.1}
    for pair in itertools.product(shares, repeat=2):
        chance = shares[pair[0]] * shares[pair[1]]
        close(actual[pair], count * chance, count * chance * (1 - chance))


def expected_spans(left):
    """Spans of each length in a long row, by the law and the budget's end.

    P(l) ~ 0.8 ** (l - 1) for l = 1 to 10; the last span is cut to the budget.
    """
    weights = [0.8**length for length in range(10)]
    counts = np.zeros((left + 1, left + 1))  # [left, length]
    for free in range(1, left + 1):
        for length, weight in enumerate(weights, start=1):
            size = min(length, free)
            counts[free] += weight / sum(weights) * counts[free - size]
            counts[free, size] += weight / sum(weights)
    return counts[left]


def test_span_lengths_and_starts_in_a_long_row():
    # So few spans in so many tokens that they hardly ever touch.
    tokens, most, count, touching = 5_000, 14, 4_000, 0.002
    options = Masking("span", MASK, WIDE, probability=0.5, most=most)
    row = make_row([1] * tokens)
    lengths, tenths = np.zeros(most + 1), np.zeros(10)
    kinds = collections.Counter()
    for masked in draws(options, row, count):
        assert len(masked.positions) == most
        for start, end in runs(masked.positions):
            lengths[end - start] += 1
            tenths[(start - 1) * 10 // tokens] += 1
            put = masked.input_ids[start:end]
            as_before = put == row[0][start:end]
            kinds["mask"] += bool(np.all(put == MASK))
            kinds["keep"] += bool(np.all(as_before))
            kinds["random"] += bool(np.all((put != MASK) & ~as_before))
    spans = tenths.sum()
    expected = count * expected_spans(most)
    close(lengths[:11], expected[:11], expected[:11])
    assert lengths[11:].sum() < touching * spans
    close(tenths, spans / 10, spans * 0.1 * 0.9)
    # One draw for a span: those of a mixed kind are two that touch.
    assert sum(kinds.values()) > (1 - touching) * spans
    for kind, share in {"mask": 0.8, "keep": 0.1, "random": 0.1}.items():
        close(kinds[kind], spans * share, spans * share * (1 - share))


def test_the_mean_span_has_the_length_of_the_paper():
    law = np.diff(masking._SPAN_LAW, prepend=0)
    assert len(law) == 10
    assert round(float(law @ np.arange(1, 11)), 1) == 3.8


@pytest.mark.parametrize("most", [1, 4, 9, 20, 1000])
@pytest.mark.parametrize("probability", [0.15, 0.6, 1.0])
def test_spans_are_whole_words_and_fill_the_budget(probability, most):
    options = Masking("span", MASK, WIDE, probability=probability, most=most)
    sizes = np.random.default_rng(1).integers(1, 4, 40).tolist()
    row = make_row(sizes[:15], [], sizes[15:])
    for masked in draws(options, row, 50):
        taken = row[2][masked.positions]
        assert np.isin(row[2], taken).nonzero()[0].tolist() == [*masked.positions]
        assert min(taken) >= 0
        left = masking.budget(options, len(row[0])) - len(taken)
        assert left >= 0
        others = [size for word, size in enumerate(sizes) if word not in taken]
        assert not others or min(others) > left


def test_a_span_does_not_go_on_behind_a_separator():
    # Segments of one word: if spans went on, neighbours would share one draw.
    options = Masking("span", MASK, WIDE, probability=1.0, most=2)
    count, both = 4_000, 0
    for masked in draws(options, make_row([1], [1]), count):
        assert masked.positions.tolist() == [1, 3]
        both += (masked.input_ids[masked.positions] == MASK).all()
    close(both, 0.64 * count, count * 0.64 * 0.36)


@pytest.mark.parametrize(
    ("kind", "segments", "most"),
    [
        ("token", [[]], 20),
        ("span", [[], []], 20),
        ("token", [[3], [4]], 2),  # no word fits
        ("span", [[3], [4]], 2),
        ("infill", [[1], [1] * 9], 20),  # a phrase of one token
        ("infill", [[], [1] * 9], 20),
        ("infill", [[1, 1], [1, 1]], 20),  # the ad is not longer
        ("infill", [[1] * 3, [1, 1]], 20),
        ("infill", [[1] * 3, []], 20),
        ("infill", [[1] * 9], 20),
        ("infill", [[2], [4, 4]], 3),  # no word is short enough
    ],
)
def test_none_where_nothing_can_be_masked(kind, segments, most):
    options = Masking(kind, MASK, WIDE, probability=1.0, most=most)
    assert draws(options, make_row(*segments), 3) == [None] * 3


@pytest.mark.parametrize("kind", masking.STRATEGIES)
def test_what_comes_out_follows_from_the_arguments(kind):
    options = pickle.loads(pickle.dumps(Masking(kind, MASK, WIDE)))
    row = make_row([1] * 9, [1, 2, 3] * 9)
    before = [values.copy() for values in row]
    actual = draws(options, row, 50, seed=3)
    for masked, again in zip(actual, draws(options, row, 50, seed=3), strict=True):
        assert all(map(np.array_equal, masked, again))
        assert [values.dtype for values in masked] == [np.int32] * 3
        assert (np.diff(masked.positions) > 0).all()
        assert np.array_equal(masked.labels, row[0][masked.positions])
        untouched = np.delete(masked.input_ids, masked.positions)
        assert np.array_equal(untouched, np.delete(row[0], masked.positions))
    assert all(map(np.array_equal, row, before))
    assert len({tuple(masked.input_ids) for masked in actual}) > 40
    other = draws(options, row, 50, seed=4)
    assert any(
        a.input_ids.tolist() != b.input_ids.tolist()
        for a, b in zip(actual, other, strict=True)
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"strategy": "word"},
            "masking 'word' is not known: pass one of token, span, inf",
        ),
        ({"probability": 0.0}, "masked_lm_prob 0.0: pass more than 0, at most 1"),
        ({"probability": 15.0}, "masked_lm_prob 15.0"),
        ({"probability": math.nan}, "masked_lm_prob nan"),
        ({"most": 0}, "max_predictions_per_seq 0: pass 1 or more"),
    ],
)
def test_mistakes(changed, message):
    with pytest.raises(UserError, match=message):
        dataclasses.replace(OPTIONS, **changed)
