"""Which tokens are one word: by the rules, one token at a time."""

import importlib.util
import pickle
import random
import re
import subprocess
import sys

import numpy as np
import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.text import segmenter, whole_words
from bert_mgpu.text.segmenter import UserWord
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.whole_words import ChineseWords
from tests.support.paths import DATA, ROOT

needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"real texts and vocabularies are not at {DATA}"
)
needs_jieba = pytest.mark.skipif(
    importlib.util.find_spec("rjieba") is None,
    reason="the segmenter is not here: pip install '.[zh]'",
)
VOCAB = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *"我来到北京清华大学玩王者荣耀恤卡拉年人中国",
    *("a", "b", "##a", "##b", "t", "##t", "ab", "##x", "x", "é", "##é", "e", "##e"),
    *("ok", "c", "+", ".", "3", "##3", "5", "ｎ", "##ｂ", "##ａ", "κ", "##σ", "##ς"),
    *("σ", "·", ":", "，", "\U0001f600", "##\U0001f600", "ア", "##ニ", "##メ"),
    *("ᄒ", "##ᅡ", "##ᆫ", "×", "##×", "〇", "##〇", "##κ", "legends", "apex"),
]


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(VOCAB), encoding="utf-8")
    return Tokenizer(path)


def shown(tokenizer, found):
    """Tokens with a bar before each word."""
    ids, starts = found
    return "".join(
        f"{'|' if begins else ''}{tokenizer.tokens[index]}"
        for index, begins in zip(ids, starts, strict=True)
    )


def rows_of(batch):
    ids, starts = batch
    assert ids.values.dtype == np.int32 and starts.dtype == bool
    return [
        (values.tolist(), flags.tolist())
        for values, flags in zip(
            np.split(ids.values, ids.offsets[1:-1]),
            np.split(starts, ids.offsets[1:-1]),
            strict=True,
        )
    ]


def expected_row(tokenizer, text, cut):
    """The rule, token by token: has a word of jieba been met before?"""
    pieces = cut(re.sub("[\ud800-\udfff]", "\ufffd", text))
    assert sum(map(len, pieces)) == len(text)
    word_of = [number for number, piece in enumerate(pieces) for _ in piece]
    ids, starts, met = [], [], set()
    for index, start, end in tokenizer.ids_with_offsets(text):
        ids.append(index)
        is_piece = tokenizer.tokens[index].startswith("##")
        starts.append(word_of[start] not in met and not is_piece)
        met.update(word_of[start:end])
    assert ids == tokenizer.ids(text)
    return ids, starts


def assert_by_the_rule(tokenizer, texts):
    import rjieba

    actual = rows_of(ChineseWords(tokenizer).batch_ids_and_starts(texts))
    for text, row in zip(texts, actual, strict=True):
        assert row == expected_row(tokenizer, text, rjieba.cut), ascii(text)


def test_pieces_continue_a_word():
    tokens = ["[CLS]", "un", "##aff", "##able", "#", "a##", "##"]
    continues = whole_words.continuing(tokens)
    assert continues.tolist() == [False, False, True, True, False, False, True]


@pytest.mark.parametrize(
    ("starts", "is_text", "expected"),
    [
        ("1101011", "0111110", [-1, 0, 0, 1, 1, 2, -1]),
        ("1001101", "0111011", [-1, 0, 0, 1, -1, 2, 3]),
        # What cutting has left of a word stands alone, after any [SEP].
        ("0000000", "0110110", [-1, 0, 0, -1, 1, 1, -1]),
        ("000", "111", [0, 0, 0]),
        ("111", "000", [-1, -1, -1]),
        ("", "", []),
    ],
)
def test_numbers_of_a_row(starts, is_text, expected):
    arrays = [np.array([*map(int, bits)], bool) for bits in (starts, is_text)]
    before = [array.copy() for array in arrays]
    actual = whole_words.numbered(*arrays)
    assert actual.dtype == np.int32
    assert actual.tolist() == expected
    assert all(map(np.array_equal, arrays, before))


def test_every_token_alone():
    is_text = np.array([0, 1, 1, 0, 1, 0], bool)
    assert whole_words.single_token_words(is_text).tolist() == [-1, 0, 1, -1, 2, -1]


