"""Rows of texts and of pairs, as google-research/bert makes them."""

import pytest

from bert_mgpu.text.pair_rows import pair_rows
from bert_mgpu.text.segments import Segments
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.tiny import VOCAB


@pytest.fixture
def rows(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB))
    tokenizer = Tokenizer(tmp_path / "vocab.txt")

    def made(pairs, length=8):
        found = pair_rows(pairs, tokenizer, Segments(length))
        ids, segments = found.columns["input_ids"], found.columns["segment_ids"]
        texts = [
            " ".join(tokenizer.tokens[i] for i in ids.row(n)) for n in range(len(pairs))
        ]
        kinds = [segments.row(n).tolist() for n in range(len(pairs))]
        return texts, kinds, found.lengths.tolist()

    return made


def test_single_texts_and_pairs(rows):
    pairs = [("sun joy", None), ("sun", "joy win"), ("", None), ("", "joy")]
    texts, segments, lengths = rows(pairs)
    assert texts == [
        "[CLS] sun joy [SEP]",
        "[CLS] sun [SEP] joy win [SEP]",
        "[CLS] [SEP]",
        "[CLS] [SEP] joy [SEP]",
    ]
    assert segments == [[0] * 4, [0, 0, 0, 1, 1, 1], [0, 0], [0, 0, 1, 1]]
    assert lengths == [4, 6, 2, 4]


def test_a_second_text_without_tokens_is_none(rows):
    for second in ("", " ", "\u200b"):
        assert rows([("sun", second)])[:2] == (["[CLS] sun [SEP]"], [[0, 0, 0]])


def test_long_ones_are_cut_and_their_lengths_known(rows):
    texts, _, lengths = rows([("a the of in it a", None), ("a the of", "in it a the")])
    assert texts == ["[CLS] a the of in it a [SEP]", "[CLS] a the of [SEP] in it [SEP]"]
    assert lengths == [8, 10]
    assert rows([("a the of in", "in it a")], 7)[0] == ["[CLS] a the [SEP] in it [SEP]"]
