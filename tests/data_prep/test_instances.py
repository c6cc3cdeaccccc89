"""Rows of each objective: Google's distribution, bert-ad's rules, no token lost."""

import array
import itertools
import json
import random

import numpy as np
import pytest

from bert_mgpu.data_prep import instances, mask_rows
from bert_mgpu.data_prep.instances import Documents, assemble, plan
from bert_mgpu.text.masking import Masking
from tests.reference import instance_cases as cases
from tests.support.paths import GOLDEN

GOLDEN = json.loads((GOLDEN / "instances.json").read_text())
WIDTH = 16
UNIT = 100  # token i of sentence s is s * UNIT + i


def block(documents, starts=None, labels=None, context=0):
    """documents: lists of lists of ids."""
    sentences = [s for d in documents for s in d]
    return Documents(
        np.array([i for s in sentences for i in s], np.int32),
        starts,
        array.array("q", np.cumsum([0, *map(len, sentences)]).tolist()),
        documents=array.array("q", np.cumsum([0, *map(len, documents)]).tolist()),
        labels=labels,
        context=context,
    )


def numbered(sizes):
    """Sentence s of all documents has the tokens s * UNIT, s * UNIT + 1, ..."""
    begins = itertools.count(0, UNIT)
    return [
        [list(range(b, b + n)) for n, b in zip(d, begins, strict=False)] for d in sizes
    ]


def texts(made, pieces):
    """(first, second) text of each row."""
    return [
        (made.ids[a:b].tolist(), made.ids[c:d].tolist())
        for a, b, c, d in pieces.tolist()
    ]


@pytest.fixture(scope="module")
def made():
    ids = {token: number for number, token in enumerate(cases.vocabulary())}
    return block([[[ids[t] for t in s] for s in d] for d in cases.documents()])


def our_rows(made, case, seed):
    length, most, short = cases.CASES[case]
    how = Masking(
        "token", cases.MASK, len(cases.vocabulary()), probability=0.15, most=most
    )
    draws, rng = random.Random(seed), np.random.default_rng(seed)
    for _ in range(cases.DUPES):
        rows = plan("nsp", made, length, short_seq_prob=short, rng=draws)
        batch = assemble(made, rows.spans, length, cls_id=cases.CLS, sep_id=cases.SEP)
        masked = mask_rows.mask_rows(how, batch, rng)
        for i, size in enumerate(batch.lengths.tolist()):
            count = int(masked.weights[i].sum())
            yield cases.Row(
                masked.input_ids[i, :size].tolist(),
                batch.segment_ids[i, :size].tolist(),
                masked.positions[i, :count].tolist(),
                masked.labels[i, :count].tolist(),
                int(rows.labels[i]),
            )


@pytest.mark.parametrize("case", cases.CASES)
def test_pairs_and_masks_have_googles_distribution(made, case):
    """Number of rows, lengths, random next, where texts are cut, masks, 80/10/10."""
    runs = [
        cases.statistics(our_rows(made, case, seed), cases.CASES[case][0])
        for seed in range(2 * cases.RUNS)
    ]
    ours, google = cases.summary(runs), GOLDEN[case]
    assert ours.keys() == google.keys()
    for name, actual in ours.items():
        error = np.hypot(actual["error"], google[name]["error"])
        off = abs(actual["mean"] - google[name]["mean"])
        assert off <= 4 * error + 1e-9, (name, actual, google[name])


def test_a_pair_is_two_slices_and_the_label_says_how_they_belong_together(made):
    documents = cases.documents()
    tokens = cases.vocabulary()
    rows = plan("nsp", made, 64, short_seq_prob=0.1, rng=random.Random(1))
    seen = set()
    for (first, second), label in zip(
        texts(made, rows.spans), rows.labels, strict=True
    ):
        (first_document, *_), (second_document, *_) = (
            {tokens[i].split("y")[0] for i in t} for t in (first, second)
        )
        for text in (first, second):
            assert text == list(range(text[0], text[0] + len(text)))
        assert len(first) + len(second) <= 61
        seen.add((int(label), first_document == second_document, second[0] > first[-1]))
        if not label:
            assert first_document == second_document and second[0] > first[-1]
    assert len(documents) > 1 and {(0, True, True), (1, False, True)} <= seen
    # Ten tries find another document among 60.
    assert not any(label and same for label, same, _ in seen)


def test_one_document_is_its_own_random_next():
    made = block(numbered([[3, 4, 5, 6]]))
    rows = plan("nsp", made, WIDTH, short_seq_prob=0.0, rng=random.Random(1))
    assert len(rows.spans) >= 1