@needs_jieba
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The example of jieba's README.
        ("我来到北京清华大学", "|我|来到|北京|清华大学"),
        ("T恤 卡拉OK", "|t恤|卡拉|ok"),  # letters inside a word of jieba
        ("C++, 3.5x", "|c++|[UNK]|3.5##x"),
        ("a\u0301b aé", "|ab|a##e"),  # three words to jieba, two to the tokenizer
        ("ＮＢＡ中国", "|ｎ##ｂ##ａ|中国"),
        ("éT恤", "|e##t恤"),  # the token "et" has a part in jieba's "T恤"
        ("アニメ 한", "|ア##ニ##メ|ᄒ##ᅡ##ᆫ"),
        ("a \u200b b", "|a|b"),
        ("a\u200bb\0\U0001f600", "|ab##\U0001f600"),
        ("ΚΣ Σ", "|κ##ς|σ"),
        ("\ud800中\udfff国 北京\ud800", "|[UNK]|中|[UNK]|国|北京|[UNK]"),
        ("", ""),
        (" \n\u200b", ""),
    ],
)
def test_words_of_jieba(tokenizer, text, expected):
    actual = ChineseWords(tokenizer).ids_and_starts(text)
    assert shown(tokenizer, actual) == expected
    assert actual[0].tolist() == tokenizer.ids(text)


@needs_jieba
@pytest.mark.parametrize("lower_case", [True, False])
def test_random_texts(tokenizer, lower_case):
    parts = [
        *("北京", "清华大学", "我", "中国人", "T恤", "卡拉OK", "二〇一八年", "×"),
        *("a", "b", "ab", "é", "x", "e\u0301", "\u0301", "C++", "3.5", "３", "ＮＢＡ"),
        *("ア", "ニメ", "한", "кот", "Σ", "ΚΣ", "ς", "σ.Σ", "·", "。", "[MASK]", "##"),
        *(" ", "\n", "\r\n", "\t", "\u3000", "\u2028", "\0", "\ufffd", "\u200b"),
        *("\U0001f600", "👍🏽", "\ud800", "\udfff", "\U00020000", "\U0002f800"),
        *("\U0001d15e", "\U0001d165", "\U0001d16d", "\u302e", "\u1b44", "İ"),
    ]
    rng = random.Random(0)
    texts = ["".join(rng.choices(parts, k=rng.randrange(12))) for _ in range(5000)]
    tokenizer = Tokenizer(tokenizer._vocab_file, lower_case)
    assert_by_the_rule(tokenizer, texts)


@needs_jieba
@needs_data
@pytest.mark.parametrize("vocab", ["chinese", "uncased"])
def test_real_headlines(vocab):
    tokenizer = Tokenizer(DATA / "vocab" / f"{vocab}_vocab.txt")
    path = DATA / "thucnews_title" / "full_dev.txt"
    lines = path.read_text(encoding="utf-8").split("\n")
    assert_by_the_rule(tokenizer, [line.split("\t")[0] for line in lines[::4]])


@needs_jieba
@needs_data
def test_most_headlines_need_no_second_look():
    # What hangs together over words of jieba costs more than the rest.
    tokenizer = Tokenizer(DATA / "vocab" / "chinese_vocab.txt")
    path = DATA / "thucnews_title" / "full_dev.txt"
    lines = path.read_text(encoding="utf-8").split("\n")[::4]
    actual = ChineseWords(tokenizer)
    actual.batch_ids_and_starts([line.split("\t")[0] for line in lines])
    assert sum(isinstance(key, tuple) for key in actual._units) < 0.01 * len(lines)


@needs_jieba
def test_batches_are_single_texts(tokenizer):
    actual = ChineseWords(tokenizer)
    texts = ["我来到北京", "", "a\u0301b", "\0", "ab"]
    single = [
        (ids.tolist(), starts.tolist())
        for ids, starts in map(actual.ids_and_starts, texts)
    ]
    assert rows_of(actual.batch_ids_and_starts(texts)) == single
    ids, starts = actual.batch_ids_and_starts([])
    assert ids.offsets.tolist() == [0]
    assert len(starts) == 0


@needs_jieba
def test_forgetting_words_changes_nothing(tokenizer, monkeypatch):
    texts = ["我来到北京", "a\u0301b 清华大学", "ab" * 99, "我"] * 2
    actual = ChineseWords(tokenizer)
    expected = rows_of(actual.batch_ids_and_starts(texts))
    assert "我" in actual._units
    assert "ab" * 99 not in actual._units  # long words hardly recur
    monkeypatch.setattr(whole_words, "_MEMO_WORDS", 2)
    actual = ChineseWords(tokenizer)
    assert rows_of(actual.batch_ids_and_starts(texts)) == expected
    assert len(actual._units) <= 2


