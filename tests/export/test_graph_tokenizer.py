"""The tokenizers inside a graph give the ids of the one outside, which is Google's."""

import random

import pytest
import tensorflow as tf

from bert_mgpu.export.graph_tokenizer import GraphTokenizer
from bert_mgpu.export.kernel_tokenizer import KernelTokenizer
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.marks import rarely
from tests.support.tiny import VOCAB
from tests.text.test_tokenization import DATA, FOLDERS, lines_of, needs_data, sample

HARD = [
    *("", " ", "  tabs\tand\nlines\r\n", "a" * 200, "a" * 201 + " a"),
    *("ΑΣ ΣΑΣ Σ ΟΔΟΣ. ΑΣ\u0301Β ΑΣ'Σ Σ\u00adΑ ΑΣ", "ΑΣ", "ΣΑ", "Σ中ΑΣ中"),
    *("Ünïcödé naïve İstanbul ǅ ß ﬁ", "e\u0301\u0327 A\u030aB", "１２３ ½ №"),
    *("a\u200bb\u00adc\ufffdd\x00e\x1c\u2028f\u3000g\u00a0h\u0085i",),
    *(
        "中文abc漢字，。!?",
        "안녕하세요 세계",
        "ひらがなカタカナ",
        "\U00020000\U0002f800a",
    ),
    *("\U0001f600 smile \U000e0101x \U00030000 \U000f0000", "\ufeffbom", "##s s##s"),
    *("[CLS] [MASK] [UNK]", "sunss joys.fear", "好新坏旧sun"),
]
PIECES = [*"abcdefghijklmnopqrstuvwxyzσςαοδ中文漢字", "##a", "##σ", "##ς", "un", "##de"]


# Lines that are there twice, that no word has, and that only long words have.
ODD = ["un", "", "", "##", "c" * 300, "c" * 100, "##" + "c" * 99, "##" + "漢" * 99]


def graph(made, name="__call__"):
    spec = [tf.TensorSpec([None], tf.string)]
    return tf.function(getattr(made, name), input_signature=spec)


def assert_same(in_graph, tokenizer, texts):
    """The ids, and the places where they stand."""
    given = tf.constant([text.encode() for text in texts], tf.string)
    located = graph(in_graph(tokenizer), "located")(given)
    parts = (part.to_list() for part in located)
    for text, *found in zip(texts, *parts, strict=True):
        expected = tokenizer.ids_with_offsets(text)
        assert [*zip(*found, strict=True)] == expected, repr(text)


@pytest.fixture(params=[GraphTokenizer, KernelTokenizer], ids=["tf", "tf_text"])
def in_graph(request):
    if needs := request.param.needs:
        pytest.importorskip(needs, reason="make test installs it")
    return request.param


def made_of(tokens, folder, lower_case=True):
    vocab = folder / "vocab.txt"
    vocab.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return Tokenizer(vocab, lower_case)


@pytest.fixture(params=[True, False], ids=["uncased", "cased"])
def tokenizer(request, tmp_path):
    return made_of([*VOCAB, *PIECES], tmp_path, request.param)


def test_hard_texts(in_graph, tokenizer):
    assert_same(in_graph, tokenizer, HARD)
    assert_same(in_graph, tokenizer, [])
    ids = graph(in_graph(tokenizer))(tf.constant([text.encode() for text in HARD]))
    assert ids.to_list() == [tokenizer.ids(text) for text in HARD]


def test_an_odd_vocabulary(in_graph, tmp_path):
    tokenizer = made_of([*VOCAB, *ODD, *PIECES], tmp_path)
    texts = ["un unun", "# ##", *("c" * size for size in (99, 100, 199, 200, 201, 300))]
    texts += ["d", " ", "c" * 100 + "d" * 100, "σ" * 150]
    assert_same(in_graph, tokenizer, texts)
    assert [len(tokenizer.ids(text)) for text in ("c" * 199, "σ" * 150)] == [2, 150]


@pytest.mark.parametrize("step", [8, *rarely(1)])
def test_every_code_point(in_graph, tokenizer, step):
    """Alone, in a word and behind a sigma; surrogates are in no UTF-8 text.

    Of planes that are empty, or for private use, a few.
    """
    points = [*range(0x3400), *range(0x3400, 0xD800, step)]
    rare = 1 if step == 1 else 3 * step
    points += [*range(0xE000, 0x33480, rare), *range(0xE0000, 0xE0200)]
    points += range(0x33480, 0x110000, 1000)
    chars = list(map(chr, points))
    blocks = ("".join(f"{c} a{c}b ΑΣ{c} " for c in chars[i : i + 64])
              for i in range(0, len(chars), 64))  # fmt: skip
    assert_same(in_graph, tokenizer, [*blocks])


def test_random_texts(in_graph, tokenizer):
    rng = random.Random(5)
    alphabet = "aabnσΣΑdeo 中文.-\u0301\u00ad\u2028ß"
    texts = ["".join(rng.choices(alphabet, k=rng.randint(0, 40))) for _ in range(1000)]
    assert_same(in_graph, tokenizer, texts)


@needs_data
@pytest.mark.parametrize("vocab", ["chinese", *rarely("uncased")])
def test_real_texts(in_graph, vocab):
    texts = [line for folder in FOLDERS for line in sample(folder, 2_000)]
    assert_same(in_graph, Tokenizer(DATA / "vocab" / f"{vocab}_vocab.txt", True), texts)


@needs_data
@pytest.mark.nightly
def test_all_headlines(in_graph):
    tokenizer = Tokenizer(DATA / "vocab" / "chinese_vocab.txt", True)
    lines = lines_of("thucnews_title")
    assert len(lines) > 45_000
    for start in range(0, len(lines), 10_000):
        assert_same(in_graph, tokenizer, lines[start : start + 10_000])
