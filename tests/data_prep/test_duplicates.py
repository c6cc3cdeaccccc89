"""The share of texts that were there before, exact or estimated."""

import numpy as np

from bert_mgpu.data_prep.duplicates import Distinct, hashes


def test_duplicates_are_counted_exactly_while_they_are_few():
    distinct = Distinct(most=100)
    texts = [f"text {n % 80}" for n in range(200)]
    for start in range(0, 200, 37):
        distinct.add(np.frombuffer(hashes(texts[start : start + 37]), np.uint64))
    assert distinct.is_exact and distinct.counted == 200
    assert distinct.duplicate_share == 1 - 80 / 200


def test_duplicates_are_estimated_when_they_are_many():
    """150,000 texts, of which 37,500 come twice more: a third are duplicates."""
    rng = np.random.default_rng(1)
    once = rng.integers(0, 2**64, 150_000, dtype=np.uint64)
    all_of_them = np.concatenate([once, once[:37_500], once[:37_500]])
    shares = []
    for order in (all_of_them, rng.permutation(all_of_them)):
        distinct = Distinct(most=10_000)
        for part in np.array_split(order, 50):
            distinct.add(part)
        assert not distinct.is_exact
        assert 5_000 * 1.2 < distinct.counted < 10_000 * 1.8
        shares.append(distinct.duplicate_share)
    assert shares[0] == shares[1]  # whatever the order
    assert abs(shares[0] - 1 / 3) < 0.02


def test_hashes_are_the_same_in_every_process():
    # blake2b("abc", digest_size=8), as its authors' b2sum -l 64 gives it.
    assert hashes(["abc", ""]).hex() == "d8bb14d833d59559" + "e4a6a0577479b2b4"
