"""What is said of pairs of texts, and which ones are refused."""

import pathlib
import re
import types

import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.tasks.rewriting import pair_checks

PATH = pathlib.Path("a/train.tsv")
# Of 100 pairs, each at the border of what is taken.
FACTS = {
    "pairs": 100,
    "copying": 4567.0,
    "equal": 90,
    "alike": 5,
    "learnt": 1,
    "kept": 30,
    "longest": 300,
    "unlike": 50,
}
FACTS |= {"lost_slots": 0, "written": 40, "in_row": 10, "too_long": 10, "misplaced": 8}
FACTS |= {"unwritable": 2}
FACTS |= {"lines": [4, 9, 12, 30], "slot_lengths": {"3": 9, "17": 1, "9": 2}}
FACTS |= {"slot_counts": {"0": 2, "1": 3, "4": 1, "5": 1, "19": 2}}


LEFT_OUT = "too_long", "misplaced", "unwritable"


def notes(**changed):
    return {"rewriting": {**FACTS, **changed}}


def checked(split="dev", labelled=True, **changed):
    features = types.SimpleNamespace(notes=notes(**changed))
    return CheckedSet(split, f"a/{split}.tsv", features, unknown=1, labelled=labelled)


def test_what_is_taken():
    pair_checks.check(notes(), PATH)
    none = dict.fromkeys(("pairs", "equal", "alike", "unlike", *LEFT_OUT), 0)
    pair_checks.check(notes(**none), PATH)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"equal": 96}, "96 of 100 targets are equal to their texts: there is nothing"),
        (
            {"equal": 0, "alike": 96},
            "96 of 100 targets differ from their texts only in what the vocabulary does"
            " not tell apart, such as case, accents, blanks or unknown characters:"
            " there is nothing to learn: for case and accents, pass a model with a"
            " cased vocabulary and --do_lower_case=false",
        ),
        ({"equal": 50, "alike": 46}, "46 of 100 targets differ from their texts only"),
        (
            {"unlike": 51, "too_long": 90},  # with a wrong column, both
            "51 of 100 targets have less than 10% of their tokens in common with their"
            " texts: these are not edits: pass the column of the rewritten texts",
        ),
        ({"learnt": 0}, "room for a token or slot of its text: raise --max_seq_length"),
        (
            {"too_long": 13},
            "of 100 pairs 13 have more tokens at one place than --max_insert and 8"
            " differ from their target outside of the slots and 2 have words to write"
            " that the vocabulary lacks (lines 4, 9, 12 and 20 more): raise"
            " --max_insert to 9 (for 90% of the places) or 17, or pass other pairs",
        ),
        (
            {"misplaced": 21, "too_long": 0, "unwritable": 0},
            "of 100 pairs 21 differ from their target outside of the slots (lines"
            " 4, 9, 12 and 18 more): write the same text in both, except in the slots",
        ),
        (
            {"unwritable": 51, "too_long": 0, "misplaced": 0},
            "of 100 pairs 51 have words to write that the vocabulary lacks (lines"
            " 4, 9, 12 and 48 more): add them to the vocabulary (docs/pretraining.md),"
            " or pass other pairs",
        ),
        ({"too_long": 21, "slot_lengths": {"250": 21}}, "--max_insert to 100, or pass"),
        ({"too_long": 21, "slot_lengths": {"9": 2, "30": 21}}, "_insert to 30, or"),
        # A larger vocabulary would not help: without its words they are too many, too.
        ({"too_long": 13, "unwritable": 24}, "more): raise --max_insert to 9 "),
    ],
)
def test_what_is_refused(changed, message):
    with pytest.raises(UserError, match=re.escape(message)) as found:
        pair_checks.check(notes(**changed), PATH)
    assert str(found.value).startswith("a/train.tsv: ")


def test_a_row_without_room_is_no_reason_if_no_pair_can_be_learnt():
    own = notes(misplaced=100, too_long=0, unwritable=0, learnt=0, kept=0, longest=0)
    (problem,) = pair_checks.warnings(checked(**own["rewriting"]))
    assert "100 differ from their target outside of the slots" in problem


