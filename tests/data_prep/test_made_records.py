"""The records that data_prep/create_pretraining_data.py writes, for each objective."""

import collections
import itertools
import json
import os
import pathlib

import numpy as np
import pytest

from bert_mgpu.data_prep import tokenized
from tests.reference import instance_cases as cases
from tests.support.preparation import (
    FEATURES,
    LENGTH,
    MLM,
    MOST,
    names,
    parse,
    ragged,
    restored,
    sentences,
)


def test_google_reads_the_records(prepare, work):
    code, err = prepare(output_file="a,b,c")
    assert code == 0, err
    actual = [parse(name, FEATURES) for name in "abc"]
    counts = [len(rows["input_ids"]) for rows in actual]
    assert max(counts) - min(counts) <= 1 and counts == sorted(counts, reverse=True)
    assert names("a") == {tuple(sorted(FEATURES))}
    rows = {n: np.concatenate([one[n] for one in actual]) for n in FEATURES}
    known = set(itertools.chain(*sentences())) | {cases.CLS, cases.SEP}
    for i, ids in enumerate(restored(rows)):
        size = len(ids)
        assert set(ids) <= known and ids[0] == cases.CLS and ids[-1] == cases.SEP
        assert not rows["input_ids"][i, size:].any()
        middle = ids.index(cases.SEP)
        segments = [0] * (middle + 1) + [1] * (size - middle - 1)
        assert rows["segment_ids"][i].tolist() == segments + [0] * (LENGTH - size)
        masks = int(rows["masked_lm_weights"][i].sum())
        assert masks == min(MOST, max(1, round(0.15 * size)))
    side = json.loads(pathlib.Path(".a.json").read_text())
    assert side["rows"] == counts[0] and side["counts"]["rows"] == sum(counts)
    assert side["settings"]["max_seq_length"] == LENGTH
    assert sorted(os.listdir()) == sorted(
        [*"abc", ".a.json", ".b.json", ".c.json", "text", "vocab.txt"]
    )


@pytest.mark.parametrize("objective", ["nsp", "documents", "mlm"])
@pytest.mark.parametrize("at_once", [1, 7])
def test_long_documents_become_ids_in_parts(prepare, monkeypatch, objective, at_once):
    prepare(output_file="whole", objective=objective)
    monkeypatch.setattr(tokenized, "_SENTENCES", at_once)
    prepare(output_file="parts", objective=objective)
    assert pathlib.Path("whole").read_bytes() == pathlib.Path("parts").read_bytes()


def test_rows_are_shuffled_over_all_blocks(prepare, small_blocks):
    prepare(objective="mlm", dupe_factor=1)
    order = [ids[1] for ids in restored(parse("out.tfrecord", MLM))]
    first = {s[0]: place for place, s in enumerate(sentences())}
    places = np.array([first[token] for token in order])
    assert sorted(places) == list(range(len(places)))
    # The rank correlation of a random order has a standard error of 1 / sqrt(n).
    assert (
        abs(np.corrcoef(places, np.arange(len(places)))[0, 1]) < 4 / len(places) ** 0.5
    )
    steps = np.abs(np.diff(places)).mean() / len(places)
    assert abs(steps - 1 / 3) < 4 * (1 / 18 / len(places)) ** 0.5


def test_mlm_makes_each_sentence_a_row(prepare):
    prepare(objective="mlm", dupe_factor=2, max_seq_length=LENGTH)
    assert names("out.tfrecord") == {tuple(sorted(MLM))}
    actual = collections.Counter(map(tuple, restored(parse("out.tfrecord", MLM))))
    wanted = [(cases.CLS, *s[: LENGTH - 2], cases.SEP) for s in sentences()]
    assert actual == collections.Counter(wanted * 2)


def test_documents_lose_no_token(prepare):
    prepare(objective="documents", dupe_factor=1)
    rows = parse("out.tfrecord", MLM)
    actual = [token for ids in restored(rows) for token in ids[1:-1]]
    assert sorted(actual) == sorted(itertools.chain(*sentences()))
    assert not rows["segment_ids"].any()


def test_dynamic_masking_writes_tokens_alone(prepare):
    code, err = prepare(dynamic_masking=True, dupe_factor=7, masked_lm_prob=0.3)
    assert code == 0
    assert "--masked_lm_prob, --max_predictions_per_seq: without effect" in err
    assert "masked:" not in err
    assert names("out.tfrecord") == {
        ("input_ids", "next_sentence_labels", "segment_ids")
    }
    known = set(itertools.chain(*sentences())) | {cases.CLS, cases.SEP}
    ids, segments = (ragged("out.tfrecord", n) for n in ("input_ids", "segment_ids"))
    for row, segment in zip(ids, segments, strict=True):
        assert set(row) <= known and len(row) == len(segment) <= LENGTH
        assert row[0] == cases.CLS and row[-1] == cases.SEP
    assert 60 < len(ids) < 600  # once
    prepare(dynamic_masking=True, objective="documents")
    assert names("out.tfrecord") == {("input_ids", "segment_ids")}


def test_dynamic_masking_says_where_words_begin(prepare):
    pathlib.Path("text").write_text("x0y0y1y2 x0y3 x1y0y7\n")
    prepare(dynamic_masking=True, objective="mlm", do_whole_word_mask=True)
    (ids,) = ragged("out.tfrecord", "input_ids")
    tokens = pathlib.Path("vocab.txt").read_text().split("\n")
    assert [tokens[i] for i in ids] == [
        *("[CLS]", "x0y0", "##y1", "##y2", "x0y3", "x1y0", "##y7", "[SEP]")
    ]
    assert ragged("out.tfrecord", "word_starts") == [[1, 1, 0, 0, 1, 1, 0, 1]]