@needs_jieba
def test_words_of_the_user_are_not_cut(tokenizer):
    import rjieba

    texts = ["我玩王者荣耀", "我玩王者·荣耀a", "北京Apex Legends", "王者 · 荣耀"]
    user_words = [
        UserWord("王者荣耀", 1),  # too rare, as it says, to be one word
        UserWord("王者", None),
        UserWord("王者·荣耀", None),
        UserWord("王者·", 3),
        UserWord("Apex Legends", None),
    ]

    def rows(found):
        return [shown(tokenizer, found.ids_and_starts(text)) for text in texts]

    before = rows(ChineseWords(tokenizer))
    assert before == [
        "|我|玩|王者|荣耀",
        "|我|玩|王者|·|荣耀|a",
        "|北京|apex|legends",
        "|王者|·|荣耀",
    ]
    ours = ChineseWords(tokenizer, user_words)
    assert rows(ours) == [
        "|我|玩|王者荣耀",
        "|我|玩|王者·荣耀|a",
        "|北京|apexlegends",
        "|王者|·|荣耀",
    ]
    assert rows(pickle.loads(pickle.dumps(ours))) == rows(ours)
    # Other objects, and other users of the package, keep their jieba.
    assert rows(ChineseWords(tokenizer)) == before
    assert rjieba.cut("王者荣耀") == ["王者", "荣耀"]


@needs_jieba
@pytest.mark.parametrize(
    ("frequency", "expected"),
    [
        (None, "|我|来到|清华大学"),
        (1, "|我|来到|清华大学"),
        (10**9, "|我|来到|清华大|学"),
    ],
)
def test_jieba_weighs_words_of_the_user_by_frequency(tokenizer, frequency, expected):
    actual = ChineseWords(tokenizer, [UserWord("清华大", frequency)])
    assert shown(tokenizer, actual.ids_and_starts("我来到清华大学")) == expected
    assert shown(tokenizer, actual.ids_and_starts("清华大")) == "|清华大"


@needs_jieba
@needs_data
def test_no_new_word_is_cut_when_it_stands_alone():
    import rjieba

    tokenizer = Tokenizer(DATA / "vocab" / "chinese_vocab.txt")
    path = DATA / "thucnews_title" / "sub_dev.txt"
    rng = random.Random(0)
    texts = []
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        headline = line.split("\t")[0]
        start = rng.randrange(max(1, len(headline) - 6))
        texts.append(headline[start : start + rng.randint(2, 6)].strip())
    texts = [text for text in texts if text]
    assert sum(rjieba.cut(text) != [text] for text in texts) > 1000
    cut = ChineseWords(tokenizer, [UserWord(text, None) for text in texts])._cut
    for text in texts:
        assert cut(text) == [text]


def test_user_dictionaries_in_jiebas_format(tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(
        "\ufeff云计算 5\r\n李小福 2 nr\n\n创新办  i\n韩玉赏鉴\n 台中 \n"
        "Apex Legends\n王者·荣耀 7 nz\n3\n大 99999999999999999999\n".encode()
    )
    assert segmenter.read_user_dict(path) == [
        ("云计算", 5),
        ("李小福", 2),
        ("创新办", None),
        ("韩玉赏鉴", None),
        ("台中", None),
        ("Apex Legends", None),
        ("王者·荣耀", 7),
        ("3", None),
        ("大", 10**9),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "words.txt: cannot read the user dictionary: No such file"),
        (b"\n \n", "words.txt: no word in it: write one word a line"),
        (b"a 1\n\xb4\xf3\n", r"words.txt:2: b'\\xb4\\xf3' is not UTF-8"),
        (b"a\nb\t3\n", r"words.txt:2: 'b\\t3' has a tab: write one word a line"),
    ],
)
def test_faulty_user_dictionaries(tmp_path, content, message):
    path = tmp_path / "words.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        segmenter.read_user_dict(path)
    assert "\n" not in str(caught.value)


def test_without_the_package_the_user_is_told(tokenizer, monkeypatch):
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(
        UserError, match=r"--segmenter=jieba needs .* pip install .*\[zh\]'"
    ):
        ChineseWords(tokenizer)


def test_the_package_is_loaded_only_when_asked_for():
    code = "import sys, bert_mgpu.text.segmenter\nprint('rjieba' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout == "False\n", done.stderr
