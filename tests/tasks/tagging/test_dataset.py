"""Rows of tagged units: units, tags, windows, and what no model reads."""

import unicodedata

import numpy as np
import pytest

from bert_mgpu.core.rows import Example
from bert_mgpu.data import cache
from bert_mgpu.model import crf
from bert_mgpu.tasks.tagging import bio, dataset
from bert_mgpu.tasks.tagging.bio import Span
from bert_mgpu.tasks.tagging.reader import Entities
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.words import joined
from tests.support.tiny import VOCAB

TAGS = bio.tags_of(["A", "B"], "bio")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in [*VOCAB, "e", "##e"]))
    return Tokenizer(path, True)


def example(text, spans=(), *, as_words=False, line=1):
    label = Entities(tuple(Span(*span) for span in spans))
    if as_words:
        joined_text, places = joined(text.split(" "))
        return Example("", joined_text, label=label, line=line, words=places)
    return Example("", text, label=label, line=line)


def rows_of(examples, tokenizer, *, length=16, stride=7, by_words=False, crf=False):
    return dataset.featurise(
        examples,
        tokenizer,
        TAGS,
        max_seq_length=length,
        doc_stride=stride,
        by_words=by_words,
        for_crf=crf,
    )


def tagged(rows, tokenizer, row=0):
    """(token, tag) of each unit of a row's core."""
    ids, tags = (rows.ragged[name].row(row) for name in ("input_ids", "tag_ids"))
    return [
        (tokenizer.tokens[token], TAGS[tag - 1])
        for token, tag in zip(ids, tags, strict=True)
        if tag
    ]


def test_words_have_one_tag_each(tokenizer):
    one = example("sun suns ☃ 好", [(4, 10, "A")], as_words=True)
    rows = rows_of([one], tokenizer)
    assert tokenizer.tokenize("suns") == ["sun", "##s"]
    wanted = [("sun", "O"), ("sun", "B-A"), ("[UNK]", "I-A"), ("好", "O")]
    assert tagged(rows, tokenizer) == wanted
    assert [tokenizer.tokens[i] for i in rows.ragged["input_ids"].row(0)] == [
        *("[CLS]", "sun", "sun", "##s", "[UNK]", "好", "[SEP]")
    ]
    places = rows.unread[dataset.UNITS].row(0)
    assert [one.text_a[s:e] for s, e in places] == ["sun", "suns", "☃", "好"]
    assert rows.notes["between"] == 0


def test_a_word_without_a_piece_is_unknown(tokenizer):
    """A variation selector, which the tokenizer drops."""
    one = Example("", "sun\ufe0f", label=None, words=[(0, 3), (3, 4)])
    assert tagged(rows_of([one], tokenizer), tokenizer) == [
        ("sun", "O"),
        ("[UNK]", "O"),
    ]


@pytest.mark.parametrize("by_words", [False, True])
def test_texts_are_tagged_by_pieces_or_words(tokenizer, by_words):
    text = "suns 好，rain"
    rows = rows_of(
        [example(text, [(3, 4, "A"), (5, 6, "B")])], tokenizer, by_words=by_words
    )
    pieces = [("sun", "O"), ("##s", "B-A"), ("好", "B-B"), ("，", "O"), ("rain", "O")]
    words = [("sun", "O"), ("好", "B-B"), ("，", "O"), ("rain", "O")]
    assert tagged(rows, tokenizer) == (words if by_words else pieces)
    assert rows.notes["between"] == by_words and rows.notes["entities"] == 2
    places = rows.unread[dataset.UNITS].row(0)
    units = (
        ["suns", "好", "，", "rain"] if by_words else ["sun", "s", "好", "，", "rain"]
    )
    assert [text[s:e] for s, e in places] == units
    assert rows.unread[dataset.ENTITIES].row(0).tolist() == [[3, 4, 0], [5, 6, 1]]


def test_characters_of_no_piece_belong_to_the_one_before(tokenizer):
    """A combining accent, and a joiner; not the blank behind them."""
    text = "e\u0301\u200d joy"
    rows = rows_of([example(text, [(0, 3, "A")])], tokenizer)
    assert tagged(rows, tokenizer) == [("e", "B-A"), ("joy", "O")]
    assert rows.unread[dataset.UNITS].row(0).tolist() == [[0, 3], [4, 7]]


@pytest.mark.parametrize("dropped", ["\u200b", "\u00ad", "\ufffd", "\u200b\u2060"])
@pytest.mark.parametrize("by_words", [False, True])
def test_characters_that_are_no_marks_belong_to_no_unit(tokenizer, dropped, by_words):
    """Whether a file counts them to an entity or not, it is learnt without them."""
    size = len(dropped)
    text = f"{dropped}sun{dropped} joy"
    for start in (0, size):
        for end in (size + 3, 2 * size + 3):
            one = example(text, [(start, end, "A")])
            rows = rows_of([one], tokenizer, by_words=by_words)
            assert tagged(rows, tokenizer) == [("sun", "B-A"), ("joy", "O")]
            units = rows.unread[dataset.UNITS].row(0)
            assert [text[s:e] for s, e in units] == ["sun", "joy"]
            entities = rows.unread[dataset.ENTITIES].row(0)
            assert entities.tolist() == [[size, size + 3, 0]]
            assert rows.notes["between"] == 0


