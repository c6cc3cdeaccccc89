"""The rows of pairs of texts: tags, masks, and what is counted."""

import pathlib

import numpy as np
import pytest

from bert_mgpu.core.rows import Example
from bert_mgpu.data import cache
from bert_mgpu.tasks import data_checks
from bert_mgpu.tasks.rewriting import dataset, metrics, pair_checks
from bert_mgpu.tasks.rewriting.rewritten import TruePairs
from bert_mgpu.text.edits import Edits
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.tiny import SPECIAL, VOCAB

MOST = 2  # tokens at a place
KEEP, DELETE = 1, MOST + 2  # ids of tags without anything before them


@pytest.fixture
def featurise(tokenizer):
    def make(*pairs, length=16):
        examples = [
            Example(f"x-{line}", *texts, label=label, line=line + 1)
            for line, (label, *texts) in enumerate(pairs)
        ]
        return dataset.featurise(
            examples,
            tokenizer,
            max_seq_length=length,
            max_insert=MOST,
            slot_marker="[SLOT]",
        )

    return make


def shown(features, row):
    """The tokens of a row, with those that come out in capitals."""
    ids, segments = features.ragged["input_ids"], features.ragged["segment_ids"]
    pairs = zip(ids.row(row), segments.row(row), strict=True)
    return " ".join(
        VOCAB[token].upper() if comes_out else VOCAB[token].lower()
        for token, comes_out in pairs
    )


@pytest.mark.parametrize("after", ["は", "！", ""])
def test_a_slot_may_part_what_has_no_spaces(tmp_path, after):
    """The target is read as the text is, of which the slot makes two words."""
    words = [
        *SPECIAL,
        *["こ", "##の", "カ", "##メ", "##ラ", "は", "##カ", "##は", "！"],
    ]
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    text, target, tokenizer = (
        f"この[SLOT]{after}",
        f"このカメラ{after}",
        Tokenizer(path),
    )
    example = Example("x", text, None, label=target, line=1)
    made = dataset.featurise(
        [example], tokenizer, max_seq_length=16, max_insert=3, slot_marker="[SLOT]"
    )
    assert made.notes["rewriting"]["misplaced"] == 0
    camera = made.targets["masked_lm_ids"].row(1).tolist()
    assert [words[one] for one in camera] == ["カ", "##メ", "##ラ"]
    pairs = TruePairs([example], tokenizer, "[SLOT]")
    size = 2 + len(after)
    counts = [0, 0, 3, *[0] * len(after)]
    found = pairs.edits_of([Edits([True] * size, counts, camera)])
    scores = pairs.scores([target], found).values
    assert scores["edit_precision"] == scores["edit_recall"] == 100.0


def test_a_pair_has_a_row_of_tags_and_a_row_of_masks(featurise):
    features = featurise(("sun win joy", "sun rain joy", "the win"))
    assert len(features) == 2 and features.owners.tolist() == [0, 0]
    assert shown(features, 0) == "[cls] the win [sep] SUN RAIN JOY [SEP]"
    assert shown(features, 1) == "[cls] the win [sep] SUN [MASK] rain JOY [SEP]"
    tags = features.ragged["tag_ids"]
    assert tags.row(0).tolist() == [0] * 4 + [KEEP, DELETE + 1, KEEP, KEEP]
    assert not tags.row(1).any()
    targets = features.targets
    assert targets["masked_lm_positions"].row(0).tolist() == []
    assert targets["masked_lm_positions"].row(1).tolist() == [5]
    assert targets["masked_lm_ids"].row(1).tolist() == [VOCAB.index("win")]
    facts = features.notes["rewriting"]
    assert facts["written"] == facts["in_row"] == 1 and facts["kept"] == 2


def test_texts_that_come_twice_have_one_key(featurise):
    rows = [("joy", "sun", "the"), ("win", "sun ", "the"), ("joy", "sun", "a")]
    features = featurise(*rows)
    one, two, other = features.keys[features.first_rows]
    assert one == two != other and len(features.keys) == len(features)


def test_what_is_only_predicted_has_a_row_without_tags(featurise):
    features = featurise((None, "sun rain", None), ("sun", "sun", None))
    assert features.owners is None
    assert len(features) == 2 and shown(features, 0) == "[cls] SUN RAIN [SEP]"
    assert not features.ragged["tag_ids"].row(0).any()
    assert features.ragged["tag_ids"].row(1).tolist() == [0, KEEP, KEEP]
    assert features.notes["rewriting"]["pairs"] == 1


