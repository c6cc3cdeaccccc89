"""Texts that edits make: what is kept is copied, what is written fits in."""

import itertools
import random

import pytest

from bert_mgpu.text import edits
from bert_mgpu.text.edits import Edits
from bert_mgpu.text.normalization import Normalizer
from bert_mgpu.text.realise import on_one_line
from bert_mgpu.text.rewrite_source import source_of
from bert_mgpu.text.tokenization import Tokenizer
from tests.support import real_texts
from tests.support.marks import rarely
from tests.support.paths import DATA
from tests.support.realised import SPECIAL, checked, knows, tokenizer_of

HERE = pytest.mark.skipif(not DATA.is_dir(), reason=real_texts.ABSENT)
FOLDERS = sorted(path.name for path in DATA.glob("*") if path.is_dir())
# Blanks, what tokenizers drop, accents in both forms, emoji of several characters,
# full-width, Hangul, kana, ideographs of two planes, right to left, line ends.
ALPHABET = [
    *(
        "a",
        "B",
        "zz",
        "é",
        "e\u0301",
        "ß",
        "İ",
        "Σ",
        "ﬁ",
        "1",
        "23",
        "½",
        "'",
        '"',
        "-",
    ),
    *(".", ",", "!", "(", ")", "[", "]", "#", "##", "$", "’", "“", "”", "…", "—"),
    *(" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\x85", "\x1c"),
    *("\0", "\x07", "\u200b", "\u200d", "\ufeff", "\u00ad", "\ufffd", "\ud800"),
    *("😀", "👩\u200d👧", "❤\ufe0f", "🇩🇪", "Ａ", "１", "，", "。", "「", "」", "￥"),
    *(
        "한",
        "국어",
        "ㅋ",
        "は",
        "が",
        "カ",
        "ｶﾞ",
        "中",
        "文",
        "𠮷",
        "\uf900",
        "שָׁ",
        "\u302e",
    ),
]


@pytest.fixture
def tokenizer(tmp_path):
    """Knows most characters, and none of some words."""
    cut = Normalizer(True).words
    chars = {c for text in ALPHABET[:-6] for word in cut(text) for c in word}
    chars = sorted(chars - {"z", "😀", "½", "\ud800"})
    return tokenizer_of(tmp_path / "vocab.txt", [*chars, *(f"##{c}" for c in chars)])


def keep_all(source):
    count = len(source.ids)
    return Edits([True] * count, [0] * (count + 1), [])


def drawn_script(rng, source, tokenizer, rate=0.2):
    count = len(source.ids)
    keeps = [rng.random() > rate for _ in range(count)]
    counts = [rng.randint(1, 3) * (rng.random() < rate) for _ in range(count + 1)]
    known = range(len(SPECIAL), len(tokenizer.tokens))
    return Edits(keeps, counts, rng.choices(known, k=sum(counts)))


@pytest.mark.parametrize("count", [3000, *rarely(100_000)])
def test_drawn_texts_keep_what_is_kept(count, tokenizer):
    rng = random.Random(count)
    for _ in range(count):
        text = "".join(rng.choices(ALPHABET, k=rng.randrange(25)))
        marker = rng.choice(["", "[SLOT]"])
        source = source_of(text, tokenizer, marker)
        assert checked(source, keep_all(source), tokenizer) == (text, [])
        checked(source, drawn_script(rng, source, tokenizer), tokenizer)
        if marker:
            places = sorted(
                rng.randrange(len(text) + 1) for _ in range(rng.randrange(3))
            )
            cuts = itertools.pairwise([0, *places, len(text)])
            marked = marker.join(text[start:end] for start, end in cuts)
            source = source_of(marked, tokenizer, marker)
            script = drawn_script(rng, source, tokenizer)
            made = checked(source, script, tokenizer).text
            slots = [token for token in source.slot_tokens if script.counts[token]]
            assert made.count(marker) <= len(places) - len(slots)


def vocabulary(name):
    path = DATA / "vocab" / f"{name}_vocab.txt"
    return Tokenizer(path)


@HERE
@pytest.mark.parametrize(
    ("folder", "share", "least"),
    [(".", 0.002, 200), *rarely(*((folder, 1, 2000) for folder in FOLDERS))],
)
def test_real_texts_keep_what_is_kept(folder, share, least):
    rng, count = random.Random(0), 0
    tokenizer = vocabulary("chinese")
    for path in real_texts.files(folder):
        for text in real_texts.texts_of(path):
            if rng.random() > share or len(text) > 10_000:
                continue
            source, count = source_of(text, tokenizer), count + 1
            assert checked(source, keep_all(source), tokenizer) == (text, [])
            checked(source, drawn_script(rng, source, tokenizer, 0.05), tokenizer)
    assert count >= least


