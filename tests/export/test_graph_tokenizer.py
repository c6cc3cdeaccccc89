"""The tokenizer inside a graph gives the ids of the one outside, which is Google's."""

import random

import pytest
import tensorflow as tf

from bert_mgpu.export.graph_tokenizer import GraphTokenizer
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.marks import rarely
from tests.support.tiny import VOCAB
from tests.text.test_tokenization import DATA, FOLDERS, needs_data, sample

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


def graph(tokenizer, name="__call__"):
    spec, made = [tf.TensorSpec([None], tf.string)], GraphTokenizer(tokenizer)
    return tf.function(getattr(made, name), input_signature=spec)


def assert_same(tokenizer, texts):
    """The ids, and the places where they stand."""
    given = tf.constant([text.encode() for text in texts], tf.string)
    located = graph(tokenizer, "located")(given)
    for number, text in enumerate(texts):
        got = [part[number].numpy().tolist() for part in located]
        assert [*zip(*got, strict=True)] == tokenizer.ids_with_offsets(text), repr(text)


@pytest.fixture(params=[True, False], ids=["uncased", "cased"])
def tokenizer(request, tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("\n".join([*VOCAB, *PIECES]) + "\n", encoding="utf-8")
    return Tokenizer(vocab, request.param)


def test_hard_texts(tokenizer):
    assert_same(tokenizer, HARD)
    assert_same(tokenizer, [])
    ids = graph(tokenizer)(tf.constant([text.encode() for text in HARD]))
    assert ids.to_list() == [tokenizer.ids(text) for text in HARD]


@pytest.mark.parametrize("step", [8, *rarely(1)])
def test_every_code_point(tokenizer, step):
    """Alone, in a word and behind a sigma; surrogates are in no UTF-8 text."""
    points = [*range(0x3400), *range(0x3400, 0xD800, step)]
    points += [*range(0xE000, 0x30000, 3 * step), *range(0xE0000, 0xE0200)]
    chars = list(map(chr, points))
    blocks = ("".join(f"{c} a{c}b ΑΣ{c} " for c in chars[i : i + 64])
              for i in range(0, len(chars), 64))  # fmt: skip
    assert_same(tokenizer, [*blocks])


def test_random_texts(tokenizer):
    rng = random.Random(5)
    alphabet = "aabnσΣΑdeo 中文.-\u0301\u00ad\u2028ß"
    texts = ["".join(rng.choices(alphabet, k=rng.randint(0, 40))) for _ in range(1000)]
    assert_same(tokenizer, texts)


@needs_data
@pytest.mark.parametrize("vocab", ["chinese", *rarely("uncased")])
def test_real_texts(vocab):
    texts = [line for folder in FOLDERS for line in sample(folder, 2_000)]
    assert_same(Tokenizer(DATA / "vocab" / f"{vocab}_vocab.txt", True), texts)
