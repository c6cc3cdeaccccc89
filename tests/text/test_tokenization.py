"""The tokenizer against google-research/bert's own, run in another process."""

import functools
import lzma
import pickle
import random
import tarfile
import zipfile

import numpy as np
import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.marks import rarely
from tests.support.paths import DATA

FOLDERS = [
    "afqmc",
    "chinese_stsb",
    "cluener",
    "cmrc2018",
    "fewclue_iflytek",
    "nltk_movie_reviews",
    "online_shopping_10_cats",
    "sst2",
    "style_transfer_captions",
    "thucnews_title",
    "utterance_rewriter",
    "weibo_ner",
    "wikisplit",
    "zh_laws",
    "zh_peoplesdaily199801",
]
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"real texts and vocabularies are not at {DATA}"
)


def assert_same_ids(google, vocab_file, lower_case, texts):
    tokenizer = Tokenizer(vocab_file, lower_case)
    ours = tokenizer.batch_ids(texts)
    theirs = google(vocab_file, lower_case, texts)
    for row, (text, expected) in enumerate(zip(texts, theirs, strict=True)):
        assert ours.row(row).tolist() == expected, ascii(text)
        located = tokenizer.ids_with_offsets(text)
        assert [index for index, _, _ in located] == expected, ascii(text)
        assert all(0 <= a < b <= len(text) for _, a, b in located), ascii(text)


@pytest.mark.parametrize("lower_case", [True, False])
def test_random_texts_of_awkward_characters(google, small_vocab, lower_case):
    characters = [
        *"aabbccABCeéEÉİıſ12#[]!_$^`",
        *"中文\uf900\U0002f800〇ｱアあ한ก",
        *"σςΣΣ'\u00b7\u02b0\u0345",  # case-ignorable neighbours of a sigma
        *"\u0301\u0338\u0345\u05b0\u20dd",  # accents
        *"\u1b44\u302e\u302f\U0001d15e\U0001d165\U0001d16d",  # reordered
        *" \t\n\r\x0b\x0c\x1c\x85\xa0\u1680\u2003\u2028\u2029\u3000",
        *"\0\ufffd\ufeff\u200b\u200d\xad\x7f\U000e0001",  # control characters
        *"\ud800\udfff\U0010ffff\U0001f600。，：“「\uff0d",
    ]
    rng = random.Random(0)
    texts = ["".join(rng.choices(characters, k=rng.randrange(30))) for _ in range(2000)]
    # Words that mostly are in the vocabulary, so that ids say something.
    texts += ["".join(rng.choices("abcABeΣσ 中é", k=12)) for _ in range(1000)]
    assert_same_ids(google, small_vocab, lower_case, texts)


def test_empty_and_overlong_words(google, small_vocab):
    texts = ["", " ", "\0", "\u0301", "[UNK]", "[MASK] a", "##a", "abca" * 5000]
    # 200 characters is a word, 201 is [UNK]; counted without accents, by
    # character, not by byte.
    texts += [char * n for char in "aé1中Σ" for n in (199, 200, 201)]
    texts += ["a" + "\u0301" * n + "bc" for n in (199, 200)]
    texts += ["cbacbacba", "cbacbacbab"]  # the vocabulary's longest token
    assert_same_ids(google, small_vocab, True, texts)


