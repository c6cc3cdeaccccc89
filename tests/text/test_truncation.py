import itertools

import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.text import truncation


def google_pair(tokens_a, tokens_b, budget):
    """The loop of google-research/bert's run_classifier.py, in our words."""
    while len(tokens_a) + len(tokens_b) > budget:
        (tokens_a if len(tokens_a) > len(tokens_b) else tokens_b).pop()
    return len(tokens_a), len(tokens_b)


def test_pair_lengths_equal_googles_loop():
    for len_a, len_b, budget in itertools.product(range(24), repeat=3):
        expected = google_pair([0] * len_a, [0] * len_b, budget)
        assert truncation.truncate_pair_lengths(len_a, len_b, budget) == expected, (
            len_a,
            len_b,
            budget,
        )


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("head", [0, 1, 2, 3, 4, 5]),
        ("tail", [4, 5, 6, 7, 8, 9]),
        ("head_tail", [0, 1, 6, 7, 8, 9]),
    ],
)
def test_what_is_kept(how, expected):
    assert truncation.truncate(range(10), 6, how, head_tokens=2) == expected


def test_sun_et_al_keep_128_and_382_of_a_long_text():
    kept = truncation.truncate(range(1000), 510, "head_tail")
    assert kept == [*range(128), *range(1000 - 382, 1000)]


def test_a_short_row_keeps_half_of_each():
    """At --max_seq_length=128 the 128 tokens of the default would leave no tail."""
    kept = truncation.truncate(range(1000), 126, "head_tail")
    assert kept == [*range(63), *range(1000 - 63, 1000)]


@pytest.mark.parametrize("how", truncation.TRUNCATIONS)
def test_any_length_and_budget(how):
    for length, budget, head in itertools.product(range(12), repeat=3):
        kept = truncation.truncate(range(length), budget, how, head_tokens=head)
        assert len(kept) == min(length, budget)
        assert kept == sorted(set(kept))
        beside = budget - (head if head < budget else budget // 2)
        tail = {"head": 0, "tail": budget, "head_tail": beside}[how]
        if length > budget:
            assert kept[budget - tail :] == list(range(length - tail, length))
            assert kept[: budget - tail] == list(range(budget - tail))


def test_unknown_way_names_the_choices():
    with pytest.raises(UserError, match="'middle'.*head, tail, head_tail"):
        truncation.truncate([1], 1, "middle")
