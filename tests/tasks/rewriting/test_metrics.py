"""Scores of rewritten texts, against LaserTagger's SARI and sacrebleu's command."""

import collections
import json
import random
import subprocess
import sys

import numpy as np
import pytest

from bert_mgpu.tasks.rewriting import metrics
from bert_mgpu.text import edits
from bert_mgpu.text.edits import Edits, TokenEdit
from tests.support import real_texts
from tests.support.paths import DATA

HERE = pytest.mark.skipif(not DATA.is_dir(), reason=real_texts.ABSENT)


@HERE
@pytest.mark.parametrize("beta", [0, 1])
def test_sari_is_lasertaggers(beta):
    path = DATA / "rewrite_data" / "golden" / "sari.json"
    cases = json.loads(path.read_text("utf-8"))
    assert len(cases) == 123
    for case in cases:
        texts = case["source"], case["prediction"], case["targets"]
        actual = metrics.sari(*texts, beta=beta)._asdict()
        assert actual == pytest.approx(case[f"beta{beta}"], abs=1e-9), texts


def test_sari_counts_what_the_paper_counts():
    """By hand, for a text with one word each that is kept, deleted and added."""
    actual = metrics.sari(["a", "b"], ["a", "c"], [["a", "d"]])
    # Words: keep 1; of "c" and "d" none is right; b goes. Pairs: "a b" goes, too,
    # and all else is 0 / 0 or wrong.
    assert actual.keep == (1 + 1 + 1 + 1) / 4
    assert actual.addition == (0 + 0 + 1 + 1) / 4
    assert actual.deletion == 1
    assert actual.sari == pytest.approx((1 + 0.5 + 1) / 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a new  car.", ["a", "new", "car."]),
        ("我用iPhone，好", ["我", "用", "iPhone", "，", "好"]),
        ("カナ ok", ["カ", "ナ", "ok"]),
        ("서울 도시", ["서울", "도시"]),
        ("", []),
    ],
)
def test_words(text, words):
    assert metrics.words(text) == words


ENGLISH = (
    [
        "the cat sat on the mat .",
        "He said 3.5 % , no ! yes-\nand no",
        "",
        "It's late now.",
    ],
    [
        "the cat sat on a mat .",
        "He said 3.5 % , no ! yes- and more",
        "a b",
        "It's late.",
    ],
    "13a",
)
CHINESE = (
    ["西安今天的天气怎么样", "iphone为什么不好用呢 ", "我现在就要签名", "好"],
    ["西安今天天气怎么样", "iphone为什么不好用", "我现在就要签名", "很好"],
    "zh",
)

JAPANESE = (
    ["これはとてもよいカバンです", "東京のホテル", "お得な商品"],
    ["これはとてもよいかばんです", "東京の人気ホテル", "人気の商品"],
    "char",
)


@pytest.mark.parametrize(("predicted", "targets", "name"), [ENGLISH, CHINESE, JAPANESE])
def test_bleu_is_that_of_sacrebleus_command(predicted, targets, name, tmp_path):
    """Of files with a text on each line, as predict.txt has them."""
    for file, texts in (("said", predicted), ("true", targets)):
        lines = "".join(text.replace("\n", " ") + "\n" for text in texts)
        (tmp_path / file).write_text(lines, encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "true", "-i", "said", "-tok", name]
    out = subprocess.check_output([*command, "-w", "12"], cwd=tmp_path, text=True)
    answer = json.loads(out)
    actual = metrics.bleu_of(predicted, targets)
    assert actual.score == pytest.approx(answer["score"], abs=1e-10)
    assert 10 < actual.score < 90
    assert actual.signature == answer["signature"]
    assert f"tok:{name}" in actual.signature


@pytest.mark.parametrize(
    ("targets", "name"),
    [
        (["好 a"], "13a"),
        (["好好 a"], "zh"),
        (["好", "abc"], "13a"),
        (["好好の"], "char"),
        (["好の a", "bc"], "13a"),
        (["九個好的商品之の今天天气"], "zh"),  # a name, say
    ],
)
def test_most_characters_decide_on_the_tokenizer(targets, name):
    assert f"tok:{name}" in metrics.bleu_of(targets, targets).signature


def drawn_edits(rng):
    places = sorted(rng.sample(range(9), 4))
    found = zip(places[::2], places[1::2], strict=True)
    return [TokenEdit(*place, (rng.randrange(2),)) for place in found]


