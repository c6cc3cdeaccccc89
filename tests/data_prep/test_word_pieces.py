"""Pieces of words, beside what tensorflow-text itself makes of a text."""

import collections
import importlib.util

import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.data_prep import word_pieces
from bert_mgpu.text import learnt_vocab
from bert_mgpu.text.learnt_vocab import WordCounts
from tests.support.paths import ROOT

WORDS = {"walking": 9, "walked": 8, "talking": 7, "talked": 6, "the": 30, "a": 9}
LETTERS = {*"".join(WORDS)}
needs_learner = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow_text") is None,
    reason="tensorflow-text is not here: pip install -e '.[tf_text]'",
)


def english():
    """Lines of this project's documents; others tensorflow-text normalises by NFKC."""
    names = ("guide", "classification", "pretraining", "memory_and_speed", "rewriting")
    texts = [(ROOT / f"docs/{name}.md").read_text("utf-8") for name in names]
    return [line for line in "\n".join(texts).splitlines() if line.isascii()]


@pytest.fixture(scope="module")
def counts():
    counted = WordCounts(do_lower_case=True)
    counted.add([("", line) for line in english()])
    return counted


@needs_learner
def test_pieces_are_those_of_tensorflow_texts_own_vocabulary(counts, logical_cpus):
    """`bert_vocab_from_dataset` at one threshold: its search would end at 9."""
    import tensorflow as tf
    from tensorflow_text.tools.wordpiece_vocab import bert_vocab_from_dataset

    theirs = bert_vocab_from_dataset.bert_vocab_from_dataset(
        tf.data.Dataset.from_tensor_slices(english()).batch(1000),
        vocab_size=30_000,
        reserved_tokens=[],
        bert_tokenizer_params={"lower_case": True},
        learn_params={"lower_thresh": 10, "upper_thresh": 10},
    )
    alphabet = learnt_vocab.alphabet(counts.characters, 1)
    actual = word_pieces.learn(
        counts.words.counts, alphabet.letters, most=30_000, min_count=10
    )
    assert actual == [t for t in theirs if len(t.removeprefix("##")) > 1]
    assert len(actual) > 200 and "training" in actual
    ours, needless = {*alphabet.tokens(), *actual}, {*theirs} - {*alphabet.tokens()}
    assert ours <= {*theirs}
    # They join marks and ideographs, too, which the tokenizer never asks for.
    needless -= {*actual}
    assert "##." in needless and all(
        token.startswith("##") and token[2:] not in alphabet.letters
        for token in needless
    )


@needs_learner
@pytest.mark.parametrize("most", [0, 1, 17, 250])
def test_the_size_is_met_where_the_text_has_enough_pieces(counts, most):
    letters = learnt_vocab.alphabet(counts.characters, 1).letters
    pieces = word_pieces.learn(counts.words.counts, letters, most=most, min_count=3)
    assert len(pieces) == len({*pieces}) == most


@needs_learner
def test_what_occurs_too_rarely_is_no_piece():
    """Each word that occurs 7 times, and what is left of the others."""
    pieces = word_pieces.learn(WORDS, LETTERS, most=100, min_count=7)
    assert pieces[:4] == ["the", "walking", "walked", "talking"]
    assert "talked" not in pieces
    assert "the" in word_pieces.learn(WORDS, LETTERS, most=100, min_count=30)
    assert word_pieces.learn(WORDS, LETTERS, most=100, min_count=31) == []


@needs_learner
def test_words_with_other_characters_teach_nothing():
    pieces = word_pieces.learn(WORDS, LETTERS - {"w"}, most=100, min_count=7)
    assert "talking" in pieces and not [piece for piece in pieces if "w" in piece]
    assert word_pieces.learn(WORDS, set(), most=100, min_count=1) == []


@needs_learner
def test_the_order_of_the_words_does_not_matter(counts):
    words = collections.Counter(dict(counts.words.counts.most_common(300)))
    letters = {*"".join(words)}
    turned = dict(reversed([*words.items()]))
    assert word_pieces.learn(
        words, letters, most=150, min_count=1
    ) == word_pieces.learn(turned, letters, most=150, min_count=1)


@needs_learner
def test_of_too_many_words_the_most_frequent_are_taken(monkeypatch):
    monkeypatch.setattr(word_pieces, "MOST_WORDS", 2)
    pieces = word_pieces.learn(WORDS, LETTERS, most=100, min_count=1)
    assert pieces == ["the"]  # and "a", which is a letter


def test_what_to_install_is_said(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=r"needs the package tensorflow-text.*\[tf_text\]"
    ):
        word_pieces.check_learner()


@needs_learner
@pytest.mark.parametrize("per_second", [1, 100])
def test_a_long_silence_is_told(monkeypatch, capfd, per_second):
    monkeypatch.setattr(word_pieces, "_WORDS_A_SECOND", per_second)
    word_pieces.learn(WORDS, LETTERS, most=5, min_count=2)
    said = "learning pieces of 6 words: about 6 seconds" in capfd.readouterr().err
    assert said == (per_second == 1)