def scripts(name, share):
    """(source, script, target, context) of drawn pairs of real texts."""
    pairs, tokenizer = real_texts.PAIRS[name]
    rng, tokenizer = random.Random(name), vocabulary(tokenizer)
    rows = [row for row in pairs() if rng.random() <= share]
    sources = [source_of(source, tokenizer) for source, _, _ in rows]
    ids = [tokenizer.ids(target) for _, target, _ in rows]
    found = edits.edits_of([(s.ids, own) for s, own in zip(sources, ids, strict=True)])
    for source, script, own, (_, target, context) in zip(
        sources, found, ids, rows, strict=True
    ):
        made = checked(source, script, tokenizer, context=context)
        is_known = tokenizer.unk_id not in script.written
        yield made.text, target, not is_known or tokenizer.ids(made.text) == own


@HERE
@pytest.mark.parametrize("share", [0.02, *rarely(1)])
@pytest.mark.parametrize(
    ("name", "equal", "same"),
    # The least share of texts equal to the target without case; of equal tokens.
    [
        ("utterance_rewriter", 0.98, 0.999),
        ("wikisplit", 0.86, 0.999),
        ("adparaphrase_v2", 0.55, 0.97),  # voicing marks and blanks between kana go
    ],
)
def test_edits_of_real_pairs_make_the_target(name, equal, same, share):
    found = [*scripts(name, share)]
    assert len(found) > 100
    texts = sum(text.lower() == target.lower() for text, target, _ in found)
    tokens = sum(is_same for _, _, is_same in found)
    print(f"{name}: {texts} of {len(found)} texts, {tokens} rows of tokens")
    assert texts >= equal * len(found) and tokens >= same * len(found)


@pytest.mark.parametrize(
    ("source", "written", "target"),
    [
        ("<b>[SLOT]</b>", "new", "<b>new</b>"),
        ("key=[SLOT];", "new", "key=new;"),
        ("so,[SLOT] now", "new", "so, new now"),
        ("a (“[SLOT]”)", "new car", "a (“new car”)"),
        ("buy [SLOT] now", "new car", "buy new car now"),
        ("buy [SLOT]now", "new car", "buy new car now"),
        ("buy[SLOT]now", "new", "buy new now"),
        ("buy [SLOT] now", ", new", "buy, new now"),
        ("buy [SLOT] now", "", "buy [SLOT] now"),
        ("buy  [SLOT], now", "", "buy  [SLOT], now"),
        ("[SLOT]", "new car", "new car"),
        ("[SLOT]", "", "[SLOT]"),
        ("[SLOT] [SLOT]", "new", "new"),
        (" [SLOT] buy", "new", " new buy"),
        ("buy [SLOT]\n", "now", "buy now\n"),
        ("今天[SLOT]，好", "很 好", "今天很好，好"),
        ("今天 [SLOT] 好", "很", "今天 很 好"),
        ("[slot] [SLOT]", "new", "[slot] new"),
    ],
)
def test_slots_are_filled(source, written, target, tmp_path):
    tokenizer = knows(tmp_path, source, written)
    own = source_of(source, tokenizer, "[SLOT]")
    script, ids = keep_all(own), tokenizer.ids(written)
    script.counts[own.slot_tokens[0]] = len(ids)
    made = checked(own, script._replace(written=ids), tokenizer)
    assert made.text == target


@pytest.mark.parametrize(
    ("keeps", "counts", "written", "target"),
    [
        ([True, True, True], [0, 0, 0, 0], "", "a 한"),
        ([True, True, False], [0, 0, 0, 0], "", "a 하"),
        ([True, False, True], [0, 0, 1, 0], "##ᅥ", "a 헌"),
        ([True, True, True], [1, 0, 0, 0], "b", "b a 한"),
    ],
)
def test_a_syllable_is_written_by_its_parts(keeps, counts, written, target, tmp_path):
    """A Hangul syllable is several tokens with one place."""
    vocab = ["a", "b", "ᄒ", "##ᅡ", "##ᆫ", "##ᅥ"]
    tokenizer = tokenizer_of(tmp_path / "vocab.txt", vocab)
    source = source_of("a 한", tokenizer)
    assert [*map(tokenizer.tokens.__getitem__, source.ids)] == ["a", "ᄒ", "##ᅡ", "##ᆫ"]
    ids = [tokenizer.vocab[piece] for piece in written.split()]
    script = Edits([keeps[0], True, *keeps[1:]], [*counts[:2], 0, *counts[2:]], ids)
    assert checked(source, script, tokenizer).text == target


