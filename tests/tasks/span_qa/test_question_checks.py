"""Tables of questions, warnings, and the sentence most like the question."""

import numpy as np
import pytest

from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.tasks.span_qa import (
    dataset,
    metrics,
    question_checks,
    reader,
    similar_sentence,
)
from bert_mgpu.tasks.span_qa.reader import Answers
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.paths import DATA
from tests.support.tiny import VOCAB
from tests.tasks.span_qa.test_dataset import examples_of

LONG = "the sun of joy in it a " * 6


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))
    return Tokenizer(path)


def checked(tokenizer, split, *examples, **changed):
    flags = {"max_seq_length": 20, "doc_stride": 6, "max_query_length": 4}
    flags |= {"max_answer_length": 2, **changed}
    rows = dataset.featurise(examples, tokenizer, **flags)
    return CheckedSet(split, f"{split}.json", rows, unknown=1)


def rows_of(table):
    """The cells of a table by the first."""
    lines = [line.rsplit(None, 1) for line in table.splitlines()[1:]]
    return {name.strip(): value for name, value in lines}


def test_the_table_of_a_set(tokenizer):
    label = Answers(("sun of joy",), (4, 14))
    train = checked(
        tokenizer,
        "train",
        Example("1", "the", LONG, label=label, line=3),
        Example("2", "the of in it a", LONG, label=Answers((), None), line=4),
        Example("3", "it", "joy", label=Answers(("x",), None, ("'x' is not",)), line=5),
    )
    table = rows_of(question_checks.tables([train])[0])
    assert table["contexts"] == "2"
    assert table["questions without an answer"] == "1"
    assert table["answers not at their place"] == "1"
    assert table["questions with unusable answers"] == "1"
    assert table["answers that are too long"] == "1"
    assert table["questions that are cut"] == "1"
    lines = [*question_checks.warnings(train)]
    assert "train.json:5: 3: 'x' is not" in lines
    assert any("50.0% of the answers have more tokens" in line for line in lines)
    assert "train.json: 33% of the questions are cut: raise --max_query_length" in lines
    remarks = [*question_checks.remarks(train.features)]
    assert remarks[0].startswith(
        "1 of 2 answers are not at their place; 1 question whose"
    )


def test_questions_that_are_cut_are_counted_each(tokenizer):
    """Not each text once; the flag to raise is the one that cut them."""
    long, short = ("the of in it a joy", "the of")
    examples = [Example(f"{i}", long if i < 3 else short, "joy") for i in range(4)]
    for flags, name in (
        ({"max_query_length": 4}, "--max_query_length"),
        ({"max_query_length": 64, "max_seq_length": 9}, "--max_seq_length"),
        ({"max_query_length": 5, "max_seq_length": 9}, "--max_query_length"),
    ):
        train = checked(tokenizer, "train", *examples, **flags)
        assert [*question_checks.remarks(train.features)] == [
            f"3 questions longer than {name} allows: the ends are left out"
        ]
        assert f"train.json: 75% of the questions are cut: raise {name}" in [
            *question_checks.warnings(train)
        ]
        assert (
            rows_of(question_checks.tables([train])[0])["questions that are cut"] == "3"
        )


@pytest.mark.parametrize(("length", "few"), [(15, False), (14, True)])
def test_windows_that_show_little_of_their_context(tokenizer, length, few):
    """[CLS], two tokens of the question and two [SEP] leave 10, or 9."""
    examples = [Example("1", "the of", LONG, line=3), Example("2", "it a in", "joy")]
    train = checked(tokenizer, "train", *examples, max_seq_length=length)
    found = [line for line in question_checks.warnings(train) if "show" in line]
    said = "train.json:3: 1 question so long that windows show fewer than 10 tokens"
    assert [line.startswith(said) for line in found] == [True] * few


def test_empty_questions_and_contexts(tokenizer):
    """Also where nothing is labelled: such rows have 3 tokens at least."""
    texts = [("", "joy"), ("the", ""), ("the", "joy"), ("\u200b", "sun"), ("", " ")]
    test = checked(
        tokenizer,
        "test",
        *(Example("", *own, line=line) for line, own in enumerate(texts, 1)),
    )._replace(labelled=False)
    assert [*question_checks.warnings(test)] == [
        "test.json:1, 4, 5: 3 questions without any text",
        "test.json:2, 5: 2 questions with an empty context",
    ]


def test_contexts_of_both_sets(tokenizer):
    texts = (LONG, "joy", "a joy")
    train = checked(tokenizer, "train", *(Example(text, "the", text) for text in texts))
    dev = checked(tokenizer, "dev", Example("3", "it", LONG), Example("4", "a", "sun"))
    table = question_checks.tables([train, dev])[0]
    row = next(line for line in table.splitlines() if "in train, too" in line)
    assert row.split()[-2:] == ["-", "1"]


