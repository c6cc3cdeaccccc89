"""Scripts of edits, against all that there are for short texts."""

import itertools
import random

import pytest
from rapidfuzz.distance import LCSseq

from bert_mgpu.text import edits
from bert_mgpu.text.tokenization import Tokenizer
from tests.support import real_texts
from tests.support.marks import rarely
from tests.support.paths import DATA


def all_scripts(source, target):
    """(tokens kept, places written to, which are kept) of every script of a pair."""
    for count in range(min(len(source), len(target)) + 1):
        for own in itertools.combinations(range(len(source)), count):
            for places in itertools.combinations(range(len(target)), count):
                if [source[i] for i in own] == [target[i] for i in places]:
                    ends = [-1, *places, len(target)]
                    gaps = zip(ends, ends[1:], strict=False)
                    yield count, sum(end - first > 1 for first, end in gaps), own


def test_scripts_keep_the_most_and_write_at_the_fewest_places():
    rng = random.Random(0)
    pairs = [
        tuple([rng.randrange(3) for _ in range(rng.randrange(7))] for _ in range(2))
        for _ in range(1500)
    ]
    for pair, script in zip(pairs, edits.edits_of(pairs), strict=True):
        source, target = pair
        assert edits.realised(source, script) == target
        scripts = [*all_scripts(source, target)]
        most = max(kept for kept, _, _ in scripts)
        fewest = min(places for kept, places, _ in scripts if kept == most)
        assert sum(script.keeps) == most
        assert sum(count > 0 for count in script.counts) == fewest
        own = tuple(i for i, kept in enumerate(script.keeps) if kept)
        assert (most, fewest, own) in scripts


@pytest.mark.parametrize(
    ("source", "target", "keeps", "counts"),
    [
        ("", "", "", "0"),
        ("", "ab", "", "2"),
        ("ab", "", "..", "000"),
        ("ab", "ab", "kk", "000"),
        ("ab", "abc", "kk", "001"),  # appended: before the end
        ("abcd", "axd", "k..k", "01000"),  # before the first deleted token
        ("aa", "a", ".k", "000"),  # deleted as early as can be
        ("abc", "xabc", "kkk", "1000"),
        # Two tokens are kept either way; so one place is enough.
        ("abab", "abxyab", "kkkk", "00200"),
        ("acb", "axyb", "k.k", "0200"),
    ],
)
def test_scripts_by_hand(source, target, keeps, counts):
    script = next(edits.edits_of([([*map(ord, source)], [*map(ord, target)])]))
    assert "".join(".k"[kept] for kept in script.keeps) == keeps
    assert "".join(map(str, script.counts)) == counts
    assert "".join(map(chr, edits.realised([*map(ord, source)], script))) == target


def test_texts_of_all_lengths_are_worked_on_together():
    """Each pair has the script that it has alone."""
    rng = random.Random(1)
    pairs = [
        tuple([rng.randrange(9) for _ in range(rng.randrange(40))] for _ in range(2))
        for _ in range(600)
    ]
    together = [*edits.edits_of(pairs)]
    assert together == [next(edits.edits_of([pair])) for pair in pairs]


def check_against_rapidfuzz(pairs):
    """As many tokens are kept as can be, and the target comes out."""
    for (source, target), script in zip(pairs, edits.edits_of(pairs), strict=True):
        assert edits.realised(source, script) == target
        assert sum(script.keeps) == LCSseq.similarity(source, target)
        assert sum(script.counts) == len(script.written)
        assert len(script.counts) == len(source) + 1 == len(script.keeps) + 1


def changed(rng, tokens, most):
    """Tokens some of which are left out, repeated, replaced, or moved."""
    tokens = [*tokens]
    for _ in range(rng.randrange(8)):
        place, end = sorted(rng.randrange(len(tokens) + 1) for _ in range(2))
        new = [rng.randrange(most) for _ in range(rng.randrange(4))]
        moved = tokens[place:end] if rng.random() < 0.2 else []
        tokens = [*moved, *tokens[:place], *new, *tokens[min(end, place + 5) :]]
    return tokens


@pytest.mark.parametrize("count", [1000, *rarely(10_000)])
def test_drawn_pairs_keep_what_rapidfuzz_keeps(count):
    rng, pairs = random.Random(count), []
    for _ in range(count):
        most = rng.choice([2, 5, 50, 30_000])
        source = [rng.randrange(most) for _ in range(rng.randrange(60))]
        pairs.append((source, changed(rng, source, most)))
    check_against_rapidfuzz(pairs)


@pytest.mark.skipif(not DATA.is_dir(), reason=real_texts.ABSENT)
@pytest.mark.parametrize("share", [0.03, *rarely(1)])
@pytest.mark.parametrize("name", [*real_texts.PAIRS])
def test_real_pairs_keep_what_rapidfuzz_keeps(name, share):
    rows, vocabulary = real_texts.PAIRS[name]
    tokenizer = Tokenizer(DATA / "vocab" / f"{vocabulary}_vocab.txt")
    rng = random.Random(0)
    pairs = [
        (tokenizer.ids(source), tokenizer.ids(target))
        for source, target, _ in rows()
        if rng.random() <= share
    ]
    assert len(pairs) > 200
    check_against_rapidfuzz(pairs)


def test_a_long_pair_takes_the_memory_of_its_own_table():
    """Others beside it are worked on apart: together they would take gigabytes."""
    rng = random.Random(2)
    long = [rng.randrange(9) for _ in range(1200)]
    short = [([1, 2], [2, 1])] * 300
    pairs = [*short, (long, changed(rng, long, 9)), *short]
    sizes = [len(block) for block in edits._blocks(pairs)]
    assert sizes == [300, 1, 300]
    check_against_rapidfuzz(pairs)


@pytest.mark.parametrize("most", [0, 30])
def test_a_pair_that_is_too_long_has_one_replacement(monkeypatch, most):
    """Its table would take gigabytes; what comes of it is the target all the same."""
    monkeypatch.setattr(edits, "_MOST_CELLS", most)
    monkeypatch.setattr(edits, "_CELLS", 0)  # each pair alone, as long ones are
    drawn = random.Random(5)
    pairs = [
        tuple([drawn.randrange(3) for _ in range(drawn.randrange(9))] for _ in "ab")
        for _ in range(300)
    ]
    for (source, target), own in zip(pairs, edits.edits_of(pairs), strict=True):
        assert edits.realised(source, own) == target
        if (len(source) + 1) * (len(target) + 1) > most:
            assert sum(map(bool, own.counts)) <= 1
            assert len(edits.token_edits(own)) <= 1
