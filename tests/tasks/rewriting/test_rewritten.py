"""A set of rewritten texts, its losses and scores."""

import numpy as np
import pytest

from bert_mgpu.tasks.rewriting import metrics, report
from bert_mgpu.tasks.rewriting.decoding import TokenRewriting
from bert_mgpu.text.realise import TextEdit
from tests.support.rewriting import rewriting
from tests.support.tiny import VOCAB

SUN, WIN, JOY = map(VOCAB.index, ("sun", "win", "joy"))
KEPT = TokenRewriting([True, True], [0, 0, 0], [], score=-0.1, rounds=0)
CHANGED = TokenRewriting([True, False], [0, 1, 0], [WIN], score=-0.5, rounds=1)
SAME = CHANGED._replace(score=-0.7, rounds=2)
PAIRS = [("sun win", "sun loss", None), ("sun joy", "sun joy", None)]


def test_candidates_are_texts(rewritten):
    """Of equal texts the first, which is the best one."""
    found = rewritten(PAIRS, [[CHANGED, KEPT, SAME], [KEPT]])
    assert len(found) == 2
    first, second = found.candidates
    assert [(c.text, c.score, c.rounds) for c in first] == [
        ("sun win", -0.5, 1),
        ("sun loss", -0.1, 0),
    ]
    assert [tuple(edit) for edit in first[0].edits] == [(4, 8, "loss", "win")]
    assert first[1].edits == [] and [c.text for c in second] == ["sun joy"]
    assert found.texts == ["sun win", "sun joy"] == found.pairs.targets


def test_words_are_spelled_as_the_context_has_them(rewritten):
    pairs = [("", "sun loss", "a WIN"), ("", "sun loss", "a win")]
    found = rewritten(pairs, [[CHANGED], [CHANGED]])
    assert found.texts == ["sun WIN", "sun win"]


def test_slots_stand_for_no_text(rewritten):
    own = TokenRewriting([True], [0, 2], [WIN, JOY], score=0.0, rounds=1)
    assert rewritten([("", "sun [SLOT]", None)], [[own]]).texts == ["sun win joy"]


def test_what_is_rightly_written_in_a_slot_counts(rewritten):
    """Also where the pair is that of another edit: sun, here before the first one."""
    pair = ("sun sun joy", "sun [SLOT] joy", None)
    own = TokenRewriting([True, True], [0, 1, 0], [SUN], score=0.0, rounds=1)
    scores = rewritten([pair], [[own]]).scores.values
    assert scores["edit_precision"] == scores["edit_recall"] == 100.0


@pytest.mark.parametrize(
    ("source", "target", "keeps", "counts", "written"),
    [
        ("sun sun joy", "sun joy", [True, False, True], [0] * 4, []),
        ("sun joy", "sun joy", [True, False], [0, 1, 0], [JOY]),
        ("sun joy", "sun win joy", [True, False], [0, 2, 0], [WIN, JOY]),
        # Beyond what a row has room for, the text stays.
        ("sun sun joy joy", "sun joy joy", [True, False, True], [0] * 4, []),
        ("sun loss joy", "sun win loss joy", [True], [0, 1], [WIN]),
    ],
)
def test_edits_are_right_that_make_the_target(
    rewritten, source, target, keeps, counts, written
):
    """Whichever script made it: of two equal tokens, either may be deleted."""
    own = TokenRewriting(keeps, counts, written, score=0.0, rounds=1)
    values = rewritten([(target, source, None)], [[own]]).scores.values
    wanted = 100.0 if source != target else 0.0
    assert values["exact_match"] == 100.0
    assert values["edit_precision"] == values["edit_recall"] == wanted


def test_a_slot_marker_is_no_word_of_a_text(rewritten):
    """Neither for the scores of copying nor for the worst texts."""
    own = TokenRewriting([True], [1, 0], [WIN], score=0.0, rounds=1)
    pair = ("joy sun", "[SLOT] sun", None)
    outputs = {"tag_scores": np.zeros((7, 8)), "word_losses": np.zeros(7)}
    scored = rewritten([pair], [[own]], **outputs)
    wanted = metrics.text_sari("sun", "sun", "joy sun")
    assert scored.pairs.copying.values["sari"] == pytest.approx(wanted)
    (worst,) = report.of_set(scored, keep_bias=0.0).mistakes.worst_first
    assert [*worst.cells][0] == f"{metrics.text_sari('sun', 'win sun', 'joy sun'):.1f}"


