"""From tags to rewritings, beside calls for a single draft at a time."""

import numpy as np
import pytest

from bert_mgpu.config.rewriting import RewriteChoice
from bert_mgpu.core.rows import Ragged
from bert_mgpu.tasks.rewriting import decoding
from bert_mgpu.tasks.rewriting.blocks import REWRITINGS
from bert_mgpu.tasks.rewriting.drafts import drafts_of
from bert_mgpu.tasks.rewriting.filling import (
    LOSSES,
    WORD_SCORES,
    WORDS,
    Filler,
    Vocabulary,
)
from bert_mgpu.tasks.rewriting.rows import special_of
from tests.support.rewriting import LENGTH, MOST, forward_of, rewriting, weights
from tests.support.tiny import VOCAB

PAIRS = [
    (None, "sun loss joy", "the win"),
    (None, "sun [SLOT] joy [SLOT]", "the win"),
    (None, "", ""),
    ("win joy", "the joy", None),  # has a row of masks, too
    (None, "rain [SLOT]", None),
]


def decoder_of(forward, tokenizer, **choice):
    return decoding.Decoder(
        forward,
        tokenizer,
        Vocabulary(VOCAB),
        choice=RewriteChoice(**choice),
        max_length=LENGTH,
        max_insert=MOST,
    )


def test_what_the_rows_hold(rows_of):
    _, rows = rows_of(*PAIRS, (None, "sun " * 30, "joy"))
    ids = rows.ragged["input_ids"]
    scores = Ragged(np.arange(len(ids.values))[:, None], ids.offsets)
    found = [*decoding.tagged(rows, {"tag_scores": scores}, LENGTH)]
    words = [[VOCAB[token] for token in each.text.source] for each in found]
    assert words == [
        ["sun", "loss", "joy"],
        ["sun", "joy"],
        [],
        ["the", "joy"],
        ["rain"],
        ["sun"] * (LENGTH - 3),
    ]
    contexts = [each.text.context for each in found]
    win = [VOCAB.index("the"), VOCAB.index("win")]
    assert contexts == [win, win, [], None, None, []]
    assert [each.slots for each in found] == [None, [1, 2], None, None, [1], None]
    for each in found:
        assert each.text.has_slots == (each.slots is not None)
    # Behind [CLS] and the context; the end is decided where it is in the row.
    places = [each.scores[:, 0].tolist() for each in found]
    starts = [ids.offsets[row] for row in (0, 1, 2, 3, 5, 6)]
    wanted = [(4, 4), (4, 3), (2, 1), (1, 3), (1, 2), (2, LENGTH - 3)]
    assert places == [
        [*range(start + first, start + first + size)]
        for start, (first, size) in zip(starts, wanted, strict=True)
    ]


def test_a_text_whose_slots_have_no_room_is_kept(rows_of, tokenizer):
    """What is not asked for is changed there as little as in others with slots."""
    _, rows = rows_of((None, f"{'sun ' * 30}[SLOT]", "joy"))
    assert rows.unread["slots"].row(0).tolist() == [30]
    ids = rows.ragged["input_ids"]
    scores = Ragged(np.log([[0.01, *[0.99 / 7] * 7]] * LENGTH), ids.offsets)
    (found,) = decoding.tagged(rows, {"tag_scores": scores}, LENGTH)
    assert found.slots == []
    decoder = decoder_of(lambda _: {}, tokenizer)
    ((only,),) = decoder.rewritings(rows, {"tag_scores": scores})
    assert (only.keeps, only.written) == ([True] * (LENGTH - 3), [])


@pytest.mark.parametrize("choice", ["keep", "edit", None])
def test_a_text_without_slots_is_kept_if_that_was_never_learnt(
    rows_of, tokenizer, choice
):
    _, rows = rows_of((None, "sun joy rain", "joy"))
    ids = rows.ragged["input_ids"]
    tags = [0.01, *[0.99 / 7] * 7]
    scores = Ragged(np.log([tags] * len(ids.values)), ids.offsets)

    def write(rows):  # the same word at every mask
        size = len(rows.ragged["input_ids"].values)
        outputs = {"words": np.full((size, 2), VOCAB.index("win"))}
        outputs |= {"word_scores": np.zeros((size, 2)), "word_losses": np.zeros(size)}
        offsets = rows.ragged["input_ids"].offsets
        return {name: Ragged(values, offsets) for name, values in outputs.items()}

    decoder = decoder_of(write, tokenizer, without_slots=choice)
    ((best, *others),) = decoder.rewritings(rows, {"tag_scores": scores})
    is_kept = (best.keeps, best.written) == ([True] * 3, [])
    assert is_kept == (choice == "keep") and not others