def test_slots_alone_are_learnt_where_there_are_any(featurise):
    features = featurise(("sun the win joy", "sun [SLOT] joy", None))
    assert shown(features, 0) == "[cls] SUN JOY [SEP]"
    assert features.ragged["tag_ids"].row(0).tolist() == [0, 0, KEEP + 2, 0]
    assert shown(features, 1) == "[cls] SUN [MASK] [MASK] JOY [SEP]"
    assert features.unread["slots"].row(0).tolist() == [1]


def test_pairs_that_tags_cannot_make_teach_nothing(featurise):
    features = featurise(
        ("sun win win win joy", "sun joy", None),  # three tokens at one place
        ("sun joy win", "sun [SLOT] joy", None),  # differs outside of its slot
        ("joy", "sun joy", None),
    )
    assert len(features) == 3
    tagged = [features.ragged["tag_ids"].row(row).any() for row in range(3)]
    assert tagged == [False, False, True]
    facts = features.notes["rewriting"]
    assert (facts["too_long"], facts["misplaced"], facts["lines"]) == (1, 1, [1, 2])
    assert facts["slot_lengths"] == {"3": 1}


def test_a_tenth_in_common_is_an_edit(featurise):
    text = "sun rain " * 5  # one of ten, and none
    pairs = ("sun " + "win " * 9, text), ("win " * 10, text)
    assert featurise(*pairs, length=32).notes["rewriting"]["unlike"] == 1


def test_what_is_counted(featurise):
    """Of pairs with a target; slots have as many tokens as there may be, at most."""
    notes = featurise(
        ("joy", "joy", "the"),
        ("sun win joy rain", "sun rain", "win"),  # joy stands in no input
        ("fear sun", "sun loss", None),
        (None, "sun", None),
    ).notes["rewriting"]
    pairs = [("joy", "joy"), ("sun rain", "sun win joy rain"), ("sun loss", "fear sun")]
    wanted = sum(metrics.text_sari(text, text, target) for text, target in pairs)
    assert notes.pop("copying") == pytest.approx(wanted) and wanted > 100
    assert notes == {
        "pairs": 3,
        "equal": 1,
        "alike": 0,
        "learnt": 3,
        "kept": 1 + 2 + 1,
        "longest": 1 + 4 + 2,
        "unlike": 0,
        "written": 3,
        "in_row": 1,
        "slot_counts": {"0": 1, "1": 2},
        "slot_lengths": {"2": 1, "1": 1},
        "too_long": 0,
        "misplaced": 0,
        "unwritable": 0,
        "free": 3,
        "lines": [],
        "lost_slots": 0,
    }


def test_texts_of_the_same_tokens_are_counted(featurise):
    """Which an uncased vocabulary does not tell apart; equal texts are others."""
    facts = featurise(
        ("Sun joy", "sun joy", None),
        ("sun joy", "sun  joy", None),
        ("sún joy", "sun joy", None),
        ("sun joy", "sun joy", None),
        ("sun joy joy", "sun joy", None),
        ("sun", "sun joy", None),
    ).notes["rewriting"]
    assert (facts["alike"], facts["equal"]) == (3, 1)


def test_texts_that_are_slots_alone_can_be_learnt(featurise):
    """Only what stands beside slots is kept, which may be nothing."""
    notes = featurise(*[("sun joy", "[SLOT]", "the win")] * 5).notes
    assert notes["rewriting"]["learnt"] == 5
    pair_checks.check(notes, pathlib.Path("train.tsv"))


def test_rows_with_masks_are_no_texts(featurise, tokenizer):
    """What `doctor data` says of lengths and unknown words is of the texts alone."""
    features = featurise(("sun joy", "sun", None), ("win", "win 了不 win", "joy"))
    assert len(features) == 3 and len(features.first_rows) == 2
    own = data_checks.CheckedSet("dev", "x", features, unknown=tokenizer.unk_id)
    assert own.text_lengths.tolist() == [1, 5]
    assert own.unknown_share == pytest.approx(1 / 6)


def test_a_slot_marker_is_no_word_of_a_copy(featurise):
    """Copying keeps all of the text, and deletes nothing that should stay."""
    facts = featurise(("win sun joy", "[SLOT] sun joy", None)).notes["rewriting"]
    assert facts["copying"] == metrics.text_sari("sun joy", "sun joy", "win sun joy")


