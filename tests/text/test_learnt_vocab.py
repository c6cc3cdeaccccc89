"""What a vocabulary is learnt from: counted as Google's code cuts words."""

import collections

import pytest

from bert_mgpu.text import learnt_vocab
from bert_mgpu.text.learnt_vocab import Alphabet, WordCounts
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.paths import DATA, ROOT

GOOGLES = DATA / "vocab" / "chinese_vocab.txt"
# Ideographs, marks, accents, kana, Hangul (which NFD takes apart), a long word.
TEXTS = [
    "The café, the CAFÉ and the cafe!",
    "中文 BERT模型、中文字。",
    "ひらがな カタカナ 한국어 ﬁ",
    "a" * 60 + " " + "þ" * 250,
    "don't x_y 3.14 \u200b",
]


def counted(texts, lower=True, **options):
    counts = WordCounts(lower, **options)
    for number, text in enumerate(texts):
        counts.add([(f"f:{number}", text)])
    return counts


@pytest.mark.parametrize("lower", [True, False])
def test_counts_are_those_of_googles_words(google, small_vocab, lower):
    texts = [*TEXTS, *(ROOT / "docs/guide.zh.md").read_text("utf-8").splitlines()]
    words = collections.Counter(sum(google(small_vocab, lower, texts, words=True), []))
    actual = counted(texts, lower)
    characters = collections.Counter()
    for word, count in words.items():
        if len(word) <= 200:
            characters.update({char: word.count(char) * count for char in word})
    assert actual.characters == characters
    assert characters["模"] > 5 and characters["þ"] == 0
    # Google's own cut of a doubled character says whether it is parted from others.
    (doubled,) = google(
        small_vocab, lower, [" ".join(2 * c for c in words)], words=True
    )
    parted = {word for word in words if len(word) == 1} - {
        word[0] for word in doubled if len(word) == 2
    }
    assert {"中", ",", "。", "_"} <= parted and "x" not in parted
    assert actual.words.counts == {
        word: count
        for word, count in words.items()
        if word not in parted and len(word) <= 50
    }
    assert "a" * 60 in words and actual.rows == len(texts)


def test_forgotten_words_leave_the_counts_of_characters_exact():
    texts = [f"x{n}y often" for n in range(1000, 1100)]
    actual = counted(texts, most=20)
    assert actual.words.missed > 0 and len(actual.words.counts) <= 20
    assert actual.words.counts["often"] == 100
    assert actual.characters == collections.Counter("".join(texts).replace(" ", ""))


def test_ideographs_and_marks_get_no_token_with_joiner():
    counts = {"中": 5, "国": 4, "x": 5, "é": 6, "、": 9, "한": 5, "か": 7}
    actual = learnt_vocab.alphabet(counts, min_count=5)
    assert actual == Alphabet(
        ("x", "é", "、", "か", "中", "한"), frozenset({"x", "é", "か", "한"})
    )
    assert [*actual.tokens()] == [
        *("x", "é", "、", "か", "中", "한"),
        *("##x", "##é", "##か", "##한"),
    ]


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("min_count", [1, 3])
def test_a_word_is_unknown_where_a_character_of_it_is_rare(tmp_path, lower, min_count):
    lines = (ROOT / "docs/pretraining.zh.md").read_text("utf-8").splitlines()
    texts = [*TEXTS[:3], *lines]
    counts = counted(texts, lower)
    alphabet = learnt_vocab.alphabet(counts.characters, min_count)
    tokens = [*learnt_vocab.special_tokens(0), *alphabet.tokens()]
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("".join(f"{t}\n" for t in tokens), encoding="utf-8")
    tokenizer = Tokenizer(vocab_file, lower)
    unknown = 0
    for text in texts:
        for word, _ in tokenizer.words(text):
            rare = min(counts.characters[char] for char in word) < min_count
            assert (tokenizer.tokenize(word) == ["[UNK]"]) == rare, word
            unknown += rare
    assert (unknown > 0) == (min_count > 1)


def test_special_tokens_have_googles_ids():
    tokens = learnt_vocab.special_tokens(99)
    assert tokens[:3] == ["[PAD]", "[unused1]", "[unused2]"]
    assert tokens[99:] == ["[unused99]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert learnt_vocab.special_tokens(0) == [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    ]


@pytest.mark.skipif(
    not GOOGLES.exists(),
    reason="Google's vocabulary is in ../shared, which is not here",
)
def test_the_first_rows_are_those_of_googles_chinese_vocabulary():
    published = GOOGLES.read_text("utf-8").split("\n")
    assert learnt_vocab.special_tokens(99) == published[:104]
    # The reason why a learnt one has none of these.
    rests = [token[2:] for token in published if token.startswith("##")]
    letters = [rest for rest in rests if len(rest) == 1 and rest.isalpha()]
    tokenizer = Tokenizer(GOOGLES)
    assert sum(len(tokenizer.words(2 * char)) == 2 for char in letters) == 7322
