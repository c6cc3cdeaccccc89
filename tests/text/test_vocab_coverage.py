"""What a corpus lacks in a vocabulary, counted, and the tokens chosen for it."""

import collections

import numpy as np
import pytest

from bert_mgpu.core import terminal
from bert_mgpu.data_prep import vocab_report
from bert_mgpu.text import vocab_coverage
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.vocab_coverage import CandidateWord, Census, Tally
from tests.support.paths import DATA

HEADLINES = DATA / "thucnews_title/sub_dev.txt"
VOCAB = HEADLINES.parents[1] / "vocab" / "chinese_vocab.txt"
TEXTS = [
    "abc ab abcc 中文",
    "中☃☃ abcabc x!",
    "",
    "Ábc ABC éa 字",
    "☃ x 12 1212 中 \u200b",
    "abab abab 1a",
]


def rows_of(texts):
    return [(f"f:{number}", text) for number, text in enumerate(texts, 1)]


def census_of(vocab_file, texts, lower=True, **options):
    census = Census(Tokenizer(vocab_file, lower), **options)
    for block in vocab_coverage.in_blocks(rows_of(texts), characters=12):
        census.add(block)
    return census


@pytest.mark.parametrize("lower", [True, False])
def test_rates_are_those_of_googles_tokenizer(google, small_vocab, lower):
    tokenizer = Tokenizer(small_vocab, lower)
    ids = sum(google(small_vocab, lower, TEXTS), [])
    words = sum(google(small_vocab, lower, TEXTS, words=True), [])
    alone = google(small_vocab, lower, words)
    totals = census_of(small_vocab, TEXTS, lower).totals
    assert totals.rows == len(TEXTS)
    assert totals.words == len(words)
    assert totals.characters == sum(map(len, words))
    assert totals.tokens == len(ids)
    assert totals.unknown == ids.count(tokenizer.unk_id) > 0
    assert totals.cut == sum(len(pieces) > 1 for pieces in alone) > 0
    assert totals.pieces == sum(len(pieces) for pieces in alone if len(pieces) > 1)


@pytest.mark.skipif(
    not VOCAB.exists(), reason="the real headlines are in ../shared, which is not here"
)
def test_rates_of_real_headlines():
    texts = HEADLINES.read_text(encoding="utf-8").splitlines()
    tokenizer = Tokenizer(VOCAB)
    ids = tokenizer.batch_ids(texts).values
    totals = census_of(VOCAB, texts).totals
    assert totals.tokens == len(ids)
    assert totals.unknown == (ids == tokenizer.unk_id).sum()


def test_what_is_found_has_counts_places_and_pieces(small_vocab):
    actual = {one.word: one for one in census_of(small_vocab, TEXTS).candidates()}
    assert actual["☃"] == CandidateWord("☃", 1, "f:5")
    assert actual["字"] == CandidateWord("字", 1, "f:4")
    assert actual["☃☃"] == CandidateWord("☃☃", 1, "f:2")
    assert actual["x"] == CandidateWord("x", 2, "f:2")
    assert actual["abcc"] == CandidateWord("abcc", 1, "f:1", pieces=("abc", "##c"))
    assert actual["abcabc"] == CandidateWord(
        "abcabc", 1, "f:2", pieces=("abc", "##abc")
    )
    assert actual["ea"] == CandidateWord("ea", 1, "f:4", pieces=("e", "##a"))
    assert "abc" not in actual and "中" not in actual  # tokens
    assert len(actual) == 10  # and 1212 ("##12" is no token), abab, 1a


def test_the_most_useful_words_stand_first(small_vocab):
    """☃☃ loses two characters each time, abcc one piece, abcabca two."""
    texts = ["abcc abcc abcc abcabca ☃☃", "abcabca"]
    actual = census_of(small_vocab, texts).candidates()
    assert [(one.word, one.saved) for one in actual] == [
        ("abcabca", 4),
        ("abcc", 3),
        ("☃☃", 2),
    ]


def test_a_tally_of_few_words_is_exact():
    tally = Tally(most=5)
    tally.add({"a": 2, "b": 1}, [("f:1", ["a", "b", "a"])])
    tally.add({"b": 3, "c": 2}, [("f:2", ["b", "c"]), ("f:3", ["b", "c", "b"])])
    assert tally.counts == {"a": 2, "b": 4, "c": 2} and tally.missed == 0
    assert tally.locations == {"a": "f:1", "b": "f:1", "c": "f:2"}


def test_a_tally_keeps_its_bounds_and_what_is_frequent():
    rng = np.random.default_rng(0)
    true, tally = collections.Counter(), Tally(most=100)
    for number in range(200):
        words = [f"w{rank}" for rank in rng.zipf(1.3, 200) if rank < 10**6]
        true.update(words)
        tally.add(collections.Counter(words), [(f"f:{number}", words)])
        assert len(tally.counts) <= 100
        assert tally.locations.keys() == tally.counts.keys()
    assert tally.missed > 0
    for word, count in true.items():
        assert tally.counts[word] <= count <= tally.counts[word] + tally.missed
    frequent = [word for word, count in true.items() if count > tally.missed]
    assert len(frequent) > 5 and tally.counts.keys() >= set(frequent)


