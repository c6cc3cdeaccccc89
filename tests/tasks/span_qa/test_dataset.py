"""Rows of questions: those of google-research/bert's run_squad.py."""

import json

import numpy as np
import pytest

from bert_mgpu.core.rows import Example
from bert_mgpu.data import cache
from bert_mgpu.tasks import reader as rows_reader
from bert_mgpu.tasks.span_qa import dataset, files
from bert_mgpu.tasks.span_qa.reader import Answers, read_label
from bert_mgpu.text.tokenization import Tokenizer
from tests.reference import google_squad
from tests.support import questions
from tests.support.marks import rarely
from tests.support.paths import DATA
from tests.support.tiny import VOCAB

KEYS = dataset.STARTS, dataset.ENDS
FLAGS = {"max_seq_length": 256, "doc_stride": 100, "max_query_length": 20}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))
    return Tokenizer(path)


def examples_of(path):
    own = files.BUILTIN["squad"]
    return rows_reader.read_examples(
        own, path, "train", label=read_label, with_label=True
    )


@pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder ../shared with data and models is absent"
)
@pytest.mark.parametrize(
    ("name", "count"),
    [("english", 80), ("chinese", 20), *rarely(("english", 500), ("chinese", 500))],
)
def test_features_are_those_of_run_squad(tmp_path, name, count):
    """Ids, segments, windows and cores; and, but for named ones, the answers.

    Of an answer that begins or ends inside of a word and is no row of its pieces,
    Google's code takes the whole words, and so the punctuation beside it. Ours takes
    the pieces that have its characters.
    """
    is_english = name == "english"
    value = questions.english(count, 1) if is_english else questions.chinese(count)
    (tmp_path / "data.json").write_text(json.dumps(value, ensure_ascii=False))
    vocab = "uncased_vocab.txt" if is_english else "chinese_vocab.txt"
    vocab_file = DATA / "vocab" / vocab
    request = {"what": "features", "data": f"{tmp_path / 'data.json'}"}
    request |= {"vocab_file": str(vocab_file), "flags": FLAGS}
    google_squad.ask(tmp_path, request)
    theirs = json.loads((tmp_path / "features.json").read_text())
    examples = examples_of(tmp_path / "data.json")
    ours = dataset.featurise(examples, Tokenizer(vocab_file), **FLAGS)
    assert len(examples) == count and len(theirs) == len(ours) > count
    block, windows = ours.take(np.arange(len(ours))), dataset.windows_of(ours)
    others = set()
    for row, wanted in enumerate(theirs):
        length = wanted["length"]
        assert int(ours.owners[row]) == wanted["example_index"]
        for column in ("input_ids", "segment_ids"):
            actual = block.ragged[column].row(row).tolist()
            assert actual == wanted[column][:length] and not any(
                wanted[column][length:]
            )
        core = windows.heads[row] + ours.unread[dataset.CORES].row(row)[0]
        assert [*range(*core)] == wanted["core"]
        places = [int(ours.dense[key][row]) for key in (dataset.STARTS, dataset.ENDS)]
        if places != [wanted["start_position"], wanted["end_position"]]:
            others.add(int(ours.owners[row]))
    print(f"{name}: {len(others)} of {len(examples)} answers at other tokens")
    assert len(others) <= (count // 20 if is_english else 0)
    for number in others:
        own = examples[number]
        start, end = own.label.span
        borders = own.text_b[start - 1 : start + 1], own.text_b[end - 1 : end + 1]
        assert any(len(pair) == 2 and " " not in pair for pair in borders)


def test_white_space_of_answers_is_compared_as_in_run_squad(tokenizer, tmp_path):
    """Which collapses it in the context, and collapses and strips it in the answer."""
    given = [
        ("in the  sun of joy", "the sun", 3),
        ("in the\nsun of joy", "the sun", 3),
        ("in the\r\n\tsun of joy", "the sun", 3),
        ("in the sun of joy", "the \n sun", 3),
        ("it a joy.", "joy ", 5),
        ("it a joy of sun", " joy", 4),
        ("it a joy of sun", "\njoy  of ", 4),
        ("the sun of the  sun", "the sun", 11),
        ("in thesun of joy", "the sun", 3),  # which they skip
    ]
    paragraphs = [
        {"context": context, "qas": [{"id": f"{number}", "question": "it"}]}
        for number, (context, _, _) in enumerate(given)
    ]
    for paragraph, (_, text, start) in zip(paragraphs, given, strict=True):
        answers = [{"text": text, "answer_start": start}]
        paragraph["qas"][0]["answers"] = answers
    value = {"data": [{"title": "", "paragraphs": paragraphs}]}
    (tmp_path / "data.json").write_text(json.dumps(value))
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCAB))
    request = {"what": "features", "data": f"{tmp_path / 'data.json'}"}
    request |= {"vocab_file": f"{tmp_path / 'vocab.txt'}", "flags": FLAGS}
    google_squad.ask(tmp_path, request)
    theirs = json.loads((tmp_path / "features.json").read_text())
    examples = examples_of(tmp_path / "data.json")
    assert not any(one.label.misplaced for one in examples[:-1])
    assert examples[-1].label.is_not_in_context
    ours = dataset.featurise(examples[:-1], tokenizer, **FLAGS)
    assert [*zip(*(ours.dense[key].tolist() for key in KEYS), strict=True)] == [
        (own["start_position"], own["end_position"]) for own in theirs
    ]


