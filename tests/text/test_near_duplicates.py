"""Near texts: none is missed, none is invented; rapidfuzz counts the edits."""

import random
import time

import pytest
from rapidfuzz.distance import Levenshtein

from bert_mgpu.text import near_duplicates
from bert_mgpu.text.near_duplicates import bare, edits_allowed
from tests.support import real_texts
from tests.support.paths import DATA

LETTERS = "abcdefghij klmno."


def edited(text, count, rng):
    """The text after so many edits, of which some may undo others."""
    chars = list(text)
    for _ in range(count):
        place = rng.randrange(len(chars) + 1)
        end = place + rng.randrange(2)  # nothing, or a character, makes way
        chars[place:end] = rng.choice(["", "x", "yz"[place % 2]])
    return "".join(chars)


def sample(rng, count, longest):
    sizes = [rng.randrange(1, longest) for _ in range(count)]
    return ["".join(rng.choices(LETTERS, k=size)) for size in sizes]


def are_near(one, other):
    one, other = bare(one), bare(other)
    most = edits_allowed(min(len(one), len(other)))
    return bool(one) and Levenshtein.distance(one, other) <= most


@pytest.mark.parametrize("seed", range(3))
def test_all_that_are_near_and_no_others_are_found(seed):
    """Against the comparison of each with each."""
    rng = random.Random(seed)
    texts = sample(rng, 120, 130)
    texts += [edited(text, rng.randrange(8), rng) for text in texts]
    wanted = [
        next((i for i, other in enumerate(texts[:n]) if are_near(text, other)), -1)
        for n, text in enumerate(texts)
    ]
    assert near_duplicates.first_near([(text,) for text in texts]).tolist() == wanted
    assert 50 < sum(first >= 0 for first in wanted) < 110


def test_edits_are_counted_as_rapidfuzz_does():
    rng = random.Random(7)
    outcomes = set()
    for text in sample(rng, 3000, 260):
        one, other = bare(text), bare(edited(text, rng.randrange(16), rng))
        most = edits_allowed(min(len(one), len(other)))
        wanted = Levenshtein.distance(one, other) <= most
        assert near_duplicates.differ_little(one, other) == wanted, (one, other)
        outcomes.add((most, wanted))
    assert len(outcomes) == 2 * 11  # 0 to 10 edits, too many or not


LONG = "the film is a joy from its first minute on"


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("A fine film!", "a  fine film", True),
        ("Ａ fine ﬁlm", "a fine film", True),  # full width, a ligature
        ("don’t “go”…", "don't \"go\"...", True),
        ("a fine film", "a fine farm", False),  # too short for an edit
        (LONG, LONG.replace("joy", "toy"), True),
        (LONG, LONG.replace("joy", "pain"), False),
        (f"{LONG} in 2010", f"{LONG} in 2011", False),
        (f"{LONG} of 1.5", f"{LONG} of 15", False),
        (f"{LONG} 第四章", f"{LONG} 第八章", False),  # Chinese numbers, too
        ("good 😀", "good 😡", False),  # symbols are no punctuation
        ("?!", "...", False),  # nothing to compare
        ("", "", False),
    ],
)  # fmt: skip
def test_what_counts_as_near(one, other, near):
    first = near_duplicates.first_near([(one,), (other,)])
    assert first.tolist() == [-1, 0 if near else -1]


def test_both_texts_of_a_pair_have_to_be_near():
    """A long context would hide that another question is asked."""
    context = " ".join([LONG] * 9)
    rows = [
        ("who wrote it", context),
        ("who read it", context),
        ("Who wrote it?", context),
    ]
    assert near_duplicates.first_near(rows).tolist() == [-1, -1, 0]  # fmt: skip
    assert near_duplicates.first_near([("a b", "c"), ("a", "b c")]).tolist() == [-1, -1]


def test_the_first_row_is_named_over_a_later_one_that_is_nearer():
    near = LONG.replace("joy", "toy")
    rows = [(text,) for text in (LONG, near, near.upper(), LONG + "!")]
    assert near_duplicates.first_near(rows).tolist() == [-1, 0, 0, 0]


def test_many_rows_take_seconds():
    rng = random.Random(3)
    texts = sample(rng, 20_000, 200)
    chosen = rng.sample(range(20_000), 500)
    texts += [texts[index].upper() + "!" for index in chosen]
    start = time.process_time()
    first = near_duplicates.first_near([(text,) for text in texts])
    assert time.process_time() - start < 20
    found = first[20_000:]
    asked = [texts[index] for index in chosen]
    near = [are_near(texts[n], one) for n, one in zip(found, asked, strict=True)]
    assert near == [bool(bare(text)) for text in asked]


def test_thousands_of_variants_of_one_text_end_soon():
    rng = random.Random(4)
    texts = [edited(" ".join([LONG, *LETTERS]), 2, rng) for _ in range(3000)]
    start = time.process_time()
    first = near_duplicates.first_near([(text,) for text in texts])
    assert time.process_time() - start < 20
    assert (first >= 0).mean() > 0.9


@pytest.mark.skipif(not DATA.is_dir(), reason=real_texts.ABSENT)
@pytest.mark.parametrize("name", ["sst2/train.tsv", "thucnews_title/sub_train.txt"])
def test_real_texts_are_near_as_rapidfuzz_says(name):
    """All pairs that are found; and all of the first 700 rows, with planted ones."""
    rng = random.Random(5)
    texts = [line.rpartition("\t")[0] for line in real_texts.texts_of(DATA / name)]
    found = near_duplicates.first_near([(text,) for text in texts])
    pairs = [(text, texts[n]) for text, n in zip(texts, found, strict=True) if n >= 0]
    assert pairs and all(are_near(one, other) for one, other in pairs)
    some = texts[:600] + [edited(text, 1, rng) for text in texts[:100]]
    first = near_duplicates.first_near([(text,) for text in some]).tolist()
    for number, text in enumerate(some):
        near = (i for i in range(number) if are_near(text, some[i]))
        wanted = next(near, -1) if number >= 600 else first[number]
        numbers = [near_duplicates._numbers((one,)) for one in (text, some[wanted])]
        assert first[number] == wanted or numbers[0] != numbers[1]