def test_forgotten_words_are_said_and_rates_stay_exact(small_vocab):
    texts = [f"abc x{n} x0" for n in range(50)]
    census = census_of(small_vocab, texts, most=10)
    assert census.totals.unknown == 100
    assert census.uncovered.counts["x0"] == 51
    assert census.uncovered.missed > 0
    lines = " ".join(vocab_report.lists(census, census.candidates()))
    assert f"lack words that occur at most {census.uncovered.missed} times" in lines


def test_blocks_hold_all_rows_in_order():
    rows = rows_of(["a" * size for size in (3, 30, 1, 1, 1, 12, 0)])
    blocks = list(vocab_coverage.in_blocks(rows, characters=10))
    assert [len(block) for block in blocks] == [2, 4, 1]
    assert sum(blocks, []) == rows


CUT = ("a", "##b")


def test_the_choice_of_new_tokens():
    actual = [
        CandidateWord("rare", 4, "", pieces=CUT),
        CandidateWord("often", 9, "", pieces=CUT),
        CandidateWord("☃☃", 5, ""),
        CandidateWord("usual", 9, "", pieces=CUT),
        CandidateWord("2023", 50, "", pieces=CUT),
        CandidateWord("٣", 5, ""),  # a number that is unknown
        CandidateWord("x" * 41, 9, "", pieces=CUT),
        CandidateWord("mp3", 6, "", pieces=CUT),
    ]
    chosen = vocab_coverage.choose(actual, 5, None)
    assert [one.word for one in chosen] == ["☃☃", "often", "usual", "mp3", "٣"]
    assert [one.word for one in vocab_coverage.choose(actual, 5, 2)] == ["☃☃", "often"]


def test_places_of_new_tokens():
    tokens = ["[PAD]", "[unused1]", "a", "[unused]", "[unused12]", "unused3", "[UNK]"]
    assert vocab_coverage.free_rows(tokens) == [1, 4]
    assert vocab_coverage.new_rows(tokens, 1, "unused") == [1]
    assert vocab_coverage.new_rows(tokens, 5, "unused") == [1, 4]
    assert vocab_coverage.new_rows(tokens, 2, "append") == [7, 8]


@pytest.mark.parametrize("char", "中\u3400\uf900\U00020000")
def test_ideographs(char):
    assert vocab_coverage.is_ideograph(char)


@pytest.mark.parametrize("char", ["a", "é", "の", "한", "！", "1", "☃", " "])
def test_what_is_no_ideograph(char):
    assert not vocab_coverage.is_ideograph(char)


def test_words_of_several_ideographs_never_become_a_token(google, tmp_path):
    """Neither here nor in Google's code, even where they are in the vocabulary."""
    vocab = tmp_path / "vocab.txt"
    words = ["[UNK]", "[CLS]", "[SEP]", "中", "文", "中文", "##文"]
    vocab.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    assert google(vocab, True, ["中文"]) == [[3, 4]]
    assert Tokenizer(vocab).ids("中文") == [3, 4]
    texts = ["中文ab，中文", "文中"]
    census = census_of(vocab, texts, segment=lambda t: [t[:2], t[2:5], t[5:]])
    assert census.compounds.counts == {"中文": 2, "文中": 1}
    assert census.frequent_compounds(1) == [CandidateWord("中文", 2, "f:1")]
    lines = " ".join(vocab_report.lists(census, census.candidates()))
    assert "words of several CJK characters: 2 different, 3 times" in lines
    assert "0 of them come out as one token" in lines


def test_a_report_fits_into_80_columns(small_vocab):
    texts = ["字" + "ab" * 60 + " ☃" * 3 + "☃" * 99 + " 好" for _ in range(3)]
    census = Census(Tokenizer(small_vocab), lambda text: ["字好" * 30])
    census.add(
        [("/long/path/长长长" * 9 + f":{n}", text) for n, text in enumerate(texts)]
    )
    lines = vocab_report.lists(census, census.candidates())
    totals = census.totals
    lines += vocab_report.rates([("before", totals), ("after", totals)]).splitlines()
    assert max(map(terminal.width, lines)) <= 80
    assert len(lines) > 20


def test_rates_are_shares_in_percent():
    totals = vocab_coverage.CoverageTotals(
        1, words=400, characters=1000, tokens=500, unknown=2, cut=50, pieces=150
    )
    lines = vocab_report.rates([("", totals)]).splitlines()
    values = dict(line.rsplit(maxsplit=1) for line in lines)
    assert values["tokens a word"] == "1.250"
    assert values["tokens a character"] == "0.500"
    assert values["[UNK], % of tokens"] == "0.400"
    assert values["[UNK], % of words"] == "0.500"
    assert values["words in several pieces, % of words"] == "12.500"
    assert values["pieces of such a word"] == "3.000"
    empty = vocab_report.rates([("", vocab_coverage.CoverageTotals())])
    assert empty.count("-\n") + empty.endswith("-") == 6


def test_only_unknown_signs_become_plain_ones(tmp_path):
    path = tmp_path / "signs.txt"
    path.write_text('[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"\n.\n“\n')
    unknown = ["”", "…", "‘", "好"]  # no token is like the third
    found = vocab_coverage.plain_characters(Tokenizer(path), unknown)
    assert found == {"”": '"', "…": "..."}