def featurise(tokenizer, *examples, **changed):
    flags = {"max_seq_length": 16, "doc_stride": 5, "max_query_length": 4, **changed}
    return dataset.featurise(examples, tokenizer, **flags)


def test_each_text_is_held_once(tokenizer):
    context = "the sun of joy in it " * 3
    labels = [Answers(("sun",), (4, 7)), Answers(("joy",), (11, 14)), None]
    rows = featurise(
        tokenizer,
        *(
            Example(str(i), "the sun", context, label=own)
            for i, own in enumerate(labels)
        ),
    )
    tokens = len(rows.spliced["input_ids"].values)
    assert tokens == 18 + 4 + 1  # the context, [CLS] question [SEP], and [SEP]
    assert len(rows) == 9 and rows.first_rows.tolist() == [0, 3, 6]
    assert (rows.dense[dataset.STARTS][6:] == dataset.NO_TARGET).all()
    assert rows.notes["answers"] == 2


def test_the_targets_of_windows(tokenizer):
    """In the windows that have the whole answer; [CLS] in the others."""
    context = "the of in it a joy sun the of in it a the of in it"
    label = Answers(("joy sun",), (15, 22))
    rows = featurise(tokenizer, Example("", "a", context, label=label))
    windows = dataset.windows_of(rows)
    begins = windows.firsts.tolist()
    assert begins == [0, 5] and windows.sizes.tolist() == [12, 11]
    head = 3  # [CLS] a [SEP]
    assert rows.dense[dataset.STARTS].tolist() == [5 + head, 0 + head]
    assert rows.dense[dataset.ENDS].tolist() == [6 + head, 1 + head]
    rows = featurise(tokenizer, Example("", "a", context, label=Answers((), None)))
    assert not rows.dense[dataset.STARTS].any()
    lost = Answers(("rain",), None)
    rows = featurise(tokenizer, Example("", "a", context, label=lost))
    assert (rows.dense[dataset.ENDS] == dataset.NO_TARGET).all()
    assert rows.notes["lost"] == 1
    invisible = Answers(("\u200b",), (4, 5))  # stands there, but has no token
    example = Example("", "a", "the \u200b of", label=invisible)
    rows = featurise(tokenizer, example)
    assert rows.notes["lost"] == 1 and rows.notes["fit_nowhere"] == 0
    assert (rows.dense[dataset.ENDS] == dataset.NO_TARGET).all()