def read_lines(path):
    """Lines of a file, or of what it packs; what is not UTF-8 is replaced."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as packed:
            parts = [packed.read(name) for name in packed.namelist()]
    elif path.name.endswith(".tar.xz"):
        with tarfile.open(path) as packed:
            parts = [packed.extractfile(m).read() for m in packed if m.isfile()]
    elif path.suffix == ".xz":
        parts = [lzma.decompress(path.read_bytes())]
    else:
        parts = [path.read_bytes()]
    return b"\n".join(parts).decode("utf-8", "replace").split("\n")


def lines_of(folder):
    paths = sorted(p for p in (DATA / folder).rglob("*") if p.suffix != ".md")
    return [line for path in paths if path.is_file() for line in read_lines(path)]


@functools.cache
def sample(folder, characters=10_000):
    """Evenly spaced lines of the folder, about so many characters in all.

    benchmarks/parity/token_ids.py compares all of them.
    """
    lines = lines_of(folder)
    step = max(1, sum(map(len, lines)) // characters)
    return [line[:5000] for line in lines[::step]]


@needs_data
@pytest.mark.parametrize("characters", [10_000, *rarely(100_000)])
@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("vocab", ["chinese", "uncased"])
def test_real_texts(google, vocab, folder, characters):
    vocab_file = DATA / "vocab" / f"{vocab}_vocab.txt"
    for lower_case in (True, False):
        assert_same_ids(google, vocab_file, lower_case, sample(folder, characters))


def test_offsets_point_into_the_original_text(small_vocab):
    tokenizer = Tokenizer(small_vocab)

    def located(text):
        return [
            (tokenizer.tokens[index], text[start:end])
            for index, start, end in tokenizer.ids_with_offsets(text)
        ]

    assert located(" ABC\0abc! ") == [
        ("abc", "ABC"),
        ("##abc", "abc"),
        ("!", "!"),
    ]
    assert located("a\u0301b\u0301") == [("ab", "a\u0301b")]
    assert located("éÉe") == [("e", "é"), ("##e", "É"), ("##e", "e")]
    assert located("uvwxyz中") == [("[UNK]", "uvwxyz"), ("中", "中")]
    assert located("한") == [("ᄒ", "한"), ("##ᅡ", "한"), ("##ᆫ", "한")]
    assert located("ΣΣ") == [("σ", "Σ"), ("##ς", "Σ")]
    # A stem and a dot after a note head: in NFD the stem (class 216) stands
    # before the dot (226).
    head, dot, stem = "\U0001d157", "\U0001d16d", "\U0001d165"
    assert located(head + dot + stem) == [
        (head, head),
        ("##" + stem, stem),
        ("##" + dot, dot),
    ]


@needs_data
@pytest.mark.parametrize(
    ("vocab", "folder"), [("chinese", "thucnews_title"), ("uncased", "sst2")]
)
def test_offsets_equal_hugging_faces(vocab, folder):
    tokenizers = pytest.importorskip("tokenizers", reason="make test installs it")
    vocab_file = DATA / "vocab" / f"{vocab}_vocab.txt"
    ours = Tokenizer(vocab_file)
    theirs = tokenizers.BertWordPieceTokenizer(str(vocab_file))
    compared = 0
    texts = sample(folder)
    for text in texts:
        expected = theirs.encode(text, add_special_tokens=False)
        if expected.ids != ours.ids(text):
            continue  # theirs knows ideographs that Google's list lacks, ...
        spans = [(start, end) for _, start, end in ours.ids_with_offsets(text)]
        assert spans == expected.offsets, text
        compared += 1
    assert compared > 0.99 * len(texts)


def test_tokens_and_ids_are_inverse(small_vocab):
    tokenizer = Tokenizer(small_vocab)
    assert tokenizer.tokenize("ABCabc, xyz") == [
        "abc",
        "##abc",
        "[UNK]",
        "[UNK]",
    ]
    ids = [tokenizer.vocab[token] for token in tokenizer.tokens]
    assert ids == list(range(len(tokenizer.tokens)))
    special = [tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id]
    assert [*special, tokenizer.sep_id, tokenizer.mask_id] == [0, 1, 2, 3, 4]


def test_batch_rows_are_those_of_single_texts(small_vocab):
    tokenizer = Tokenizer(small_vocab)
    texts = ["abc ab", "", "中文"]
    batch = tokenizer.batch_ids(texts)
    assert batch.values.dtype == np.int32
    assert batch.offsets.tolist() == [0, 2, 2, 4]
    assert [batch.row(i).tolist() for i in range(3)] == [
        tokenizer.ids(text) for text in texts
    ]
    assert tokenizer.batch_ids([]).offsets.tolist() == [0]


def test_forgetting_words_changes_nothing(small_vocab, monkeypatch):
    expected = Tokenizer(small_vocab).ids("abc ab a abc é abc")
    monkeypatch.setattr("bert_mgpu.text.tokenization._MEMO_WORDS", 2)
    tokenizer = Tokenizer(small_vocab)
    assert tokenizer.ids("abc ab a abc é abc") == expected
    assert len(tokenizer._pieces) <= 2


def test_pickles_for_worker_processes(small_vocab):
    tokenizer = Tokenizer(small_vocab, do_lower_case=False)
    expected = tokenizer.ids("éΣ Babc")
    assert pickle.loads(pickle.dumps(tokenizer)).ids("éΣ Babc") == expected


def test_fingerprint_follows_vocabulary_and_casing(tmp_path, small_vocab):
    fingerprint = Tokenizer(small_vocab).fingerprint
    assert Tokenizer(small_vocab, False).fingerprint != fingerprint
    elsewhere = tmp_path / "elsewhere.txt"
    elsewhere.write_bytes(small_vocab.read_bytes())
    assert Tokenizer(elsewhere).fingerprint == fingerprint
    elsewhere.write_bytes(small_vocab.read_bytes() + b"\nmore")
    assert Tokenizer(elsewhere).fingerprint != fingerprint


def test_vocabulary_lines_as_in_googles_load_vocab(tmp_path):
    # Stripped; a blank line takes an id; of equal lines the last id counts
    # (bert-tensorflow 1.0.4 differs here from the code on GitHub); U+2028 ends
    # no line, and tf.gfile drops every \r.
    path = tmp_path / "vocab.txt"
    path.write_bytes("[CLS]\r\n a \n\n[SEP]\na\nx\u2028\ry\n[UNK]".encode())
    tokenizer = Tokenizer(path)
    assert tokenizer.vocab == {
        "[CLS]": 0,
        "a": 4,
        "": 2,
        "[SEP]": 3,
        "x\u2028y": 5,
        "[UNK]": 6,
    }
    assert tokenizer.ids("a z") == [4, 6]
    assert tokenizer.pad_id == 0
    with pytest.raises(UserError, match=r"vocab.txt: none of its 7 lines is \[MASK"):
        tokenizer.mask_id  # noqa: B018


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "vocab.txt: cannot read the vocabulary: No such file"),
        (b"", "vocab.txt: empty"),
        (
            b"[UNK]\n[CLS]\n\xff\xfe\n",
            r"vocab.txt:3: b'\\xff\\xfe' is not UTF-8",
        ),
        (b"[UNK]\n[SEP]\n", r"vocab.txt: none of its 2 lines is \[CLS\]"),
        (b"[UNK]\n[CLS]\n", r"vocab.txt: none of its 2 lines is \[SEP\]"),
        (b"[SEP]\n[CLS]\n", r"vocab.txt: none of its 2 lines is \[UNK\]"),
    ],
)
def test_faulty_vocabularies(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        Tokenizer(path)
    assert "\n" not in str(caught.value)