def test_slots_without_room_are_counted(featurise):
    """16 tokens with [CLS] and [SEP]: 12 of the text, one in each slot."""
    words = ["sun"] * 40
    words.insert(2, "[SLOT]")
    for place, lost in ((12, 0), (13, 1), (38, 1)):
        texts = [*words[:place], "[SLOT]", *words[place:]]
        facts = featurise((None, " ".join(texts), None)).notes["rewriting"]
        assert facts["lost_slots"] == lost, place
    whole = [" ".join(["sun"] * size + ["[SLOT]"]) for size in (13, 14)]
    facts = featurise(*((None, text, None) for text in whole)).notes["rewriting"]
    assert facts["lost_slots"] == 1


def test_pairs_with_words_to_write_that_the_vocabulary_lacks(featurise):
    """Nothing of them is learnt: another word would be written there."""
    features = featurise(
        ("sun win zebra", "sun", None),
        ("sun zebra joy", "sun [SLOT] joy", None),
        ("sun win zebra", "sun zebra", None),  # kept, not written
        ("sun", "sun zebra", None),
    )
    assert features.owners.tolist() == [0, 1, 2, 2, 3]
    tagged = [features.ragged["tag_ids"].row(row).any() for row in (0, 1, 2, 4)]
    assert tagged == [False, False, True, True]
    assert shown(features, 3) == "[cls] SUN [MASK] [UNK] [SEP]"
    facts = features.notes["rewriting"]
    assert (facts["unwritable"], facts["lines"], facts["learnt"]) == (2, [1, 2], 2)


@pytest.mark.parametrize(
    ("target", "source", "learnt"),
    [
        ("sun Zebra win", "sun zebra joy", True),
        ("sun giraffe win", "sun zebra joy", False),
        ("rain zebra giraffe win", "zebra giraffe joy", True),
        ("rain zebra zebra win", "zebra giraffe joy", False),
    ],
)
def test_an_unknown_word_for_another_one_is_not_kept(featurise, target, source, learnt):
    """Both are [UNK]: a model would learn to leave the wrong one, such as a quote."""
    facts = featurise((target, source, None)).notes["rewriting"]
    assert (facts["learnt"], facts["unwritable"]) == (learnt, not learnt)


def test_pairs_without_slots_are_counted(featurise):
    free, slot = ("sun win", "sun", None), ("sun win", "sun [SLOT]", None)
    for pairs, number in (((slot, slot), 0), ((slot, free), 1), ((free,), 1)):
        notes = featurise(*pairs).notes
        assert notes["rewriting"]["free"] == number
        assert pair_checks.only_slots(notes) == (number == 0)
    assert not pair_checks.only_slots(featurise((None, "sun", None)).notes)


def test_a_text_that_is_cut(featurise):
    """Its end is not tagged: what comes behind is not known."""
    features = featurise(("sun win joy rain", "sun joy rain fear", "the"), length=6)
    assert shown(features, 0) == "[cls] [sep] SUN JOY RAIN [SEP]"
    assert features.ragged["tag_ids"].row(0).tolist() == [0, 0, KEEP, KEEP + 1, KEEP, 0]
    assert features.unread["whole"].row(0).tolist() == [0]
    assert (features.notes["truncated"], features.notes["rows"]) == (1, 1)
    assert len(features) == 2
    assert shown(features, 1) == "[cls] [sep] SUN [MASK] JOY [SEP]"


def test_texts_that_are_cut_are_a_share_of_all_texts(featurise):
    """Not of their rows; and --truncation, which has no part in them, is not named."""
    features = featurise(
        *[("sun win joy rain", "sun joy rain fear", "the")] * 4, length=6
    )
    assert len(features) == 8
    checked = data_checks.CheckedSet("train", "train.tsv", features, unknown=1)
    first, *_ = data_checks.warnings({"train": checked}, lambda one: iter(()))
    assert first == "train.tsv: 100% of the rows are truncated: raise --max_seq_length"


def test_the_cache_keeps_all_columns(featurise):
    features = featurise(("sun win joy", "sun rain joy", "the"), ("joy", "joy", ""))
    again = cache.from_tensors(cache.to_tensors(features), features.notes)
    for group in ("ragged", "targets", "unread"):
        own, other = getattr(features, group), getattr(again, group)
        assert own.keys() == other.keys()
        for name, column in own.items():
            np.testing.assert_array_equal(column.values, other[name].values)
            np.testing.assert_array_equal(column.offsets, other[name].offsets)
