"""What is kept of the outputs of a set, beside those of a single pass."""

import numpy as np
import pytest

from bert_mgpu.tasks.rewriting import blocks
from tests.support.rewriting import MOST, forward_of, rewriting, weights

PAIRS = [
    (None, "sun loss joy", "the win"),
    ("win joy", "the joy", None),  # has a row of masks, too
    ("sun win joy", "sun rain joy", "the win"),
    ("rain joy it", "rain [SLOT] it", None),
    ("joy", "joy", None),
    (None, "sun [SLOT] joy", "the win"),
    ("win win sun", "sun of the", ""),
]


SLOTTED = (5, 8)  # the rows of tags of those with slots


@pytest.fixture
def passes(rows_of, tokenizer):
    """passes(pairs) -> task, rows, forward, what each of its calls got and gave.

    deletes: added to the logit of deleting a token.
    """

    def make(pairs, deletes=0.0):
        task, seen = rewriting(tokenizer, fill_rounds=2, num_candidates=2), []
        params = weights(task)
        bias = np.arange(2 * (MOST + 1)) == MOST + 1
        params["output_bias"] = params["output_bias"] + (deletes * bias).astype("f")
        forward = forward_of(task, params)

        def watched(rows):
            seen.append((rows, forward(rows)))
            return seen[-1][1]

        return task, rows_of(*pairs)[1], watched, seen

    return make


def test_blocks_find_what_a_pass_over_all_finds(passes, monkeypatch):
    """And each pass has a few texts of them: their tags, or rows to fill."""
    task, rows, forward, seen = passes(PAIRS)
    whole = task.infer(rows, forward)
    count = len(seen)
    monkeypatch.setattr(blocks, "_BLOCK", 3)
    found = task.infer(rows, forward)
    assert len(found["rewritings"]) == len(PAIRS)
    for own, other in zip(found["rewritings"], whole["rewritings"], strict=True):
        assert [one._replace(score=0) for one in own] == [
            one._replace(score=0) for one in other
        ]
        scores = [[one.score for one in each] for each in (own, other)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    places, *losses = found["known"]
    wanted, *wanted_losses = whole["known"]
    for own, other in zip([*places, *losses], [*wanted, *wanted_losses], strict=True):
        np.testing.assert_allclose(own, other, atol=1e-5)
    tagged = [given for given, made in seen[count:] if "tag_scores" in made]
    assert [len(given.first_rows) for given in tagged] == [3, 3, 1]
    assert len(seen) - count > 3


def test_losses_are_those_of_all_outputs(passes):
    """By a plain loop over tokens, most of which are likely to be deleted."""
    task, rows, forward, seen = passes(PAIRS, deletes=9.0)
    places, tag_losses, word_losses = task.infer(rows, forward)["known"]
    outputs = seen[0][1]
    tags, words, leads, changes = [], [], [], []
    for row in range(len(rows)):
        scores = outputs["tag_scores"].row(row)
        for token, tag in enumerate(rows.ragged["tag_ids"].row(row)):
            if tag:
                tags.append(-scores[token][tag - 1])
            if tag and row not in SLOTTED:
                kept = MOST + 1 if token == len(scores) - 1 else None  # the end
                leads.append(max(scores[token][1:kept]) - scores[token][0])
                changes.append(tag > 1)
        losses = outputs["word_losses"].row(row)
        masks = rows.targets["masked_lm_positions"].row(row)
        words += [losses[mask] for mask in masks]
    assert len(tags) > 10 and len(words) == 5
    np.testing.assert_allclose(tag_losses, tags)
    np.testing.assert_allclose(places.leads, leads, rtol=1e-5)
    assert len(leads) < len(tags) and places.is_change.tolist() == changes
    np.testing.assert_allclose(word_losses, words)


def test_fills_have_no_scores_of_tags(passes):
    """They are most of a pass's outputs, and nobody reads them there."""
    task, rows, forward, seen = passes(PAIRS)
    task.infer(rows, forward)
    assert len(seen) > 2
    assert ["tag_scores" in made for _, made in seen] == [True] + [False] * (
        len(seen) - 1
    )


def test_a_set_without_texts(passes):
    task, rows, forward, seen = passes([])
    found = task.infer(rows, forward)
    assert found["rewritings"] == seen == []
    places, *losses = found["known"]
    assert {len(values) for values in (*places, *losses)} == {0}
