"""Pieces of words that are written: each goes on with a word, or is masked with it."""

import numpy as np
import pytest

from bert_mgpu.core.rows import Ragged
from bert_mgpu.tasks.rewriting.drafts import Draft
from bert_mgpu.tasks.rewriting.filling import DraftText, Filler, Vocabulary
from bert_mgpu.tasks.rewriting.rows import special_of
from tests.support.rewriting import LENGTH
from tests.support.tiny import VOCAB

MASK = VOCAB.index("[MASK]")


@pytest.fixture
def eager(tokenizer):
    """eager(text, draft) -> (Filled, the number of masks in each round).

    Of a model that finds ##s the best everywhere, and win the best of whole words.
    """

    def fill(text, draft):
        masks = []

        def forward(rows):
            ids = rows.ragged["input_ids"]
            masks.append(int((ids.values == MASK).sum()))
            words = [[VOCAB.index("##s"), VOCAB.index("win")]] * len(ids.values)
            scores = [[-0.1, -5.0]] * len(ids.values)
            return {
                "words": Ragged(np.array(words), ids.offsets),
                "word_scores": Ragged(np.array(scores), ids.offsets),
            }

        special, words = special_of(tokenizer), Vocabulary(VOCAB)
        filler = Filler(forward, words, special, max_length=LENGTH, rounds=2)
        (found,) = filler.fill([text], [draft])
        return " ".join(VOCAB[token] for token in found.written), masks

    return fill


@pytest.mark.parametrize(
    ("before", "written"),
    [("sun", "##s"), ("##s", "##s"), ("好", "win"), ("，", "win"), (".", "win"),
     (None, "win")],
)  # fmt: skip
def test_a_piece_goes_on_with_a_word(eager, before, written):
    source = [VOCAB.index(before)] if before else []
    draft = Draft([True] * len(source), [*[0] * len(source), 1], 0.0)
    assert eager(DraftText(source, None), draft) == (written, [1])


def test_the_least_certain_words_are_written_anew(tokenizer):
    """Of four words in four rounds: all, three, two, one."""
    seen, scores = [], np.array([-3.0, -1.0, -4.0, -2.0])

    def forward(rows):
        ids = rows.ragged["input_ids"]
        places = np.flatnonzero(ids.values == MASK)
        first = ids.values.tolist().index(VOCAB.index("sun")) + 1
        seen.append((places - first).tolist())
        words = np.full((len(ids.values), 2), VOCAB.index("win"))
        own = np.zeros(words.shape)
        own[places] = scores[seen[-1], None]
        found = {"words": words, "word_scores": own}
        return {name: Ragged(value, ids.offsets) for name, value in found.items()}

    special, words = special_of(tokenizer), Vocabulary(VOCAB)
    filler = Filler(forward, words, special, max_length=LENGTH, rounds=4)
    draft = Draft([True], [0, 4], 0.0)
    filler.fill([DraftText([VOCAB.index("sun")], None)], [draft])
    assert seen == [[0, 1, 2, 3], [0, 2, 3], [0, 2], [2]]


def test_the_word_before_a_slot_stays_as_it_is(eager):
    """Only within a slot does a piece go on with a word."""
    source = [VOCAB.index("sun"), VOCAB.index("joy")]
    draft = Draft([True, True], [0, 2, 1], 0.0)
    text = DraftText(source, None, has_slots=True)
    assert eager(text, draft)[0] == "win ##s win"
    assert eager(text._replace(has_slots=False), draft)[0] == "##s ##s ##s"


def test_a_piece_behind_what_is_deleted(eager):
    """What stands before it is what comes out there."""
    source = [VOCAB.index("好"), VOCAB.index("sun")]
    draft = Draft([True, False], [0, 0, 1], 0.0)
    assert eager(DraftText(source, None), draft)[0] == "win"


def test_a_word_is_masked_again_with_its_pieces(eager):
    """The word is the less certain one: alone, where a kept token parts the two."""
    assert eager(DraftText([], None), Draft([], [2], 0.0)) == ("win ##s", [2, 2])
    sun = DraftText([VOCAB.index("sun")], None)
    assert eager(sun, Draft([True], [1, 1], 0.0)) == ("win ##s", [2, 1])
    assert eager(sun, Draft([False], [1, 1], 0.0)) == ("win ##s", [2, 2])