@pytest.mark.parametrize(
    ("text", "at", "written", "target"),
    [
        ("a b", 2, "# #", "a b ##"),
        ("a b", 1, "# # #", "a ###b"),
        ("a [SLOT] b", 1, "# #", "a ##b"),
        ("x", 1, "# # ##y", "x ##y"),
        ('said "a" .', 4, '" b "', 'said "a" "b" .'),
        ('said "a"', 4, '" b "', 'said "a" "b"'),
        ('said "a"', 3, '" " b', 'said "a" "b"'),
    ],
)
def test_signs_that_are_written_are_there(text, at, written, target, tmp_path):
    words = [*"abx", "said", ".", '"', "#", "##y"]
    tokenizer = tokenizer_of(tmp_path / "vocab.txt", words)
    source = source_of(text, tokenizer, "[SLOT]")
    count = len(source.ids)
    ids = [tokenizer.vocab[piece] for piece in written.split()]
    counts = [len(ids) * (place == at) for place in range(count + 1)]
    made = checked(source, Edits([True] * count, counts, ids), tokenizer)
    assert made.text == target


def test_a_deleted_word_takes_its_accents_along(tmp_path):
    """Those that stand behind a letter, of no token; and what has no width."""
    tokenizer = knows(tmp_path, "one cafe two")
    source = source_of("one cafe\u0301\u200b two", tokenizer)
    script = Edits([True, False, True], [0, 0, 0, 0], [])
    assert checked(source, script, tokenizer).text == "one two"


def test_slots_know_their_tokens(tmp_path):
    tokenizer = knows(tmp_path, "buy new car")
    own = source_of("%buy %new%car%", tokenizer, "%")
    assert own.slot_tokens == [0, 1, 2, 3]
    assert own.slots == [(0, 1), (5, 6), (9, 10), (13, 14)]
    assert tokenizer.ids("buy new car") == own.ids
    assert source_of("a.b", tokenizer, ".").slots == [(1, 2)]  # no pattern
    assert source_of("a.b", tokenizer).slots == []


def test_what_does_not_fit_stays_as_it_stands(tmp_path):
    """Tokens behind those of a script, blanks and slots among them."""
    tail = " Car\u200b  [SLOT]\u3000NOW é\n"
    tokenizer = knows(tmp_path, "buy new", tail)
    own = source_of(f"Buy [SLOT] it{tail}", tokenizer, "[SLOT]")
    script = Edits([True, False], [0, 1, 1], tokenizer.ids("new new"))
    assert checked(own, script, tokenizer).text == f"Buy new new{tail}"
    script = Edits([True, True], [0, 0, 0], [])
    assert checked(own, script, tokenizer).text == own.text
    script = Edits([True], [0, 0], [])
    assert checked(own, script, tokenizer).text == own.text
    script = Edits([True], [0, 1], tokenizer.ids("new"))
    assert checked(own, script, tokenizer).text == f"Buy new it{tail}"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        # pycorrector: quotes and blanks moved, [UNK] in the text, offsets beside emoji.
        ("他说 “你号” 了", "他说 “你好” 了"),
        ("你号 😀 “a” 世界", "你好 😀 “a” 世界"),
        ("a  你号\t世界 ", "a  你好\t世界 "),
        # Kept characters that no vocabulary has, in the middle and at the end.
        (
            "\ufeff他\u200b号𠮷龘 Ω\x07 \U000e0001",
            "\ufeff他\u200b好𠮷龘 Ω\x07 \U000e0001",
        ),
        ("ＡＢＣ　号　①", "ＡＢＣ　好　①"),
        # LaserTagger: something behind the last token.
        ("号", "号了。"),
        # All of them cut what is long.
        ("好 é\u0301  " * 3000 + "号!", "好 é\u0301  " * 3000 + "好!"),
    ],
)
def test_what_other_correctors_lose(source, target, tmp_path):
    tokenizer = knows(tmp_path, "他 说 你 好 了 号 世 界 。 “ ” a e !")
    own = source_of(source, tokenizer)
    wanted = tokenizer.ids(target)
    kept = [one == other for one, other in zip(own.ids, wanted, strict=False)]
    counts = [*(int(not keep) for keep in kept), len(wanted) - len(own.ids)]
    new = [index for index, keep in zip(wanted, kept, strict=False) if not keep]
    script = Edits(kept, counts, [*new, *wanted[len(own.ids) :]])
    assert checked(own, script, tokenizer).text == target


@pytest.mark.parametrize(
    ("text", "line", "count"),
    [
        ("a b", "a b", 0),
        ("a\r\nb\n", "a b ", 2),
        ("\r\n\r", "  ", 2),
        ("a\u2028\x85\x0bb", "a\u2028\x85\x0bb", 0),  # those do not end lines of files
    ],
)
def test_texts_of_several_lines_are_written_on_one(text, line, count):
    assert on_one_line(text) == (line, count)