def test_context_gives_random_sentences_and_no_rows():
    made = block(numbered([[5, 5]] * 8), context=6)
    owners, others = set(), set()
    for seed in range(40):
        rows = plan("nsp", made, 9, short_seq_prob=0.0, rng=random.Random(seed))
        for (first, second), label in zip(
            texts(made, rows.spans), rows.labels, strict=True
        ):
            owners.add(first[0] // UNIT // 2)
            if label:
                others.add(second[0] // UNIT // 2)
    assert owners == {6, 7} and others == set(range(8))
    for objective, count in (("mlm", 4), ("documents", 2)):
        assert (
            len(
                plan(
                    objective, made, 12, short_seq_prob=0.0, rng=random.Random(0)
                ).spans
            )
            == count
        )


def test_each_sentence_is_a_row_of_mlm():
    """bert-ad's create_pretraining_data_mlm.py."""
    documents = numbered([[1, 20], [14, 15, 3]])
    rows = plan(
        "mlm", block(documents), WIDTH, short_seq_prob=0.5, rng=random.Random(1)
    )
    wanted = [(s[: WIDTH - 2], []) for d in documents for s in d]
    assert texts(block(documents), rows.spans) == wanted
    assert rows.labels is None


def test_documents_fill_rows_and_lose_nothing():
    sizes = [[4, 5, 5, 6, 20, 3, 31, 1], [14], [15], [1], [7, 8]]
    documents = numbered(sizes)
    made = block(documents)
    rows = plan("documents", made, WIDTH, short_seq_prob=0.0, rng=random.Random(1))
    actual = [len(first) for first, _ in texts(made, rows.spans)]
    # 14 tokens a row: whole sentences while they fit, longer ones in parts.
    assert actual == [14, 6, 14, 9, 14, 14, 4, 14, 14, 1, 1, 7, 8]
    assert [
        i for first, _ in texts(made, rows.spans) for i in first
    ] == made.ids.tolist()
    ends = {i for d in made.documents[1:] for i in [made.sentences[d]]}
    assert ends <= set(rows.spans[:, 1].tolist())


def test_documents_aim_lower_at_times():
    made = block(numbered([[1] * 90] * 400))
    longest = []
    rows = plan("documents", made, WIDTH, short_seq_prob=0.5, rng=random.Random(1))
    starts = np.searchsorted(made.sentences, rows.spans[:, 0]) // 90
    for number in range(400):
        here = rows.spans[starts == number]
        longest.append(int((here[:, 1] - here[:, 0]).max()))
    counts = np.bincount(longest, minlength=15)
    assert counts[:2].sum() == 0 and counts[15:].sum() == 0
    # A short one is uniform over 2 to 14 tokens: 13 lengths.
    share = 0.5 + 0.5 / 13
    error = (share * (1 - share) / 400) ** 0.5
    assert abs(counts[14] / 400 - share) < 4 * error
    assert counts[2:14].min() > 0


def test_pairs_of_phrase_and_ad():
    """bert-ad's create_pretraining_data_mass.py, without its crash."""
    sizes = [
        [2, 3],
        [1, 9],
        [4, 4],
        [3, 30],
        [6, 30],
        [7, 30],
        [20, 30],
        [0, 5],
        [2, 0],
    ]
    labels = np.arange(len(sizes), dtype=np.int32) % 2
    made = block(numbered(sizes), labels=labels)
    rows = plan("infill", made, WIDTH, short_seq_prob=0.1, rng=random.Random(1))
    actual = [(len(a), len(b)) for a, b in texts(made, rows.spans)]
    # 13 tokens for both: the ad loses what is too much, and must still be longer.
    assert actual == [(2, 3), (3, 10), (6, 7)]
    assert rows.labels.tolist() == [0, 1, 0]
    for first, second in texts(made, rows.spans):
        assert first[0] % UNIT == 0 and second[0] == first[0] + UNIT


def test_assembled_rows_are_googles():
    made = block(numbered([[3, 2]]))
    pieces = np.array([[0, 3, 3, 5], [1, 3, 0, 0], [2, 3, 0, 5]])
    batch = assemble(made, pieces, 10, cls_id=cases.CLS, sep_id=cases.SEP)
    c, s = cases.CLS, cases.SEP
    assert batch.input_ids.tolist() == [
        [c, 0, 1, 2, s, 100, 101, s, 0, 0],
        [c, 1, 2, s, 0, 0, 0, 0, 0, 0],
        [c, 2, s, 0, 1, 2, 100, 101, s, 0],
    ]
    assert batch.segment_ids.tolist() == [
        [0, 0, 0, 0, 0, 1, 1, 1, 0, 0],
        [0] * 10,
        [0, 0, 0, 1, 1, 1, 1, 1, 1, 0],
    ]
    assert batch.lengths.tolist() == [8, 4, 9]
    assert batch.is_text.astype(int).tolist() == [
        [0, 1, 1, 1, 0, 1, 1, 0, 0, 0],
        [0, 1, 1, 0, 0, 0, 0, 0, 0, 0],
        [0, 1, 0, 1, 1, 1, 1, 1, 0, 0],
    ]
    assert batch.starts is None


def test_what_is_left_of_a_cut_word_is_a_word():
    starts = np.array([True, False, False, True, False])
    made = block(numbered([[3, 2]]), starts=starts)
    pieces = np.array([[1, 3, 4, 5], [0, 3, 0, 0]])
    batch = assemble(made, pieces, 8, cls_id=cases.CLS, sep_id=cases.SEP)
    assert batch.starts.astype(int).tolist() == [
        [1, 1, 0, 1, 1, 1, 0, 0],
        [1, 1, 0, 0, 1, 0, 0, 0],
    ]


def whole_word_rows(count=4000):
    """A row of words of 1, 2, 4 and 1, 3 tokens, many times."""
    begins = np.array([1, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0], bool)
    made = block(numbered([[7, 4]]), starts=begins)
    pieces = np.tile([[0, 7, 7, 11]], (count, 1))
    return assemble(made, pieces, 20, cls_id=cases.CLS, sep_id=cases.SEP)


def test_whole_words_as_masks_of_one_row_at_a_time():
    """Which tokens are masked, and how often, is what masking.apply does."""
    batch = whole_word_rows()
    how = Masking("token", 1999, 2000, probability=0.3, most=20)
    together = mask_rows._words(how, batch, np.random.default_rng(1))
    alone = mask_rows._one_by_one(how, batch, np.random.default_rng(2))
    sets = []
    for masked in (together, alone):
        assert masked.kept.all()
        chosen = np.zeros(batch.input_ids.shape, bool)
        row, place = masked.weights.nonzero()
        chosen[row, masked.positions[row, place]] = True
        np.testing.assert_array_equal(
            masked.labels[row, place],
            batch.input_ids[row, masked.positions[row, place]],
        )
        untouched = ~chosen
        np.testing.assert_array_equal(
            masked.input_ids[untouched], batch.input_ids[untouched]
        )
        sets.append({})
        for line in chosen.astype(int).tolist():
            key = tuple(line)
            sets[-1][key] = sets[-1].get(key, 0) + 1
        put = masked.input_ids[chosen]
        share = (put == how.mask_id).mean()
        assert abs(share - 0.8) < 4 * (0.16 / len(put)) ** 0.5
        kept = (put == batch.input_ids[chosen]).mean()
        assert abs(kept - 0.1) < 4 * (0.09 / len(put)) ** 0.5
    assert sets[0].keys() == sets[1].keys()
    rows = len(batch.input_ids)
    for key, count in sets[0].items():
        share = (count + sets[1][key]) / 2 / rows
        error = (2 * share * (1 - share) / rows) ** 0.5
        assert abs(count - sets[1][key]) / rows < 4.5 * error, key


def test_positions_ascend_and_zeros_follow():
    batch = whole_word_rows(50)
    how = Masking("token", cases.MASK, 2000, probability=0.3, most=20)
    masked = mask_rows.mask_rows(how, batch, np.random.default_rng(1))
    assert masked.positions.shape == (50, 20)
    for row in range(50):
        count = int(masked.weights[row].sum())
        assert masked.weights[row].tolist() == [1.0] * count + [0.0] * (20 - count)
        positions = masked.positions[row]
        assert (np.diff(positions[:count]) > 0).all()
        assert not positions[count:].any() and not masked.labels[row, count:].any()


def test_a_row_without_a_word_that_fits_is_not_kept():
    starts = np.array([True, False, False, True])
    made = block(numbered([[3], [1]]), starts=starts)
    pieces = np.array([[0, 3, 0, 0], [3, 4, 0, 0]])
    batch = assemble(made, pieces, 8, cls_id=cases.CLS, sep_id=cases.SEP)
    for kind in ("token", "span"):
        how = Masking(kind, cases.MASK, 2000, probability=0.15, most=2)
        masked = mask_rows.mask_rows(how, batch, np.random.default_rng(1))
        assert masked.kept.tolist() == [False, True]
        np.testing.assert_array_equal(masked.input_ids[0], batch.input_ids[0])


def test_spans_come_from_masking(made):
    rows = plan("nsp", made, 64, short_seq_prob=0.0, rng=random.Random(1))
    batch = assemble(made, rows.spans[:64], 64, cls_id=cases.CLS, sep_id=cases.SEP)
    how = Masking("span", cases.MASK, 2000, probability=0.15, most=20)
    masked = mask_rows.mask_rows(how, batch, np.random.default_rng(1))
    gaps = [
        gap
        for row in range(64)
        for gap in np.diff(masked.positions[row, : int(masked.weights[row].sum())])
    ]
    # Single tokens would be neighbours in 15 % of the cases.
    assert np.mean(np.array(gaps) == 1) > 0.4


def test_equal_seeds_give_equal_rows(made):
    for objective in instances.OBJECTIVES[:3]:
        first, again, other = (
            plan(objective, made, 32, short_seq_prob=0.5, rng=random.Random(seed)).spans
            for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(first, again)
        assert objective == "mlm" or not np.array_equal(first, other)