@pytest.mark.parametrize("masking", ["token", "span"])
def test_whole_words_are_masked_or_not(prepare, masking):
    words = [f"x{n}y0y{n}y{n + 1}" for n in range(30)]
    pathlib.Path("text").write_text(
        "".join(" ".join(words[:10]) + "\n" for _ in range(40))
    )
    prepare(
        objective="mlm", do_whole_word_mask=True, masking=masking, masked_lm_prob=0.3
    )
    rows = parse("out.tfrecord", MLM)
    for positions, weights in zip(
        rows["masked_lm_positions"], rows["masked_lm_weights"], strict=True
    ):
        masked = positions[weights > 0]
        assert len(masked) == 3  # of 5 at most, a word has three
        assert masked[0] % 3 == 1 and (np.diff(masked) == 1).all()


def test_rows_of_words_that_never_fit_are_counted_and_left_out(prepare):
    pathlib.Path("text").write_text("x0y0y1y2\nx0y0 x0y1\n")
    code, err = prepare(objective="mlm", do_whole_word_mask=True, dupe_factor=3)
    assert code == 0
    why = "in which no word fits --max_predictions_per_seq or --masked_lm_prob"
    assert f"left out: 3 rows {why}" in err
    assert len(parse("out.tfrecord", MLM)["input_ids"]) == 3


def test_chinese_words(prepare):
    pytest.importorskip("rjieba", reason="Chinese words need the package rjieba")
    text = "赛博朋克新游戏上线"
    pathlib.Path("vocab.txt").write_text("\n".join([*cases.SPECIAL, *text]) + "\n")
    pathlib.Path("text").write_text(text + "\n")
    pathlib.Path("words").write_text("赛博朋克\n")
    # 赛博 朋克 新 游戏 上线 to jieba, and 赛博朋克 to who knows the game.
    for words, starts in (
        (None, [1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1]),
        ("words", [1, 1, 0, 0, 0, 1, 1, 0, 1, 0, 1]),
    ):
        prepare(
            objective="mlm", segmenter="jieba", user_dict=words, dynamic_masking=True
        )
        assert ragged("out.tfrecord", "word_starts") == [starts]


def infill_lines():
    def words(document, count):
        return " ".join(f"x{document}y{i}" for i in range(count))

    return [
        f"1\tx\t{words(9, 3)}\t{words(13, 9)}",
        f" 0 \t\t{words(14, 2)}\t{words(13, 9)}\tand {words(13, 1)}",
        f"1\tx\t{words(9, 1)}\t{words(13, 9)}",  # phrase of one token
        f"0\tx\t{words(9, 3)}\t{words(13, 3)}",  # no longer than the phrase
        f"0\tx\t\u200b\t{words(13, 3)}",  # phrase of no token
        f"1\tx\t{words(9, 3)}",  # three columns
        "",
        f"1\tx\t{words(14, 14)}\t{words(13, 60)}",
    ]


def test_infill_pairs(prepare):
    pathlib.Path("text").write_text("\n".join(infill_lines()))
    code, err = prepare(objective="infill", dupe_factor=3, max_predictions_per_seq=MOST)
    assert code == 0, err
    assert "left out: 1 lines with fewer than 4 columns, the first is text:6" in err
    assert "left out: 9 rows too short" in err  # three, three times
    rows = parse("out.tfrecord", FEATURES)
    assert len(rows["input_ids"]) == 9
    for i, ids in enumerate(restored(rows)):
        phrase = ids.index(cases.SEP) - 1
        flag = {3: 1, 2: 0, 14: 1}[phrase]
        assert rows["next_sentence_labels"][i] == flag
        masked = rows["masked_lm_positions"][i][rows["masked_lm_weights"][i] > 0]
        assert len(masked) == min(phrase, MOST) and (np.diff(masked) == 1).all()
        assert masked[0] >= phrase + 2 and masked[-1] < len(ids) - 1
        assert len(ids) <= LENGTH


def test_infill_never_masks_a_slot(prepare):
    """bert-ad's rows, in which a segment of the ad is a run of quotation marks."""

    def words(document, count):
        return " ".join(f"x{document}y{i}" for i in range(count))

    lines = [f"1\t2\t{words(3, 4)}\t{words(5, 6)} “““““ {words(7, 5)}"] * 40
    lines += [f"0\t2\t{words(3, 4)}\t{words(5, 3)} “““““ {words(7, 3)}"]  # no place
    pathlib.Path("text").write_text("\n".join(lines))
    code, err = prepare(objective="infill", max_predictions_per_seq=MOST)
    assert code == 0, err
    assert "left out: 2 rows too short to be masked, or full of [UNK]" in err
    rows = parse("out.tfrecord", FEATURES)
    for ids in restored(rows):
        assert ids.count(cases.UNK) == 5
    here = rows["masked_lm_weights"] > 0
    assert here.sum() == 80 * 4
    assert not (rows["masked_lm_ids"][here] == cases.UNK).any()


def test_root_data_path_is_bert_ads(prepare, work):
    (work / "root").mkdir()
    (work / "text").rename(work / "root" / "text")
    code, err = prepare(root_data_path="root", slice_name="part", output_file="a,b")
    assert code == 0, err
    assert {"part_a", "part_b"} <= set(os.listdir("root"))
    assert prepare(root_data_path="root")[0] == 0
    assert (work / "root" / "slice_1_out.tfrecord").exists()


def test_a_seed_gives_the_same_bytes_and_another_others(prepare, small_blocks):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        prepare(output_file=name, random_seed=seed)
    a, b, c = (pathlib.Path(name).read_bytes() for name in "abc")
    assert a == b != c