def test_scores_of_edits_are_those_of_sets():
    """Against sets of all rows together."""
    rng = random.Random(0)
    for _ in range(200):
        rows = rng.randrange(1, 9)
        sides = [
            [drawn_edits(rng)[: rng.randrange(3)] for _ in range(rows)] for _ in "ab"
        ]
        said, true = (
            {(row, *edit) for row, own in enumerate(side) for edit in own}
            for side in sides
        )
        right = len(said & true)
        wrong, missed = len(said - true), len(true - said)
        precision = right / (right + wrong) if said else 0
        recall = right / (right + missed) if true else 0
        f_half = 1.25 * right / (1.25 * right + 0.25 * missed + wrong) if right else 0
        wanted = [100 * precision, 100 * recall, 100 * f_half]
        assert metrics.edit_scores(*sides) == pytest.approx(wanted)
    assert metrics.edit_scores([], []) == (0, 0, 0)


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        (Edits([], [0], []), []),
        (Edits([], [1], [7]), [(0, 0, (7,))]),
        (Edits([True, True], [0, 0, 0], []), []),
        (Edits([True, False, True], [0, 2, 0, 0], [7, 8]), [(1, 2, (7, 8))]),
        # Wherever it is written between the two that are kept.
        (Edits([True, False, True], [0, 1, 1, 0], [7, 8]), [(1, 2, (7, 8))]),
        (
            Edits([False, True, True], [0, 0, 1, 1], [7, 8]),
            [(0, 1, ()), (2, 2, (7,)), (3, 3, (8,))],
        ),
        (Edits([False, False], [0, 0, 1], [7]), [(0, 2, (7,))]),
    ],
)
def test_edits_stand_between_tokens_that_are_kept(script, wanted):
    assert edits.token_edits(script) == wanted


def test_all_scores_beside_those_of_copying():
    sources = ["a b c", "a b", "b"]
    targets = ["a x c", "a b", "b c"]
    predicted = ["a x c", "a", "b"]
    ids = [
        [[*map(ord, text)] for text in side] for side in (sources, predicted, targets)
    ]
    said, true = (
        [
            edits.token_edits(script)
            for script in edits.edits_of([*zip(ids[0], side, strict=True)])
        ]
        for side in ids[1:]
    )
    values, signature = metrics.scores(
        sources, predicted, targets, edits=said, true_edits=true
    )
    assert [*values] == [*metrics.NAMES] and "version:" in signature
    assert values["exact_match"] == pytest.approx(100 / 3)
    assert values["changed"] == pytest.approx(200 / 3)
    assert values["edit_precision"] == values["edit_recall"] == 50
    assert values["edit_f0.5"] == pytest.approx(50)
    parts = [values[f"sari_{name}"] for name in ("keep", "addition", "deletion")]
    assert values["sari"] == pytest.approx(sum(parts) / 3)
    copied, _ = metrics.scores(
        sources, sources, targets, edits=[[]] * 3, true_edits=true
    )
    assert copied["exact_match"] == pytest.approx(100 / 3)
    counts = collections.Counter(copied[name] for name in metrics.NAMES[6:])
    assert counts == {0: 4}  # no edits, nothing changed


@pytest.mark.parametrize("marker", ["[SLOT]", "[S]"])
def test_slot_markers_are_no_words(marker):
    """SARI and BLEU are those of texts with blanks in their places."""
    marked = [f"很美，{marker}。", f"buy{marker}now", f"{marker} a b c d"]
    plain, targets = (
        ["很美， 。", "buy now", " a b c d"],
        ["很美，好。", "buy it now", "e a b c d"],
    )
    for said, said_plain in ((targets, targets), (marked, plain)):
        edits = {"edits": [[]] * 3, "true_edits": [[]] * 3}
        own, _ = metrics.scores(marked, said, targets, slot_marker=marker, **edits)
        other, _ = metrics.scores(plain, said_plain, targets, **edits)
        for name in ("sari", "sari_keep", "sari_addition", "sari_deletion", "bleu"):
            assert own[name] == pytest.approx(other[name]), name
        assert own["changed"] == 100.0 * (said is targets)
    found = metrics.text_sari(marked[2], marked[2], targets[2], slot_marker=marker)
    assert found == pytest.approx(100 * (1 + 0 + 1) / 3)


def test_no_rows_have_no_scores():
    values, _ = metrics.scores([], [], [], edits=[], true_edits=[])
    assert {*values.values()} == {0} and [*values] == [*metrics.NAMES]


def test_the_interval_of_exact_matches_and_texts_that_stay_as_they_are():
    sources = [f"text {n}" for n in range(100)]
    targets = [f"{text} !" if n % 2 else text for n, text in enumerate(sources)]
    found = metrics.trust(sources, targets, targets)
    assert found.intervals["exact_match"] == pytest.approx((96.3, 100.0), abs=0.1)
    assert found.intervals["sari"] == (100.0, 100.0)
    assert found.one_answer == ""
    copied = metrics.trust(sources, sources, targets)
    low, high = copied.intervals["exact_match"]
    assert 40 < low < 50 < high < 60
    each = [metrics.text_sari(s, s, t) for s, t in zip(sources, targets, strict=True)]
    middle, error = np.mean(each), np.std(each) / 10
    assert copied.intervals["sari"] == pytest.approx(
        (middle - 1.96 * error, middle + 1.96 * error), abs=error / 5
    )
    assert copied.one_answer == "0 of 100 texts are changed, where 50 should be"
    few = [*targets[:10], *sources[10:]]  # five of fifty
    assert metrics.trust(sources, few, targets).one_answer == ""
    assert metrics.trust(sources[:9], sources[:9], targets[:9]).one_answer == ""