@pytest.mark.parametrize("given", [None, 3])
def test_drafts_of_all_texts_together(rows_of, tokenizer, given):
    """As one by one, whatever the texts beside them."""
    task = rewriting(tokenizer)
    forward = forward_of(task, weights(task))
    _, rows = rows_of(*PAIRS)
    outputs = forward(rows)
    choice = {"fill_rounds": 2, "num_candidates": given, "keep_bias": 0.5}
    decoder = decoder_of(forward, tokenizer, **choice)
    found = decoder.rewritings(rows, outputs)
    filler = Filler(
        forward, Vocabulary(VOCAB), special_of(tokenizer), max_length=LENGTH, rounds=2
    )
    counts = []
    for own, each in zip(found, decoding.tagged(rows, outputs, LENGTH), strict=True):
        wanted = []
        drafts = drafts_of(
            each.scores,
            each.slots,
            size=len(each.text.source),
            most=given or (5 if each.slots else 1),
            max_insert=MOST,
            keep_bias=0.5,
        )
        for draft in drafts:
            (filled,) = filler.fill([each.text], [draft])
            (mean,) = filler.log_probabilities([each.text], [filled])
            score = draft.score + mean * (len(drafts) > 1)
            # Ordered with the bias, shown without.
            kept = 0
            if not each.slots:
                pairs = zip([*draft.keeps, True], draft.counts, strict=True)
                kept = sum(keep and not count for keep, count in pairs)
            shown = score - 0.5 * kept
            wanted.append((-score, shown, draft.keeps, draft.counts, filled))
        wanted.sort(key=lambda one: one[0])
        counts.append(len(own))
        assert len(own) == len(wanted)
        for one, (_, score, keeps, written_counts, filled) in zip(
            own, wanted, strict=True
        ):
            assert (one.keeps, one.counts) == (keeps, written_counts)
            assert (one.written, one.rounds) == (filled.written, filled.rounds)
            assert one.score == pytest.approx(score, abs=1e-4)
    # One slot has three lengths of what is written in it.
    assert counts == ([1, 5, 1, 1, 3] if given is None else [3] * 5)


def test_a_slot_without_room_keeps_its_marker(rows_of, tokenizer):
    """The end of the text is in the tagged row, but no token more."""
    task = rewriting(tokenizer)
    forward = forward_of(task, weights(task))
    sun = "sun " * (LENGTH - 2)
    pairs = [(None, f"{sun}[SLOT]", None), (None, f"[SLOT] {sun}[SLOT]", None)]
    examples, rows = rows_of(*pairs)
    assert rows.notes["rewriting"]["lost_slots"] == 2
    outputs = task.infer(rows, forward)
    scored = task.scored_rows(outputs, rows, lambda: examples)
    assert [each.text for each in scored.candidates[0]] == [pairs[0][1]]
    for text in (each.text for each in scored.candidates[1]):
        assert text.endswith(f" {sun}[SLOT]") and not text.startswith("[SLOT]")


def test_drafts_that_differ_only_in_what_has_no_room_are_one(rows_of, tokenizer):
    """In a slot before the row's last token there is room for one token, not for 3."""
    task = rewriting(tokenizer)
    forward = forward_of(task, weights(task))
    sun = "sun " * (LENGTH - 4)
    texts = [(None, f"{sun}[SLOT] sun", None), (None, "sun [SLOT]", None)]
    examples, rows = rows_of(*texts)
    offsets = rows.ragged["input_ids"].offsets
    for size in (1, 3):  # the likeliest one is to write that many
        scores = np.full((offsets[-1], 2 * (MOST + 1)), -2.0)
        scores[:, size] = -1.0

        def outputs(rows, scores=scores):
            return forward(rows) | {"tag_scores": Ragged(scores, offsets)}

        decoder = decoder_of(forward, tokenizer)
        found = {REWRITINGS: decoder.rewritings(rows, outputs(rows))}
        assert [len(own) for own in found[REWRITINGS]] == [1, 3]
        scored = task.scored_rows(found, rows, lambda: examples)
        (only,), others = scored.candidates
        assert len(only.edits) == 1 and only.is_whole == (size == 1)
        assert len(others) == 3 and all(each.is_whole for each in others)
        remarks = task.decide(scored).remarks
        assert len(remarks) == (size == 3)
        for remark in remarks:
            assert remark.startswith("--max_seq_length has no room for some edits of 1")


def test_of_equal_ones_the_shorter_is_the_best(rows_of, tokenizer):
    """All lengths of what is written are as likely, and so are all words."""

    def forward(rows):
        ids = rows.ragged["input_ids"]
        words = np.full((len(ids.values), 2), VOCAB.index("win"))
        return {
            WORDS: Ragged(words, ids.offsets),
            WORD_SCORES: Ragged(np.zeros(words.shape), ids.offsets),
            LOSSES: Ragged(np.zeros(len(words)), ids.offsets),
        }

    _, rows = rows_of((None, "sun [SLOT]", None))
    scores = Ragged(
        np.full((3, 2 * (MOST + 1)), -1.0), rows.ragged["input_ids"].offsets
    )
    decoder = decoder_of(forward, tokenizer)
    (found,) = decoder.rewritings(rows, {"tag_scores": scores})
    assert [len(each.written) for each in found] == [1, 2, 3]
    assert {each.score for each in found} == {-1.0}
