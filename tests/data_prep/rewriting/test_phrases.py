"""Counts, the index on the disk and likeness, against plain code and scikit-learn."""

import collections
import pickle
import random

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from bert_mgpu.core.rng import philox
from bert_mgpu.data_prep import ad_files, phrase_mining, phrase_neighbours
from bert_mgpu.data_prep.phrase_index import LONGEST, IndexWriter
from bert_mgpu.data_prep.phrase_mining import Cutting, Phrase
from bert_mgpu.data_prep.phrase_neighbours import Neighbours
from bert_mgpu.data_prep.rewrite_pairs import Negatives, PhraseSource

NONE = dict.fromkeys(Phrase._fields[1:], 0)


def phrases(count, letters="abcd一二😀", longest=9, seed=1):
    rng = random.Random(seed)
    made = {
        "".join(rng.choices(letters, k=rng.randint(1, longest))) for _ in range(count)
    }
    return sorted(made)


def index_of(folder, texts):
    writer = IndexWriter(folder / "index")
    for text in texts:
        writer.add(text)
    return writer.close()


@pytest.mark.parametrize("fan_in", [2, 3, 128])
def test_runs_are_merged_as_counters_add_up(tmp_path, monkeypatch, fan_in):
    monkeypatch.setattr(phrase_mining, "_FAN_IN", fan_in)
    rng = random.Random(3)
    totals, runs = collections.Counter(), []
    for number in range(7):
        own = collections.Counter(rng.choices(phrases(60), k=40))
        totals.update(own)
        path = tmp_path / f"{number}.run"
        rows = (
            Phrase(t, **NONE | {"times": n, "ads": 1}) for t, n in sorted(own.items())
        )
        phrase_mining.write_run(path, rows)
        runs.append(path)
    target = tmp_path / "all"
    phrase_mining.merge_runs(runs, target)
    merged = list(phrase_mining.read_run(target))
    assert [(p.text, p.times) for p in merged] == sorted(totals.items())
    assert [path.name for path in tmp_path.iterdir()] == ["all"]


def test_the_commonest_come_first(tmp_path):
    rng = random.Random(4)
    rows = [Phrase(t, **NONE | {"times": rng.randint(0, 200)}) for t in phrases(500)]
    ordered = list(phrase_mining.most_frequent_first(iter(rows), tmp_path))
    assert ordered == sorted(rows, key=lambda p: (-p.times, p.text))


def test_phrases_by_number_and_by_length(tmp_path):
    texts = sorted([*phrases(400), "長" * LONGEST, "長" * 200, "短" * 300])
    index = pickle.loads(pickle.dumps(index_of(tmp_path, texts)))
    wanted = sorted(texts, key=lambda t: (min(len(t), LONGEST), t))
    assert len(index) == len(texts)
    assert [index[n] for n in range(len(index))] == wanted
    assert index.texts(3, 70) == wanted[3:70]
    for low in range(-3, 12):
        for high in range(low, 14):
            first, after = index.of_lengths(low, high)
            assert wanted[first:after] == [t for t in wanted if low <= len(t) <= high]
    first, after = index.of_lengths(LONGEST + 5, 1000)
    assert wanted[first:after] == wanted[-3:]


def test_an_empty_index(tmp_path):
    index = index_of(tmp_path, [])
    phrase_neighbours.build(index)
    source = PhraseSource(index, Neighbours(index))
    for kind in ("random", "length", "near"):
        wanted = Negatives(kind, 2)
        assert source.draw("ab", wanted, [[1]] * 2, is_taken=lambda _: False) == []


def test_draws_are_uniform_and_never_taken(tmp_path):
    texts = phrases(40)
    source = PhraseSource(index_of(tmp_path, texts), None)
    free = {text for text in texts if "a" not in text}
    words = philox.words(philox.Stream(1, philox.Purpose.ADS), 0, 40_000).tolist()
    actual = collections.Counter()
    for first in range(0, len(words), 8):
        (text,) = source.draw(
            "x",
            Negatives("random", 1),
            [words[first : first + 8]],
            is_taken=lambda text: "a" in text,
        )
        actual[text] += 1
    count = len(words) / 8
    assert {*actual} == free
    spread = np.array([*actual.values()]) - count / len(free)
    assert (np.abs(spread) < 5 * (count / len(free)) ** 0.5).all()


@pytest.mark.parametrize("kind", ["random", "length", "near"])
def test_all_that_there_are_where_more_are_wanted(tmp_path, kind):
    texts = phrases(30)
    index = index_of(tmp_path, texts)
    phrase_neighbours.build(index)
    source = PhraseSource(index, Neighbours(index))
    there = sorted({*texts} - {"a", "b", "ab"})
    for wanted in (99, len(there)):
        drawn = source.draw(
            "abc",
            Negatives(kind, wanted),
            [[0, 0, 0, 0]] * wanted,
            is_taken="ab".__contains__,
        )
        assert sorted(drawn) == there


def test_such_a_length_is_widened_only_where_it_must(tmp_path):
    texts = ["a", "bbbb", "ccccccc", "dddddddddd"]
    source = PhraseSource(index_of(tmp_path, texts), None)

    def draw(taken):
        wanted = Negatives("length", 1)
        return source.draw("xxxxx", wanted, [[7, 7]], is_taken=taken.__contains__)

    assert draw([])[0] in ("bbbb", "ccccccc") and draw(["bbbb"]) == ["ccccccc"]
    assert draw(["bbbb", "ccccccc"]) == ["a"]
    assert draw(["bbbb", "ccccccc", "a"]) == ["dddddddddd"] and draw(texts) == []


