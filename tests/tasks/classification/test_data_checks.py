"""Faults that were planted in rows are found, with their lines; what is fine is not."""

import numpy as np
import pytest

from bert_mgpu.core.rows import Example
from bert_mgpu.tasks import data_checks
from bert_mgpu.tasks.classification import label_checks
from bert_mgpu.tasks.classification import rows as rows_lib
from bert_mgpu.tasks.classification.problem_types import PROBLEM_TYPES
from bert_mgpu.text.tokenization import Tokenizer

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]
LABELS = ("no", "yes")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in TOKENS))
    return Tokenizer(path)


@pytest.fixture
def looked_at(words):
    """looked_at(train=rows, ...) -> warnings; rows: (text or pair, label)."""

    def look(labels=LABELS, kind="single", length=16, takes_more=True, **sets):
        read = {}
        for split, rows in sets.items():
            pairs = [(t if isinstance(t, tuple) else (t, None), y) for t, y in rows]
            examples = [
                Example(str(n), *texts, label, n)
                for n, (texts, label) in enumerate(pairs, 1)
            ]
            features = rows_lib.featurise(
                examples,
                words,
                labels,
                max_seq_length=length,
                truncation="head",
                head_tokens=0,
                problem_type=PROBLEM_TYPES[kind],
            )
            path, unknown = f"{split}.tsv", words.unk_id
            read[split] = data_checks.CheckedSet(split, path, features, unknown=unknown)
        return data_checks.warnings(
            read,
            lambda one: label_checks.warnings(one, PROBLEM_TYPES[kind], labels),
            takes_more=takes_more,
        )

    return look


def fine(count, seed=0):
    """Rows of texts that are all different."""
    rng = np.random.default_rng(seed)
    texts = {" ".join(rng.choice(list("abcdefghij"), 8)) for _ in range(count)}
    return [(text, LABELS[n % 2]) for n, text in enumerate(sorted(texts))]


def test_nothing_is_said_of_rows_that_are_fine(looked_at):
    sets = {"train": fine(40), "dev": fine(20, 1), "test": fine(20, 2)}
    assert looked_at(**sets) == []


def test_the_same_text_again_and_with_another_label(looked_at):
    rows = [*fine(40), ("a b c", "no"), (" a b c ", "no"), ("a b c", "yes")]
    assert looked_at(train=rows) == [
        "train.tsv:42, 43: 2 rows with the text of an earlier row",
        "train.tsv:43: 1 row with the text of an earlier row and another label",
    ]
    pairs = [*fine(40), (("a", "b"), "no"), (("a b", ""), "yes"), (("a", "c"), "yes")]
    assert looked_at(train=pairs) == []  # other pairs


def test_rows_of_dev_that_were_trained_on(looked_at):
    rows = fine(40)
    actual = looked_at(train=rows, dev=[*fine(16, 1), *rows[:4]], test=rows[:20])
    assert actual == [
        "dev.tsv:17, 18, 19 and 1 more: 4 rows (20.0%) with the text of a row of"
        " train.tsv: a model may have memorised them",
        "test.tsv:1, 2, 3 and 17 more: 20 rows (100.0%) with the text of a row of"
        " train.tsv: a model may have memorised them",
    ]


def test_a_line_of_several_rows_is_named_once(words):
    """As in nested JSON, which may have all questions on one line."""
    lines = [7, 7, 3, 7, 9, 12, 12]
    features = rows_lib.featurise(
        [Example("", "", label="no", line=line) for line in lines],
        words,
        LABELS,
        max_seq_length=8,
        truncation="head",
        head_tokens=0,
    )
    one = data_checks.CheckedSet("train", "a.json", features, unknown=words.unk_id)
    for count, wanted in (
        (2, "7"),
        (4, "7, 3"),
        (5, "7, 3, 9"),
        (7, "7, 3, 9 and 1 more"),
    ):
        assert one.locations(np.arange(count)) == f"a.json:{wanted}"


def test_labels_that_are_rare_or_absent(looked_at):
    rows = [(text, "no") for text, _ in fine(45)]
    assert looked_at(train=rows) == ["train.tsv: no row has the label yes"]
    rows[:3] = [(text, "yes") for text, _ in rows[:3]]
    assert looked_at(train=rows) == [
        "train.tsv: labels with few rows: yes (3)",
        "train.tsv: 42 rows of 'no', 3 of 'yes': watch macro_f1, or pass"
        " --class_weights=balanced",
    ]
    dev = [(text, "no") for text, _ in fine(20, 1)]
    assert looked_at(train=fine(40), dev=dev) == ["dev.tsv: no row has the label yes"]


def test_labels_that_differ_in_case_or_blanks_are_told(looked_at):
    labels = ["No", "no", "yes", "yes "]
    rows = [(text, labels[n % 4]) for n, (text, _) in enumerate(fine(40))]
    end = (
        "differ only in case or in spaces around them: training treats them as"
        " different labels"
    )
    assert looked_at(labels=labels, train=rows) == [
        f"train.tsv: the labels 'No', 'no' {end}",
        f"train.tsv: the labels 'yes', 'yes ' {end}",
    ]


