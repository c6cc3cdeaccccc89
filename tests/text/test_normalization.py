"""Words against those of google-research/bert's BasicTokenizer."""

import sys
import unicodedata

import pytest

from bert_mgpu.text.normalization import Normalizer
from tests.support.marks import rarely

# Every code point at night; for each change those of every eighth, and the first ones.
SPARSE_AND_RARELY_ALL = pytest.mark.parametrize("step", [8, *rarely(1)])
ALWAYS = 0x3400  # alphabets, marks and signs stand before it


def code_points(step):
    """Code points: characters, and what is treated alike in the standard.

    The latter (not assigned, for private use, surrogates) are a million.
    """
    chars, others = [], []
    for char in map(chr, (*range(ALWAYS), *range(ALWAYS, sys.maxunicode + 1, step))):
        alike = unicodedata.category(char) in ("Cn", "Co", "Cs")
        (others if alike else chars).append(char)
    return chars, others


def assert_same_words(google, vocab_file, lower_case, texts, both_ways=False):
    normalizer = Normalizer(lower_case)
    for start in range(0, len(texts), 50_000):
        chunk = texts[start : start + 50_000]
        expected = google(vocab_file, lower_case, chunk, words=True)
        for text, words in zip(chunk, expected, strict=True):
            assert normalizer.words(text) == words, ascii(text)
            if both_ways:
                sourced = normalizer.sourced_words(text)
                assert [word.text for word in sourced] == words, ascii(text)


@SPARSE_AND_RARELY_ALL
@pytest.mark.parametrize("lower_case", [True, False])
def test_every_code_point_alone_and_in_a_word(google, small_vocab, lower_case, step):
    chars, others = code_points(step)
    texts = [f"{char} a{char}B" for char in chars]
    for start in range(0, len(others), 64):  # many a text, for speed
        texts += [join.join(others[start : start + 64]) for join in (" ", "a")]
    assert_same_words(google, small_vocab, lower_case, texts)


@SPARSE_AND_RARELY_ALL
def test_every_character_among_ideographs_and_accents(google, small_vocab, step):
    texts = [f"e\u0301{char}\u0301中{char}" for char in code_points(step)[0]]
    assert_same_words(google, small_vocab, True, texts, both_ways=True)


@SPARSE_AND_RARELY_ALL
def test_every_character_among_marks_and_sigmas(google, small_vocab, step):
    texts = [f"\u302f{char}\u302eΣ{char}Σ" for char in code_points(step)[0]]
    assert_same_words(google, small_vocab, True, texts)