def test_an_end_before_a_mark(tokenizer):
    """A variation selector that the file does not count to the entity."""
    rows = rows_of([example("sun\ufe0f joy", [(0, 3, "A")])], tokenizer)
    assert tagged(rows, tokenizer) == [("sun", "B-A"), ("joy", "O")]
    assert rows.unread[dataset.ENTITIES].row(0).tolist() == [[0, 4, 0]]


@pytest.mark.parametrize("span", [(1, 3), (0, 2), (0, 6), (1, 8), (3, 4), (5, 8)])
def test_ends_inside_a_unit_stay(tokenizer, span):
    rows = rows_of([example("sun\u200b joy", [(*span, "A")])], tokenizer)
    lost = span not in [(5, 8)]
    assert rows.unread[dataset.ENTITIES].row(0).tolist() == [[*span, 0]]
    assert rows.notes["between"] == lost


def test_pieces_that_share_a_character_are_one_unit(tmp_path):
    """Hangul is decomposed: no two entities can stand at one character."""
    jamo = unicodedata.normalize("NFD", "한국")
    pieces = [jamo[0], *(f"##{part}" for part in jamo[1:])]
    (tmp_path / "vocab.txt").write_text("\n".join([*VOCAB, *pieces]) + "\n", "utf-8")
    tokenizer = Tokenizer(tmp_path / "vocab.txt", True)
    rows = rows_of([example("한국 sun", [(0, 2, "A"), (3, 6, "B")])], tokenizer)
    assert rows.unread[dataset.UNITS].row(0).tolist() == [[0, 1], [1, 2], [3, 6]]
    tags = [TAGS[tag - 1] for tag in rows.ragged["tag_ids"].row(0) if tag]
    assert tags == ["B-A", "I-A", "B-B"] and rows.notes["between"] == 0
    assert rows.lengths.tolist() == [2 + len(jamo) + 1]


def test_long_texts_have_windows_whose_cores_hold_each_unit_once(tokenizer):
    text = " ".join(["sun", "rain", "joy"] * 10)
    spans = [(start, start + 8, "A") for start in range(0, len(text) - 8, 26)]
    short = example("joy", [(0, 3, "B")], line=9)
    rows = rows_of([example(text, spans), short, example("", line=11)], tokenizer)
    units = [tagged(rows, tokenizer, row) for row in range(len(rows))]
    assert rows.owners.tolist() == [0, 0, 0, 0, 1, 2]
    assert rows.lengths.max() <= 16 and rows.lines.tolist() == [1] * 4 + [9, 11]
    joined_units = [unit for row in units[:4] for unit in row]
    assert [token for token, _ in joined_units] == text.split(" ")
    known = bio.read_spans([tag for _, tag in joined_units], "bio")
    places = np.concatenate([rows.unread[dataset.UNITS].row(row) for row in range(4)])
    found = [(places[s, 0], places[e - 1, 1], kind) for s, e, kind in known.spans]
    assert found == spans and not known.faults
    assert units[4] == [("joy", "B-B")] and units[5] == []
    assert rows.unread[dataset.ENTITIES].lengths.tolist() == [len(spans), 0, 0, 0, 1, 0]
    assert rows.notes["rows"] == 6


def test_chains_begin_and_end_with_their_sentence(tokenizer):
    examples = [example(" ".join(["sun"] * 25)), example("joy")]
    assert {*rows_of(examples, tokenizer).ragged} & {*dataset.OF_CRF} == set()
    rows = rows_of(examples, tokenizer, crf=True)
    assert len(rows) == 4
    for row, (first, last) in enumerate([(1, 0), (0, 0), (0, 1), (1, 1)]):
        tags, prior, edges = (
            rows.ragged[name].row(row) for name in ("tag_ids", *dataset.OF_CRF)
        )
        (at,) = np.nonzero(tags)
        assert prior[at].tolist() == [0, *tags[at][:-1]]
        assert edges[at[0]] & crf.FIRST == first * crf.FIRST
        assert edges[at[-1]] & crf.LAST == last * crf.LAST
        assert not edges[at[1:-1]].any() and not edges[tags == 0].any()


def test_the_cache_keeps_all_of_it(tokenizer):
    rows = rows_of([example(" ".join(["sun"] * 20), [(0, 3, "A")])], tokenizer)
    again = cache.from_tensors(cache.to_tensors(rows), rows.notes)
    for group in ("ragged", "unread"):
        for name, column in getattr(rows, group).items():
            other = getattr(again, group)[name]
            assert (column.values == other.values).all()
            assert (column.offsets == other.offsets).all()
    assert (again.owners == rows.owners).all() and (again.keys == rows.keys).all()


def test_texts_that_are_equal_have_equal_keys(tokenizer):
    texts = ["sun joy", " sun joy ", "sun", "sun " * 30]
    rows = rows_of([example(text) for text in texts], tokenizer)
    keys = rows.keys[rows.first_rows]
    assert keys[0] == keys[1] and len({*keys.tolist()}) == 3
