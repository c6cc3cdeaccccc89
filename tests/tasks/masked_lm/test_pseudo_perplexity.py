"""One row for each word of a line, and the perplexity of their losses."""

import numpy as np
import pytest

from bert_mgpu.core.rows import POSITIONS
from bert_mgpu.tasks.masked_lm.pseudo_perplexity import MaskedWords
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.tiny import VOCAB

LINES = ["suns joy", "", "the rain . win"]  # "suns" has the pieces sun and ##s
IDS = {token: number for number, token in enumerate(VOCAB)}


@pytest.fixture
def words(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    return MaskedWords(LINES, Tokenizer(str(tmp_path / "vocab.txt"), True), 6)


def test_all_pieces_of_one_word_are_masked_in_a_row(words):
    rows = words.take(np.arange(len(words)))
    texts = [
        " ".join(VOCAB[token] for token in rows.ragged["input_ids"].row(row))
        for row in range(len(words))
    ]
    assert texts == [
        "[CLS] [MASK] [MASK] joy [SEP]",
        "[CLS] sun ##s [MASK] [SEP]",
        "[CLS] [MASK] rain . win [SEP]",
        "[CLS] the [MASK] . win [SEP]",
        "[CLS] the rain [MASK] win [SEP]",
        "[CLS] the rain . [MASK] [SEP]",
    ]
    assert rows.targets[POSITIONS].row(0).tolist() == [1, 2]
    labels = [IDS["sun"], IDS["##s"]]
    assert rows.targets["masked_lm_ids"].row(0).tolist() == labels


def test_a_perplexity_is_that_of_words_not_of_pieces(words):
    losses = np.array([[1, 2], [3, 0], [1, 0], [1, 0], [1, 0], [1, 0]], np.float32)
    suns, empty, rain = words.scores(losses)
    assert suns["ppl"] == pytest.approx(np.exp((1 + 2 + 3) / 2))
    assert rain["ppl"] == pytest.approx(np.exp(1))
    assert empty == {"tokens": [], "ppl": None}
    assert [one["token"] for one in suns["tokens"]] == ["sun", "##s", "joy"]
    probs = [one["prob"] for one in suns["tokens"]]
    assert probs == pytest.approx(np.exp([-1, -2, -3]))


@pytest.mark.filterwarnings("error")
def test_a_perplexity_beyond_all_numbers_is_none(words):
    """JSON has no Infinity."""
    losses = np.array([[2000, 2], [3, 0], *[[1, 0]] * 4], np.float32)
    suns, _, rain = words.scores(losses)
    assert suns["ppl"] is None and rain["ppl"] == pytest.approx(np.exp(1))


def test_longer_lines_are_cut(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    words = MaskedWords(LINES, Tokenizer(str(tmp_path / "vocab.txt"), True), 5)
    assert words.truncated == 1 and words.lines.lengths.tolist() == [3, 0, 3]