def test_half_of_the_pairs_may_need_unknown_words():
    """A model of another language or a small vocabulary can learn from the others."""
    pair_checks.check(notes(unwritable=50, too_long=0, misplaced=0), PATH)


def test_remarks_for_the_log():
    to_write, left_out = pair_checks.remarks(
        notes(too_long=0, unwritable=0, misplaced=2)
    )
    assert to_write == "40 tokens to write, 25.0% of them in the input, too"
    assert left_out.startswith("not learnt, but evaluated: of 100 pairs 2 differ")
    assert left_out.endswith("outside of the slots (lines 4, 9, 12)")
    *_, lost = pair_checks.remarks(notes(lost_slots=2))
    assert lost.startswith("WARNING: --max_seq_length has no room for 2 slots: nothing")
    *_, unknown = pair_checks.remarks(notes(too_long=0, unwritable=1, misplaced=0))
    assert unknown.startswith("not learnt, but evaluated: of 100 pairs 1 have words")
    none = dict.fromkeys(LEFT_OUT, 0)
    few = notes(written=0, in_row=0, **none)
    assert [*pair_checks.remarks(few)] == [
        "0 tokens to write, - of them in the input, too"
    ]
    assert not [*pair_checks.remarks(notes(pairs=0, **none))]


def test_warnings_are_of_what_a_training_refuses():
    assert [*pair_checks.warnings(checked(equal=96, unlike=100))] == [
        "a/dev.tsv: 96 of 100 targets are equal to their texts: there is nothing to"
        " learn: pass the column of the rewritten texts as --target_column",
        "a/dev.tsv: 100 of 100 targets have less than 10% of their tokens in common"
        " with their texts: these are not edits: pass the column of the rewritten texts"
        " as --target_column",
    ]
    assert not [*pair_checks.warnings(checked())]
    (of_train,) = pair_checks.warnings(checked("train", equal=96))
    assert of_train.startswith("a/train.tsv: 96 of 100 targets are equal")
    for other in (
        checked(labelled=False, equal=96),
        checked(pairs=0, learnt=0),
    ):
        assert not [*pair_checks.warnings(other)]


def test_tables_have_a_column_for_each_set():
    assert pair_checks.tables([]) == []
    other = {"longest": 0, "kept": 0, "equal": 7, "slot_counts": {}, "slot_lengths": {}}
    sets = [
        checked("train", lost_slots=2),
        checked(**other | dict.fromkeys(LEFT_OUT, 0)),
    ]
    table, left_out, lost = pair_checks.tables(sets)
    assert left_out.startswith("a/train.tsv: not learnt, but evaluated: of 100 pairs")
    assert left_out.endswith("(lines 4, 9, 12 and 17 more)")
    assert lost.startswith("a/train.tsv: WARNING: --max_seq_length has no room for 2")
    rows = [re.split(r" {2,}", line.strip()) for line in table.splitlines()]
    assert rows == [
        ["train", "dev"],
        ["targets equal to their text", "90", "7"],
        ["targets of the same tokens", "5", "5"],
        ["tokens in common", "10.0%", "-"],
        ["SARI of copying (of 1000 pairs at most)", "45.7", "45.7"],
        ["tokens to write", "40", "40"],
        ["of them in the input, too", "25.0%", "25.0%"],
        ["pairs with a place too long", "10", "0"],
        ["pairs that differ outside slots", "8", "0"],
        ["pairs with unknown words to write", "2", "0"],
        ["places to write at: 0", "2", "0"],
        ["places to write at: 1", "3", "0"],
        ["places to write at: 2", "0", "0"],
        ["places to write at: 3", "0", "0"],
        ["places to write at: 4", "1", "0"],
        ["places to write at: 5 and more", "3", "0"],
        ["tokens at a place: 1", "0", "0"],
        ["tokens at a place: 2", "0", "0"],
        ["tokens at a place: 3 to 4", "9", "0"],
        ["tokens at a place: 5 to 8", "0", "0"],
        ["tokens at a place: 9 to 12", "2", "0"],
        ["tokens at a place: 13 and more", "1", "0"],
    ]
