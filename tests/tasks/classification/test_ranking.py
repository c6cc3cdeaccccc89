"""Scores of groups against scikit-learn, ties and any order of rows."""

import itertools
import json
import math

import numpy as np
import pytest
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score

from bert_mgpu.core.rows import Example, Features, Ragged
from bert_mgpu.tasks.classification import ranking, rewrites
from bert_mgpu.tasks.classification.ranking import NAMES

pytestmark = pytest.mark.filterwarnings("error")


def drawn(seed, *, right, levels=4, groups=60):
    """groups, scores, truth [R] of groups of 2 to 9 rows, of few different scores.

    right: the right rows of each; None: 0 or more, also all of them.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 10, groups)
    numbers = np.repeat(np.arange(groups), sizes)
    scores = rng.integers(0, levels, len(numbers)) / 8 - 3.0
    truth = np.zeros(len(numbers), np.int32)
    for group, size in enumerate(sizes):
        count = rng.integers(0, size + 1) if right is None else right
        truth[rng.permutation(np.flatnonzero(numbers == group))[:count]] = 1
    return numbers, scores, truth


def by_group(numbers, scores, truth):
    """(truth, scores) of each group with both kinds of rows, as lists of lists."""
    for group in np.unique(numbers):
        own = numbers == group
        if len({*truth[own]}) == 2:
            yield [truth[own]], [scores[own]]


@pytest.mark.parametrize("levels", [1, 2, 4, 1000])
@pytest.mark.parametrize("right", [1, None])
def test_ndcg_is_scikit_learns(levels, right):
    numbers, scores, truth = drawn(levels, right=right, levels=levels)
    wanted = [ndcg_score(t, s) for t, s in by_group(numbers, scores, truth)]
    actual = ranking.scores(numbers, scores, truth=truth)["ndcg"]
    assert len(wanted) > 30 and actual == pytest.approx(np.mean(wanted), abs=1e-12)


@pytest.mark.parametrize("levels", [1, 2, 4, 1000])
def test_mrr_of_one_right_row_is_scikit_learns(levels):
    numbers, scores, truth = drawn(levels, right=1, levels=levels)
    pairs = [*by_group(numbers, scores, truth)]
    wanted = [label_ranking_average_precision_score(t, s) for t, s in pairs]
    found = ranking.scores(numbers, scores, truth=truth)
    assert len(pairs) == 60 and [*found] == [*NAMES]
    assert found["mrr"] == pytest.approx(np.mean(wanted), abs=1e-12)
    for most in (1, 3):  # a place is 1 / the reciprocal rank
        hits = np.mean([value >= 1 / most - 1e-9 for value in wanted])
        assert found[f"hit_at_{most}"] == pytest.approx(hits, abs=1e-12)


def test_several_right_rows_count_by_the_first_in_the_worst_order_of_ties():
    """Two right rows alone in front are in front, whichever of them comes first."""
    one_group = np.zeros(4, int)
    places = {
        (3, 3, 1, 0): (1, 1, 0, 0),  # no wrong row ties with them
        (3, 3, 3, 0): (1, 1, 0, 0),  # a wrong one does: it comes first
        (0, 1, 2, 2): (1, 1, 0, 0),  # two wrong ones are better
    }
    for (scores, truth), place in zip(places.items(), (1, 2, 3), strict=True):
        found = ranking.scores(one_group, np.array(scores), truth=np.array(truth))
        assert found["mrr"] == 1 / place
        assert (found["hit_at_1"], found["hit_at_3"]) == (place == 1, place <= 3)


def test_a_random_order_has_the_mean_over_all_orders():
    """Of groups of 5 rows, 2 of them right, and of 4 with 1; a third has none."""
    numbers = np.array([0] * 5 + [1] * 4 + [2] * 3)
    truth = np.array([1, 1, 0, 0, 0] + [1, 0, 0, 0] + [0, 0, 0])
    found = ranking.random_scores(numbers, truth)
    kinds = []
    for own in ([1, 1, 0, 0, 0], [1, 0, 0, 0]):
        group = np.zeros(len(own), int)
        orders = itertools.permutations(range(len(own)))
        each = [
            ranking.scores(group, np.array(order, float), truth=np.array(own))
            for order in orders
        ]
        kinds.append({name: np.mean([one[name] for one in each]) for name in each[0]})
    for name, value in found.items():
        assert value == pytest.approx(np.mean([kind[name] for kind in kinds])), name


def test_a_random_order_of_many_rows():
    """One of 20,000 rows has each rank alike; of half of them one is in front soon."""
    groups = np.zeros(20_000, int)
    found = ranking.random_scores(groups, np.arange(20_000) == 0)
    wanted = np.mean(1 / np.arange(1, 20_001))
    assert found["mrr"] == pytest.approx(wanted) and found["hit_at_3"] == pytest.approx(
        3 / 20_000
    )
    found = ranking.random_scores(groups, np.arange(20_000) % 2)
    wanted = [math.log(2), 0.5, 0.875]  # almost sum(0.5**k / k), 1 - 0.5**3
    actual = [found[name] for name in ("mrr", "hit_at_1", "hit_at_3")]
    assert actual == pytest.approx(wanted, abs=1e-4)


def test_the_order_of_the_rows_and_rounding_change_no_digit():
    numbers, scores, truth = drawn(5, right=None)
    numbers[::7] = -1
    wanted = ranking.scores(numbers, scores, truth=truth)
    rng = np.random.default_rng(1)
    for _ in range(20):
        order = rng.permutation(len(numbers))
        names = rng.permutation(60)  # of the groups: another one comes first
        own = np.where(numbers < 0, -1, names[numbers])
        noise = rng.uniform(-2e-6, 2e-6, len(numbers))
        again = own[order], (scores + noise)[order]
        assert ranking.scores(*again, truth=truth[order]) == wanted


def test_groups_of_one_kind_are_left_out_and_counted():
    numbers = np.array([0, 0, 1, 1, 2, -1, 3, 3])
    truth = np.array([1, 0, 1, 1, 0, 1, 0, 0])
    scores = np.array([0.0, 1, 2, 3, 4, 5, 6, 7])
    assert ranking.scores(numbers, scores, truth=truth)["mrr"] == 0.5
    text = ranking.describe_scored_groups(numbers, truth)
    assert text == "groups scored: 1; left out, with rows of one label: 3"
    assert ranking.described(numbers) == "4 groups of 1 to 2 rows; rows in no group: 1"
    assert ranking.described(numbers[:2]) == "1 group of 2 rows"
    assert ranking.described(numbers[:4]) == "2 groups of 2 rows"
    assert ranking.described(numbers[4:5] * 0) == "1 group of 1 row"
    for none in (numbers[2:], np.full(8, -1), numbers[:0]):
        own = truth[: len(none)] * 0
        assert ranking.scores(none, scores[: len(none)], truth=own) == {}
        assert "scored: 0;" in ranking.describe_scored_groups(none, own)
    assert ranking.scores(None, scores, truth=truth) == {}
    assert ranking.described(np.full(2, -1)) == "no groups; rows in no group: 2"


def test_groups_are_numbered_as_they_come():
    rows = Ragged.from_rows([[1]] * 4)
    features = Features({"input_ids": rows}, {}, np.arange(4))
    assert ranking.groups_of(features) is None
    unread = ranking.with_groups(features, ["b", None, "a", "b"])
    found = Features({"input_ids": rows}, {}, np.arange(4), unread=unread)
    assert ranking.groups_of(found).tolist() == [0, -1, 1, 0]
    assert ranking.are_groups(np.array([-1, 0]))
    assert not ranking.are_groups(np.array([-1, -1]))


AD = "很美，“““。他说“好”。"


def test_a_slot_gives_a_line_with_its_phrases_best_first():
    ads = [
        ("显瘦", AD),
        ("很薄", "很美，““。"),
        ("百搭吗", AD),
        ("舒服", "无"),
        ("a", AD),
    ]
    examples = [
        Example("", phrase, ad, line=line) for line, (phrase, ad) in enumerate(ads, 1)
    ]
    lines = rewrites.lines(
        examples,
        np.array([0, 1, 0, -1, 0]),
        np.array([0.5, 9, 2 + 1e-7, 9, 2]),
        probabilities=np.array([0.6, 0.9, 0.81234567, 0.9, 0.8123456]),
        has_slots=True,
    )
    first, second = map(json.loads, lines)
    assert first["ad"] == "很美，“。他说“好”。" and second["ad"] == "很美，“。"
    start, end = first["slot"]
    assert first["ad"][start:end] == "“" and start == 3
    # 百搭吗 and a tie: by their texts.
    assert [c["phrase"] for c in first["candidates"]] == ["a", "百搭吗", "显瘦"]
    assert [c["line"] for c in first["candidates"]] == [5, 3, 1]
    assert first["candidates"][1] == {
        "phrase": "百搭吗",
        "text": "很美，百搭吗。他说“好”。",
        "probability": 0.812346,
        "line": 3,
    }
    assert len(second["candidates"]) == 1


def test_probabilities_never_rise_even_where_rows_tie():
    """Those of a model that has learnt little differ by less than rounding."""
    examples = [Example("", text, line=1, group="q") for text in "abc"]
    (line,) = rewrites.lines(
        examples,
        np.zeros(3, int),
        np.array([0, 6e-6, 4e-6]),
        probabilities=np.array([0.5, 0.5000015, 0.500001]),
        has_slots=False,
    )
    found = [row["text_a"] for row in json.loads(line)["candidates"]]
    assert found == ["b", "c", "a"]


def test_a_group_gives_a_line_with_its_rows():
    examples = [
        Example("", "x", line=2, group="q"),
        Example("", "y", "z", line=3, group="q"),
    ]
    (line,) = rewrites.lines(
        examples,
        np.array([0, 0]),
        np.array([0.0, 1.0]),
        probabilities=np.array([0.5, 0.75]),
        has_slots=False,
    )
    assert json.loads(line) == {
        "group": "q",
        "candidates": [
            {"text_a": "y", "text_b": "z", "probability": 0.75, "line": 3},
            {"text_a": "x", "probability": 0.5, "line": 2},
        ],
    }