@pytest.mark.parametrize("stride", [1, 3, 500])
def test_every_token_is_in_one_core(tokenizer, stride):
    context = "the sun of joy in it " * 9
    rows = featurise(tokenizer, Example("", "a", context), doc_stride=stride)
    windows = dataset.windows_of(rows)
    cores = windows.firsts[:, None] + rows.unread[dataset.CORES].values
    owned = np.concatenate([np.arange(*core) for core in cores])
    assert owned.tolist() == [*range(54)]
    assert (rows.lengths <= 16).all()


def test_odd_texts(tokenizer):
    """Each has a row: no context, no question, one that fills the row."""
    long = "the sun of joy in it a the sun of joy in it a"
    rows = featurise(
        tokenizer,
        Example("", "", ""),
        Example("", "sun", None),
        Example("", long, "joy " * 20),
        max_query_length=64,
    )
    assert len(rows.first_rows) == 3 and rows.notes["cut_questions"] == 1
    assert dataset.windows_of(rows).sizes[:2].tolist() == [0, 0]
    assert dataset.windows_of(rows).sizes[2:].tolist() == [1] * 20


def test_places_are_those_of_the_text(tokenizer):
    """An accent that no token has belongs to the one before it, unlike a blank."""
    context = "sun\u0301\u200b (joy) 好\ufffd新"
    rows = featurise(tokenizer, Example("", "a", context))
    places = rows.unread[dataset.PLACES].values.tolist()
    cut = [context[start:end] for start, end in places]
    assert cut == ["sun\u0301", "(", "joy", ")", "好", "新"]


def test_the_cache_keeps_all(tokenizer):
    context = "the sun of joy in it " * 3
    rows = featurise(tokenizer, Example("", "the sun", context))
    tensors = cache.to_tensors(rows)
    again = cache.from_tensors(tensors, rows.notes)
    for name in ("input_ids", "segment_ids"):
        taken = [
            each.take(np.arange(len(rows))).ragged[name].values.tolist()
            for each in (rows, again)
        ]
        assert taken[0] == taken[1]
    assert again.unread[dataset.CORES].values.tolist() == (
        rows.unread[dataset.CORES].values.tolist()
    )


@pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder ../shared with data and models is absent"
)
def test_gold_answers_come_back_as_they_are():
    """Of 1,500 drawn from cmrc2018 dev at least 99.9 %: characters to tokens and back.

    The rest begin or end inside of a token. (google-research/bert's `get_final_text`
    gives back 97 %.)
    """
    vocab = Tokenizer(DATA / "vocab" / "chinese_vocab.txt")
    examples = examples_of(DATA / "cmrc2018" / "cmrc2018_dev.json")
    placed = [one for one in examples if not one.label.misplaced]
    drawn = np.random.default_rng(1).choice(len(placed), 1500, replace=False)
    chosen = [placed[number] for number in drawn]
    flags = {**FLAGS, "max_seq_length": 512, "doc_stride": 128}
    rows = dataset.featurise(chosen, vocab, **flags)
    windows, places = dataset.windows_of(rows), rows.unread[dataset.PLACES].values
    seen, wrong = set(), set()  # by question: all windows that show its answer
    for row in np.flatnonzero(rows.dense[dataset.STARTS] > 0):
        example = chosen[rows.owners[row]]
        first = windows.firsts[row] - windows.heads[row]
        start = places[first + rows.dense[dataset.STARTS][row], 0]
        end = places[first + rows.dense[dataset.ENDS][row], 1]
        seen.add(rows.owners[row])
        if example.text_b[start:end] != example.text_b[slice(*example.label.span)]:
            wrong.add(rows.owners[row])
    print(f"{len(seen - wrong)} of {len(seen)} answers come back as they are")
    assert len(seen) == 1500 and len(wrong) <= 1