def drawn_slowly(texts, phrase, words, is_taken):
    """As "length" draws: each range is looked through again for every phrase."""
    drawn = []
    for own in words:
        within, text = 2, None
        while text is None:
            low = min(max(len(phrase) - within, 0), LONGEST)
            high = min(len(phrase) + within, LONGEST)
            some = [t for t in texts if low <= min(len(t), LONGEST) <= high]
            tried = [word * len(some) >> 32 for word in own] if some else []
            last = tried[-1] if some else 0
            tried += [(last + step) % len(some) for step in range(1, len(some))]
            free = (some[number] for number in tried)
            free = (t for t in free if t not in drawn and not is_taken(t))
            text = next(free, None)
            if text is None and len(some) == len(texts):
                return drawn
            within *= 2
        drawn.append(text)
    return drawn


@pytest.mark.parametrize("count", [3, 60, 999])
def test_each_phrase_is_read_once_and_the_same_ones_are_drawn(tmp_path, count):
    texts = sorted(phrases(300), key=lambda t: (min(len(t), LONGEST), t))
    index = index_of(tmp_path, sorted(texts))
    reads = collections.Counter()

    class Counted(type(index)):
        def __getitem__(self, number):
            reads[number] += 1
            return super().__getitem__(number)

    source = PhraseSource(Counted(index.folder), None)
    words = philox.words(philox.Stream(2, philox.Purpose.ADS), 0, count)
    words, wanted = words.reshape(count, -1).tolist(), Negatives("length", count)
    for phrase in ("abc", "abcdefg", "x" * 200):
        reads.clear()
        drawn = source.draw(phrase, wanted, words, is_taken="ab".__contains__)
        assert drawn == drawn_slowly(texts, phrase, words, "ab".__contains__)
        assert {*reads.values()} == {1}


@pytest.mark.parametrize("at_once", [7, 1 << 14])
def test_the_most_alike_are_scikit_learns(tmp_path, monkeypatch, at_once):
    """Cosines of binary vectors of character pairs, weighted by log((1 + N) / df)."""
    monkeypatch.setattr(phrase_neighbours, "_AT_ONCE", at_once)
    texts = sorted(phrases(600), key=lambda t: (len(t), t))
    index = index_of(tmp_path, sorted(texts))
    phrase_neighbours.build(index)
    near = pickle.loads(pickle.dumps(Neighbours(index)))
    counter = CountVectorizer(
        analyzer="char", ngram_range=(2, 2), lowercase=False, binary=True
    )
    vectors = counter.fit_transform(texts).toarray()
    vectors = vectors * np.log((1 + len(texts)) / vectors.sum(0))
    for text in phrases(50, seed=9):
        own = counter.transform([text]).toarray()[0] * vectors.max(0)
        scores = cosine_similarity([own], vectors)[0]
        low, high = index.of_lengths(len(text) - 2, len(text) + 2)
        numbers = near.of(text, (low, high), 20)
        assert all(low <= number < high for number in numbers)
        best = np.sort(scores[low:high])[::-1][: len(numbers)]
        np.testing.assert_allclose(scores[numbers], best, rtol=1e-5)
        assert len(numbers) == min(20, (scores[low:high] > 0).sum())


def test_pairs_that_many_phrases_have_are_looked_at_evenly(tmp_path, monkeypatch):
    monkeypatch.setattr(phrase_neighbours, "_MOST", 10)
    texts = sorted(f"ab{n:03}" for n in range(200))
    index = index_of(tmp_path, texts)
    phrase_neighbours.build(index)
    numbers = Neighbours(index).of("abx", (0, 200), 99)
    assert sorted(numbers) == list(range(0, 200, 20))
    rare = Neighbours(index).of("ab23", (0, 200), 99)  # those of rare pairs: all
    assert {"ab023", "ab123"} <= {index[n] for n in rare} and len(rare) == 10


def test_repeated_ads_are_found_in_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(ad_files, "_IN_MEMORY", 10)
    rng = np.random.default_rng(5)
    hashes = rng.integers(0, 2**64, 40, np.uint64)[rng.integers(0, 40, 333)]
    hashes.tofile(tmp_path / "hashes")
    actual = ad_files._first_of_each(tmp_path / "hashes", len(hashes))
    _, firsts = np.unique(hashes, return_index=True)
    assert actual.nonzero()[0].tolist() == sorted(firsts.tolist())


def test_the_side_of_an_ad_follows_from_its_hash_and_the_seed():
    hashes = np.random.default_rng(6).integers(0, 2**64, 40_000, np.uint64)

    def side(share, seed):
        return Cutting("，", 1, None, dev_share=share, seed=seed).is_dev(hashes)

    share = side(0.1, 1).mean()
    assert abs(share - 0.1) < 4 * (0.09 / len(hashes)) ** 0.5
    assert not (side(0.1, 1) & ~side(0.3, 1)).any()  # a larger share keeps its ads
    assert abs((side(0.1, 1) & side(0.1, 2)).mean() - 0.01) < 0.003
    assert not side(0, 1).any()
