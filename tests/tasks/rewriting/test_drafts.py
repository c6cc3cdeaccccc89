"""The best drafts, beside all that there are."""

import itertools

import numpy as np
import pytest

from bert_mgpu.tasks.rewriting import drafts

RNG = np.random.default_rng(4)


def enumerated(scores, most):
    """The highest sums of one value a place, by trying all."""
    sums = [
        (sum(scores[place, tag] for place, tag in enumerate(tags)), tags)
        for tags in itertools.product(range(scores.shape[1]), repeat=len(scores))
    ]
    return sorted((s for s in sums if np.isfinite(s[0])), key=lambda s: -s[0])[:most]


@pytest.mark.parametrize("most", [1, 2, 5, 40])
@pytest.mark.parametrize("places", [1, 3, 6])
def test_the_best_of_all(places, most):
    for drawn in range(12):
        scores = RNG.normal(0, 2, (places, 3))
        if drawn % 3 == 0:
            scores = scores.round()  # equal sums
        if drawn % 4 == 1:
            scores[RNG.random(scores.shape) < 0.3] = -np.inf
            scores[:, 0] = np.maximum(scores[:, 0], -9.0)
        found, wanted = drafts.best(scores, most), enumerated(scores, most)
        np.testing.assert_allclose([s for _, s in found], [s for s, _ in wanted])
        for tags, score in found:
            assert score == pytest.approx(sum(scores[range(places), tags]))
        assert len({tuple(tags.tolist()) for tags, _ in found}) == len(found)


def made(scores, slots=None, size=None, most=1, keep_bias=0.0):
    size = len(scores) - 1 if size is None else size
    return drafts.drafts_of(
        scores, slots, size=size, most=most, max_insert=2, keep_bias=keep_bias
    )


def scores_of(*tags):
    """log p where each place has one tag for sure, of 2 x 3, nearly."""
    found = np.full((len(tags), 6), -20.0)
    found[range(len(tags)), tags] = -0.1
    return found


def test_the_end_is_never_deleted():
    (draft,) = made(scores_of(0, 5))  # the end: deleted, two before it
    assert draft == drafts.Draft([True], [0, 0], -20.1)
    (draft,) = made(scores_of(5, 1))
    assert (draft.keeps, draft.counts) == ([False], [2, 1])


def test_an_end_that_is_not_in_the_row_is_kept():
    """All of its places are tokens."""
    (draft,) = made(scores_of(3, 5), size=2)
    assert (draft.keeps, draft.counts) == ([False, False], [0, 2, 0])


def test_the_bias_keeps_places_as_they_are():
    scores = scores_of(3, 1, 0)
    assert made(scores, keep_bias=19.0)[0].counts == [0, 1, 0]
    (draft,) = made(scores, keep_bias=20.0)
    assert draft.keeps == [True, True] and draft.counts == [0, 0, 0]
    assert draft.bias == 3 * 20.0 and draft.score == pytest.approx(60 - 40.1)


def test_slots_are_written_in_and_nothing_else():
    scores = scores_of(3, 0, 1)  # would delete the first token, and write at the end
    found = made(scores, slots=[1], most=5, keep_bias=9.0)
    assert [draft.counts for draft in found] == [[0, 1, 0], [0, 2, 0]]
    assert all(draft.keeps == [True, True] for draft in found)
    assert [draft.score for draft in found] == [scores[1, 1], scores[1, 2]]