def test_ten_times_as_many_rows_of_a_label_are_told(looked_at):
    texts = [text for text, _ in fine(120)]

    def said(no, yes):
        rows = [(text, "no") for text in texts[:no]]
        return looked_at(train=[*rows, *((t, "yes") for t in texts[no : no + yes])])

    assert said(99, 10) == []
    assert said(100, 10) == [
        "train.tsv: 100 rows of 'no', 10 of 'yes': watch macro_f1, or pass"
        " --class_weights=balanced"
    ]


@pytest.mark.parametrize("place", range(5))
def test_a_leak_of_any_training_row_is_found(looked_at, place):
    rows = fine(5)
    actual = looked_at(train=rows, dev=[*fine(20, 1), rows[place]])
    assert [line for line in actual if line.startswith("dev")] == [
        "dev.tsv:21: 1 row (4.8%) with the text of a row of train.tsv: a model may have"
        " memorised them"
    ]


def test_the_share_of_unknown_tokens_of_pairs(words):
    """[CLS] a b [SEP] z [SEP], [CLS] a [SEP] and [CLS] z [SEP] b [SEP]: 2 of 6."""
    pairs = [("a b", "z"), ("a", None), ("z", "b")]
    examples = [Example(str(n), *pair, "no", n) for n, pair in enumerate(pairs)]
    features = rows_lib.featurise(
        examples, words, LABELS, max_seq_length=16, truncation="head", head_tokens=0
    )
    one = data_checks.CheckedSet("train", "train.tsv", features, unknown=words.unk_id)
    assert one.unknown_share == pytest.approx(2 / 6)


def test_the_slot_of_an_ad_is_not_unknown(words):
    """Of b z a z z z, a z z [SEP] b and a b, without the longest runs: 1 of 7."""
    pairs = [("b z", "a z z z"), ("a z z", "b"), ("a", "b")]
    examples = [Example(str(n), *pair, "no", n) for n, pair in enumerate(pairs)]
    features = rows_lib.featurise(
        examples, words, LABELS, max_seq_length=16, truncation="head", head_tokens=0
    )
    one = data_checks.CheckedSet("train", "train.tsv", features, unknown=words.unk_id)
    assert one.unknown_share == pytest.approx(6 / 12)
    features.notes[data_checks.SLOTS_AS_WORDS] = True
    assert one.unknown_share == pytest.approx(1 / 7)


def test_the_share_of_unknown_tokens_of_segments(words):
    """Each segment has a [CLS] and a [SEP]: 3 of 8 words."""
    text = "a z a b a z b z"
    features = rows_lib.featurise(
        [Example("1", text, None, "no", 1)],
        words,
        LABELS,
        max_seq_length=5,
        max_segments=3,
        truncation="head",
        head_tokens=0,
    )
    assert len(features.ragged["input_ids"].values) == 8 + 3 * 2
    one = data_checks.CheckedSet("train", "train.tsv", features, unknown=words.unk_id)
    assert one.unknown_share == pytest.approx(text.count("z") / 8)


def test_texts_that_are_empty_long_or_unknown(looked_at):
    rows = [*fine(40), ("", "no"), ("\u200b", "yes"), ("a " * 50, "no")]
    assert looked_at(train=rows) == ["train.tsv:41, 42: 2 rows without any text"]
    (output,) = looked_at(train=fine(40), length=8)
    assert output.startswith("train.tsv: 100% of the rows are truncated: raise")
    rows = [(f"{text} z", label) for text, label in fine(40)]
    (output,) = looked_at(train=rows)
    assert output.startswith(
        "train.tsv: 11.1% of the tokens are [UNK]: is --vocab_file"
    )


def test_truncation_of_several_files_is_one_line(looked_at):
    short = [("a b", label) for _, label in fine(2)]
    mixed = [(f"{text} {n}", label) for n, (text, label) in enumerate([*fine(4)])]
    sets = {"train": fine(40), "dev": [*mixed, *short], "test": short[:1]}
    output, *others = looked_at(length=8, **sets)
    advice = "raise --max_seq_length, or pass --truncation=head_tail"
    shares = "67% to 100% of the rows are truncated"
    assert output == f"train.tsv, dev.tsv: {shares}: {advice}"
    assert not any("truncated" in line for line in others)


def test_a_model_that_takes_no_longer_rows(looked_at):
    pair = [((text, "a b"), label) for text, label in fine(40)]
    for rows, to_do in (
        (fine(40), "pass --truncation=head_tail"),
        (pair, "the model takes no longer ones"),
    ):
        output, *_ = looked_at(length=8, train=rows, takes_more=False)
        assert output == f"train.tsv: 100% of the rows are truncated: {to_do}"


def test_several_labels_and_numbers(looked_at):
    rows = [(text, ("yes",) if n % 2 else ()) for n, (text, _) in enumerate(fine(40))]
    assert looked_at(train=rows, kind="multi") == ["train.tsv: no row has the label no"]
    both = [*rows, (rows[0][0], ("no", "yes"))]
    assert any("another label" in line for line in looked_at(train=both, kind="multi"))
    values = [(text, float(n)) for n, (text, _) in enumerate(fine(40))]
    assert looked_at(train=values, labels=(), kind="regression") == []