@pytest.mark.parametrize("stride", [3, 6, 500])
def test_the_cost_of_a_stride_is_that_of_its_windows(tokenizer, stride):
    examples = [
        Example("1", "the", LONG),
        Example("2", "the of in it", LONG[:57]),
        Example("3", "a", ""),
    ]
    rows = checked(tokenizer, "train", *examples).features
    wanted = checked(tokenizer, "train", *examples, doc_stride=stride).features
    windows, tokens = question_checks._cost(rows, stride)
    assert (windows, tokens) == (len(wanted), int(wanted.lengths.sum()))


def test_nothing_is_known_of_no_set():
    assert question_checks.tables([]) == []


def test_a_training_names_what_is_misplaced_once(tokenizer):
    """As a warning: what is evaluated goes by its text."""
    label = Answers(("x",), None, ("'x' is not", "'x' is not there", "'y' is not"))
    example = Example("3", "it", "joy", label=label, line=5)
    train = checked(tokenizer, "train", example, shown=2)
    told = [*question_checks.warnings(train)]
    assert [line for line in told if "'x' is not" in line] == [
        "train.json:5: 3: 'x' is not",
        "train.json:5: 3: 'x' is not there",
    ]
    assert any(
        line.startswith("train.json: and 1 more answers that are not at their place:")
        and "--verbose_logging=true" in line
        for line in told
    )
    assert len([*question_checks.remarks(train.features)]) == 1


@pytest.mark.parametrize("count", [1, 99, 100])
def test_answers_that_no_window_has(tokenizer, count):
    """Each is counted, though another one is learnt; above 1 % there is a warning."""
    label = Answers((LONG[:80],), (0, 80))
    bad = Example("0", "the", LONG, label=label)
    good = Example("1", "the", LONG, label=Answers(("sun",), (4, 7)))
    train = checked(tokenizer, "train", bad, *[good] * (count - 1))
    assert train.features.notes["fit_nowhere"] == 1
    table = question_checks.tables([train])[0]
    assert rows_of(table)["answers that fit into no window"] == "1"
    assert "1 question whose answers fit into no window" in "".join(
        question_checks.remarks(train.features)
    )
    found = [line for line in question_checks.warnings(train) if "no window" in line]
    said = f"train.json: {1 / count:.1%} of the answers fit into no window"
    assert [line.startswith(said) for line in found] == [True] * (count < 100)


def test_answers_that_no_context_has(tokenizer):
    """Windows have no part in that. Of 2.0 there is still something to learn."""
    lost = Example("1", "the", LONG, label=Answers(("x",), None))
    none = Example("2", "the", LONG, label=Answers((), None))
    for examples, rest in (([lost], ": nothing to learn"), ([lost, none], "")):
        said = [*question_checks.warnings(checked(tokenizer, "train", *examples))]
        assert said[-1] == f"train.json: no answer occurs in its context{rest}"


def test_windows_that_do_not_overlap_are_said_to(tokenizer):
    """20 tokens, 5 of them [CLS], one [SEP] at either end, and a question of two."""
    long, short = (Example("1", "the of", text) for text in (LONG, "the sun"))
    for example, stride, said in (
        (long, 14, False),
        (long, 15, True),
        (short, 15, False),
    ):
        rows = checked(tokenizer, "train", example, doc_stride=stride).features
        lines = [*question_checks.remarks(rows)]
        assert any("15 tokens" in line for line in lines) == said
    # The others' windows do overlap, or they have one.
    longer = Example("2", "the of in it", LONG)
    rows = checked(tokenizer, "train", long, short, longer, doc_stride=14).features
    assert [*question_checks.remarks(rows)][0] == (
        "windows of a context do not overlap: --doc_stride=14, and those of 1 question"
        " have up to 13 tokens"
    )


def test_ids_that_stand_twice():
    found = []
    examples = [
        Example("a", "", line=1),
        Example(7, "", line=2),
        Example("a", "", line=9),
    ]
    reader.check_ids(
        "x.jsonl", examples, lambda line, fault: found.append((line, fault))
    )
    assert found == [(9, "x.jsonl:9: the id 'a' is that of line 1, too")]


def test_the_sentence_most_like_the_question():
    examples = [
        Example("", "谁建了塔？", "塔很高。李四建了塔。他走了。"),
        Example("", "Who built it?", "It is 3.5 m high. Ada built it. So what."),
        Example("", "x", ""),
    ]
    assert similar_sentence.answers(examples) == ["李四建了塔。", "Ada built it.", ""]


@pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder ../shared with data and models is absent"
)
def test_the_floor_of_cmrc2018():
    """Another count of bigrams had 37.2; these sentences have a little more."""
    examples = examples_of(DATA / "cmrc2018" / "cmrc2018_trial.json")
    said = similar_sentence.answers(examples)
    truth = [example.label.texts for example in examples]
    found = metrics.scores(truth, said, chinese=True)
    assert found["cmrc_f1"] == pytest.approx(38.0, abs=0.1)
    assert found["cmrc_em"] == pytest.approx(17.4, abs=0.1)
    assert (
        np.mean(
            [text in each.text_b for each, text in zip(examples, said, strict=True)]
        )
        == 1
    )