def test_edits_beside_a_slot_are_true_ones(rewritten):
    """A target that differs elsewhere, too, has all edits of the pair."""
    own = TokenRewriting([True, False], [0, 1, 0], [WIN], score=0.0, rounds=1)
    pair = ("sun win", "sun [SLOT] joy", None)
    assert rewritten([pair], [[own]]).scores.values["edit_recall"] == 100.0


@pytest.fixture
def scored(rewritten):
    """Four rows: tags [CLS] sun loss [SEP], masks [CLS] sun [MASK] loss [SEP], ..."""
    tags = np.log(np.full((13, 8), 1 / 8))
    tags[2] = np.log([0.5, 0.25, *[0.25 / 6] * 6])
    losses = np.arange(13.0)
    return rewritten(PAIRS, [[CHANGED], [KEPT]], tag_scores=tags, word_losses=losses)


def test_losses_are_of_what_is_known(scored):
    """A keep tag is 0; loss is deleted and one word written before it: 4 + 1."""
    places, tag_losses, word_losses = scored.known
    assert places.is_change.tolist() == [False, True, *[False] * 4]
    wanted = -np.log([1 / 8, 0.25 / 6, *[1 / 8] * 4])
    np.testing.assert_allclose(tag_losses, wanted)
    np.testing.assert_allclose(places.leads, [0, -np.log(2), *[0] * 4], atol=1e-12)
    assert word_losses.tolist() == [4 + 2]  # of the mask alone


def test_scores_are_those_of_the_losses_and_texts(scored, tokenizer):
    task = rewriting(tokenizer)
    found = task.scores(scored)
    assert found["tag_loss"] == pytest.approx(scored.known.tag_losses.mean())
    assert found["masked_lm_loss"] == 6.0
    assert found["eval_loss"] == found["tag_loss"] + found["masked_lm_loss"]
    assert found["exact_match"] == 100.0 and {*metrics.NAMES} <= {*found}
    assert {*task.metrics(scored.rows)} == {*found}
    first, copied, curve = task.summary(scored, found)
    assert first.startswith("eval_loss") and "--keep_bias" in curve
    assert copied.startswith("copying: exact_match 50.0000")


def test_a_set_without_targets_has_losses_of_0(rewritten, tokenizer):
    found = rewritten([(None, "sun", None)], [[]], tag_scores=np.zeros((3, 8)),
                      word_losses=np.zeros(3))  # fmt: skip
    assert [len(losses) for losses in found.known[1:]] == [0, 0]


def test_what_a_report_shows(scored):
    found = report.of_set(scored, keep_bias=0.5)
    _, _, drawn = found.blocks
    assert drawn.chosen == 0.5 and {*drawn.scores} == {"precision", "recall", "F0.5"}
    assert found.mistakes.worst_first == []


def test_the_worst_texts_have_their_edits(rewritten):
    outputs = {"tag_scores": np.zeros((7, 8)), "word_losses": np.zeros(7)}
    scored = rewritten([("joy win", "sun loss", None)], [[CHANGED]], **outputs)
    (worst,) = report.of_set(scored, keep_bias=0.0).mistakes.worst_first
    _, true, said = worst.cells
    assert said == "sun [-loss-]{+win+}" and "{+" in true and "[-" in true
    assert worst.number == 0 and worst.truth == "joy win"


def test_a_long_text_is_shown_from_before_its_first_edit(rewritten):
    text = f"{'sun ' * 300}loss{' joy' * 300}"
    target = text.replace("loss", "win")
    kept = TokenRewriting([True] * 601, [0] * 602, [], score=0.0, rounds=0)
    scored = rewritten([(target, text, None)], [[kept]])
    (worst,) = report._mistakes(scored).worst_first
    _, true, said = worst.cells
    assert true.startswith("... sun sun") and "[-loss-]{+win+} joy" in true
    assert true.endswith(" ...") and len(true) == 308
    assert said.startswith("sun sun") and said.endswith(" ...")  # without an edit


def test_marks_of_edits():
    edits = [TextEdit(0, 1, "a", "X"), TextEdit(2, 2, "", "Y"), TextEdit(3, 4, "d", "")]
    assert report.marked("abcde", edits) == "[-a-]{+X+}b{+Y+}c[-d-]e"
